//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/test/e2e/harness"
)

// A pod of a Deployment has to leave its node, and there is one place for its replacement. Before
// that can be placed, others come that want the place: they wait, and the replacement gets it.
func TestPlaceIsKeptForTheReplacement(t *testing.T) {
	t.Parallel()
	s, f := moving(t, "2m")
	ns := s.namespace("moved")
	s.gatedDeployment(ns, "web", "1500m")
	s.addNodes(nodeSpec{name: "node-1", capacity: "4"})
	others := s.namespace("others")
	s.create(newPod(others, "filler", "2", onHost("node-1")))
	s.bound(others, 1, placedWithin)

	s.taint("node-0", corev1.Taint{Key: "retired", Effect: corev1.TaintEffectNoSchedule})
	s.replaced(ns)
	if kept := s.keptPlaces(f); kept != " node-1" {
		t.Errorf("places are kept on%s, want node-1", kept)
	}
	const intruders = 3
	s.create(newPods(others, "intruder", intruders, "1500m")...)
	for i := range intruders {
		s.unschedulable(others, fmt.Sprintf("intruder-%04d", i), "1 Insufficient cpu")
	}
	s.ungate(ns)
	if node := s.bound(ns, 1, placedWithin)[0].Spec.NodeName; node != "node-1" {
		t.Errorf("the replacement stands on %s, want node-1", node)
	}
	for _, p := range s.pods(others) {
		if strings.HasPrefix(p.Name, "intruder") && p.Spec.NodeName != "" {
			t.Errorf("%s stands on %s", p.Name, p.Spec.NodeName)
		}
	}
	s.noClaims(f)
	s.audit()
}

// The owner of a pod that was moved is scaled down before the replacement is placed: the place is given up after a
// while, and another pod gets it.
func TestPlaceIsGivenUpWithoutAReplacement(t *testing.T) {
	t.Parallel()
	s, f := moving(t, "15s")
	ns := s.namespace("moved")
	s.gatedDeployment(ns, "web", "1500m")
	s.addNodes(nodeSpec{name: "node-1", capacity: "2"})
	s.taint("node-0", corev1.Taint{Key: "retired", Effect: corev1.TaintEffectNoSchedule})
	s.replaced(ns)
	others := s.namespace("others")
	s.create(newPod(others, "waiting", "1500m"))
	s.unschedulable(others, "waiting", "1 Insufficient cpu")
	_, err := s.client.AppsV1().Deployments(ns).Patch(s.Context(), "web", types.MergePatchType,
		[]byte(`{"spec":{"replicas":0}}`), metav1.PatchOptions{})
	s.must(err)
	s.bound(others, 1, placedWithin)
	s.noClaims(f)
	s.audit()
}

// moving is a node and a Berth that moves pods off tainted nodes and keeps places that long.
func moving(t *testing.T, keepPlace string) (*stack, *fleet) {
	s := newStack(t, "")
	s.addNodes(nodeSpec{name: "node-0"})
	f := &fleet{stack: s, members: map[string]*harness.Berth{}}
	f.etcd = f.store("etcd")
	s.up(harness.UpConfig{
		Shards: 2, Binders: 2, Policy: s.file("policy.yaml", taintPolicy),
		Args: []string{"--etcd-endpoints", f.etcd.URL, "--descheduling-interval", "1s", "--keep-place", keepPlace},
	})
	return s, f
}

// gatedDeployment has one pod, which runs. What replaces it waits at a gate until ungate.
func (s *stack) gatedDeployment(ns, name, cpu string) {
	s.Helper()
	pod := template(name, cpu)
	pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/later"}}
	_, err := s.client.AppsV1().Deployments(ns).Create(s.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       appsv1.DeploymentSpec{Selector: labelled(name), Template: pod},
	}, metav1.CreateOptions{})
	s.must(err)
	s.eventually(placedWithin, "the pod is made", func(context.Context) (string, error) {
		return map[bool]string{true: "there is none"}[len(s.pods(ns)) == 0], nil
	})
	s.ungate(ns)
	s.eventually(placedWithin, "the pod runs", func(context.Context) (string, error) {
		p := s.pods(ns)[0]
		return map[bool]string{true: "it is " + string(p.Status.Phase)}[p.Status.Phase != corev1.PodRunning], nil
	})
}

// ungate lets the pods of a namespace be placed.
func (s *stack) ungate(ns string) {
	s.Helper()
	for _, p := range s.pods(ns) {
		_, err := s.client.CoreV1().Pods(ns).Patch(s.Context(), p.Name, types.MergePatchType,
			[]byte(`{"spec":{"schedulingGates":null}}`), metav1.PatchOptions{})
		s.must(err)
	}
}

// replaced waits until the one pod of a namespace is gone and another one waits at its gate.
func (s *stack) replaced(ns string) {
	s.Helper()
	s.eventually(placedWithin, "the pod is replaced", func(context.Context) (string, error) {
		pods := s.pods(ns)
		if len(pods) == 1 && len(pods[0].Spec.SchedulingGates) > 0 {
			return "", nil
		}
		return fmt.Sprintf("%d pods", len(pods)), nil
	})
}

// keptPlaces are the nodes on which places are kept for replacements, each after a space.
func (s *stack) keptPlaces(f *fleet) (kept string) {
	s.Helper()
	history, err := f.etcd.Ledger(s.Context())
	s.must(err)
	last := map[string]ledger.Event{}
	for _, ev := range history {
		last[ev.Key] = ev
	}
	for _, ev := range last {
		if ev.Deleted || !strings.HasPrefix(ev.Key, ledger.PrefixNode) {
			continue
		}
		d, err := codec.DecodeNodeDoc(ev.KV)
		s.must(err)
		for _, e := range d.Entries {
			if e.Role == ledger.RoleMove {
				kept += " " + d.NodeName
			}
		}
	}
	return kept
}
