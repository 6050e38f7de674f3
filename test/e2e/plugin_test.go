//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/test/e2e/harness"
)

// A program with plugins compiled in schedules by a profile that names them: pods that need a licence are placed on
// nodes that have some, two shards assign no more than exist, each pod has its number before it is bound, and other
// pods are placed anywhere. Pods of a group wait for each other, with their places held. One plugin binds by itself.
// The program without the plugins refuses the profile.
func TestPlugin(t *testing.T) {
	t.Parallel()
	s := newStack(t, "")
	config := filepath.Join(programs.Root, "examples", "plugin.yaml")
	refused, err := programs.Command(t.Context(), "up", "--kubeconfig", s.cluster.Kubeconfig, "--config", config)
	s.must(err)
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
	numbers := map[string]bool{}
	for _, pod := range s.bound(ns, 6, placedWithin) {
		on[pod.Spec.NodeName]++
		number := pod.Annotations["example.com/licence-number"]
		if numbers[number] || !strings.HasPrefix(number, pod.Spec.NodeName+"-") {
			t.Errorf("pod %s on %s has licence %q: want one of its node that no other has", pod.Name, pod.Spec.NodeName, number)
		}
		numbers[number] = true
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
	s.group(ns)
	s.heldBack(ns)
	s.checkPluginBinds(ns)
	s.audit()
}

// checkPluginBinds creates pods that a plugin binds itself: they are on nodes, it has bound them and no binder has, and
// users see the same events as for any other pod.
func (s *stack) checkPluginBinds(ns string) {
	s.Helper()
	wanting := func(p *corev1.Pod) { p.Labels = map[string]string{"courier": "yes"} }
	s.create(newPods(ns, "brought", 6, "100m", wanting)...)
	for _, pod := range s.bound(ns, 23, placedWithin) {
		by, attempt := pod.Annotations["example.com/brought-by"], pod.Annotations[events.AttemptAnnotation]
		if ours := pod.Labels["courier"] != ""; ours != (by == "Courier") || ours == (attempt != "") {
			s.Errorf("pod %s was brought by %q in attempt %q: want one of them", pod.Name, by, attempt)
		}
	}
	s.eventually(placedWithin, "each is told to be scheduled", func(ctx context.Context) (string, error) {
		list, err := s.client.EventsV1().Events(ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err.Error(), nil
		}
		events := map[string]int{}
		for _, e := range list.Items {
			if e.Reason == "Scheduled" && strings.HasPrefix(e.Regarding.Name, "brought") {
				events[e.Regarding.Name]++
			}
		}
		if len(events) < 6 {
			return fmt.Sprintf("only %v are", events), nil
		}
		return "", nil
	})
}

// group creates two pods of a group of three, whose places are held until the third comes.
func (s *stack) group(ns string) {
	s.Helper()
	// Each has a node of its own: a pod that loses a race gives up its place, and the others theirs.
	grouped := func(i int) *corev1.Pod {
		node := fmt.Sprintf("together-%d", i)
		s.addNodes(nodeSpec{name: node})
		return newPod(ns, node, "100m", func(p *corev1.Pod) {
			p.Labels = map[string]string{"group": "g"}
			p.Annotations = map[string]string{"example.com/together": "3"}
			p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
		})
	}
	s.create(grouped(0), grouped(1))
	s.eventually(placedWithin, "two of three have a place", func(context.Context) (string, error) {
		var held []string
		for _, pod := range s.pods(ns) {
			switch {
			case pod.Labels["group"] == "":
			case pod.Spec.NodeName != "":
				return "", fmt.Errorf("pod %s is bound to %s before the group is there", pod.Name, pod.Spec.NodeName)
			case pod.Status.NominatedNodeName != "":
				held = append(held, pod.Name)
			}
		}
		if len(held) < 2 {
			return fmt.Sprintf("only %v have", held), nil
		}
		return "", nil
	})
	s.create(grouped(2))
	s.bound(ns, 13, placedWithin)
}

func (s *stack) label(node, key, value string) {
	s.Helper()
	patch := fmt.Appendf(nil, `{"metadata": {"labels": {%q: %q}}}`, key, value)
	_, err := s.client.CoreV1().Nodes().Patch(s.Context(), node, types.MergePatchType, patch, metav1.PatchOptions{})
	s.must(err)
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

// heldBack creates a pod that a plugin does not want tried yet: it gets neither a place nor a condition until its label
// changes.
func (s *stack) heldBack(ns string) {
	s.Helper()
	s.create(newPod(ns, "held-back", "100m", func(p *corev1.Pod) { p.Labels = map[string]string{"licence": "later"} }))
	s.create(newPods(ns, "after", 3, "100m")...)
	s.bound(ns, 16, placedWithin)
	if pod := s.pod(ns, "held-back"); pod.Spec.NodeName != "" || len(pod.Status.Conditions) > 0 {
		s.Errorf("pod held-back is on %q with conditions %v, want neither", pod.Spec.NodeName, pod.Status.Conditions)
	}
	patch := []byte(`{"metadata": {"labels": {"licence": null}}}`)
	_, err := s.client.CoreV1().Pods(ns).Patch(s.Context(), "held-back", types.MergePatchType, patch,
		metav1.PatchOptions{})
	s.must(err)
	s.bound(ns, 17, placedWithin)
}
