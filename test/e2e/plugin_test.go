//go:build e2e

package e2e_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/test/e2e/harness"
)

// A program with a plugin compiled in schedules by a profile that names it: pods that need a licence go where
// there are any, two shards give away no more than there are, and other pods go anywhere. The program without the
// plugin refuses the profile.
func TestPlugin(t *testing.T) {
	s := newStack(t, "")
	config := filepath.Join(programs.Root, "examples", "plugin.yaml")
	refused, err := programs.Command(t.Context(), "up", "--kubeconfig", s.cluster.Kubeconfig, "--config", config)
	s.no(err)
	if refused.Code == 0 || !strings.Contains(refused.Stderr, `"Licences": want one of DefaultBinder`) {
		t.Errorf("berth without the plugin: exit %d, %s", refused.Code, refused.Stderr)
	}
	s.up(harness.UpConfig{Shards: 2, Binders: 2, Config: config, Program: s.example()})
	s.addNodes(nodeSpec{name: "plain-0"}, nodeSpec{name: "plain-1"}, nodeSpec{name: "few"}, nodeSpec{name: "many"})
	s.label("few", "example.com/licences", "2")
	s.label("many", "example.com/licences", "4")
	ns := s.namespace("plugin")

	needing := func(p *corev1.Pod) { p.Labels = map[string]string{"licence": "needed"} }
	s.create(newPods(ns, "licensed", 6, "100m", needing)...)
	on := map[string]int{}
	for _, pod := range s.bound(ns, 6, placedWithin) {
		on[pod.Spec.NodeName]++
	}
	if on["few"] != 2 || on["many"] != 4 {
		t.Errorf("pods by node %v, want 2 on few and 4 on many", on)
	}
	s.create(newPod(ns, "late", "100m", needing))
	s.unschedulable(ns, "late", "0/4 nodes are available: 4 node(s) had no licence left.")
	s.create(newPods(ns, "plain", 3, "100m")...)
	s.bound(ns, 9, placedWithin)
	s.label("plain-0", "example.com/licences", "1") // wakes it
	for _, pod := range s.bound(ns, 10, placedWithin) {
		if pod.Name == "late" && pod.Spec.NodeName != "plain-0" {
			t.Errorf("pod late is on %s, want it on plain-0", pod.Spec.NodeName)
		}
	}
	s.audit()
}

func (s *stack) label(node, key, value string) {
	s.Helper()
	patch := fmt.Appendf(nil, `{"metadata": {"labels": {%q: %q}}}`, key, value)
	_, err := s.client.CoreV1().Nodes().Patch(s.Context(), node, types.MergePatchType, patch, metav1.PatchOptions{})
	s.no(err)
}

// example builds the program of cmd/berth/example.
func (s *stack) example() string {
	s.Helper()
	program := filepath.Join(s.dir, "example")
	build := exec.CommandContext(s.Context(), "go", "build", "-o", program, "./cmd/berth/example")
	build.Dir = programs.Root
	if out, err := build.CombinedOutput(); err != nil {
		s.Fatalf("%v: %s", err, out)
	}
	return program
}
