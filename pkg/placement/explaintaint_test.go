package placement_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
)

// Nodes with different taints are different classes in an explanation, although a decision gives one reason for
// both.
func TestExplainNamesTaints(t *testing.T) {
	node := func(name, taint string) *state.NodeInfo {
		obj := statetest.Node(name, "cpu", "4", "memory", "4Gi", "pods", "10")
		obj.Spec.Taints = []corev1.Taint{
			{Key: taint, Effect: corev1.TaintEffectNoSchedule}, {Key: "soft", Effect: corev1.TaintEffectPreferNoSchedule},
		}
		return state.NewNodeInfo(state.NewNode(obj))
	}
	x, err := profileOf(t).Explain(placement.Input{
		Pod: app("web", "p"), Nodes: []*state.NodeInfo{node("a", "gpu"), node("b", "gpu"), node("c", "batch")},
	})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, c := range x.Classes {
		got[c.Failures[0].Details[0]] = c.Nodes
	}
	if diff := cmp.Diff(map[string]int{"taint gpu:NoSchedule": 2, "taint batch:NoSchedule": 1}, got); diff != "" {
		t.Errorf("classes (-want +got):\n%s", diff)
	}
}

// Nodes without a label that a pod selects are distinguished by the missing label.
func TestExplainNamesLabels(t *testing.T) {
	node := func(name, zone string) *state.NodeInfo {
		obj := statetest.Node(name, "cpu", "4", "memory", "4Gi", "pods", "10")
		obj.Labels = map[string]string{"zone": zone}
		return state.NewNodeInfo(state.NewNode(obj))
	}
	pod := statetest.Pod("default", "p")
	pod.Spec.NodeSelector = map[string]string{"zone": "a", "disk": "ssd"}
	x, err := profileOf(t).Explain(placement.Input{
		Pod: state.NewPod(pod), Nodes: []*state.NodeInfo{node("a", "a"), node("b", "b"), node("c", "a")},
	})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, c := range x.Classes {
		got[strings.Join(c.Failures[0].Details, ", ")] = c.Nodes
	}
	want := map[string]int{"no label disk=ssd": 2, "no label disk=ssd, no label zone=a": 1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("classes (-want +got):\n%s", diff)
	}
}
