package placement_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
)

// A pod that requests 2 cpu is evaluated on a node that lacks half a cpu, one that lacks all, and two that are
// cordoned, one of which is also full.
func TestExplain(t *testing.T) {
	node := func(name, cpu string, cordoned bool) *state.NodeInfo {
		obj := statetest.Node(name, "cpu", cpu, "memory", "4Gi", "pods", "10")
		obj.Spec.Unschedulable = cordoned
		return state.NewNodeInfo(state.NewNode(obj))
	}
	nodes := []*state.NodeInfo{
		node("a", "1500m", false), node("b", "100m", false), node("c", "4", true), node("d", "1", true),
	}
	pod := app("web", "p", func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests = statetest.List("cpu", "2")
	})
	x, err := profileOf(t).Explain(placement.Input{Pod: pod, Nodes: nodes})
	if err != nil {
		t.Fatal(err)
	}
	noCPU := placement.Failure{
		Plugin: names.NodeResourcesFit, Code: rule.UnschedulableAndUnresolvable,
		Reasons: []string{"Insufficient cpu"},
	}
	cordon := placement.Failure{
		Plugin: names.NodeUnschedulable, Code: rule.UnschedulableAndUnresolvable,
		Reasons: []string{"node(s) were unschedulable"},
	}
	want := placement.Explanation{
		Classes: []placement.NodeClass{
			{Failures: []placement.Failure{noCPU}, Nodes: 2, Examples: []string{"a", "b"}},
			{Failures: []placement.Failure{cordon}, Nodes: 1, Examples: []string{"c"}},
			{Failures: []placement.Failure{cordon, noCPU}, Nodes: 1, Examples: []string{"d"}},
		},
		Nearest: []placement.Miss{
			{Node: "c", Failures: []placement.Failure{cordon}},
			{
				Node: "a", Failures: []placement.Failure{noCPU},
				Short: []placement.Shortage{{Resource: "cpu", Asked: 2000, Free: 1500, Lacked: 500}},
			},
			{
				Node: "b", Failures: []placement.Failure{noCPU},
				Short: []placement.Shortage{{Resource: "cpu", Asked: 2000, Free: 100, Lacked: 1900}},
			},
		},
	}
	if diff := cmp.Diff(want, x); diff != "" {
		t.Fatalf("explanation (-want +got):\n%s", diff)
	}
}

// Groups of a diagnosis count every node once.
func TestDiagnosisGroups(t *testing.T) {
	nodes := []*state.NodeInfo{}
	for _, name := range []string{"a", "b", "c"} {
		obj := statetest.Node(name, "cpu", "1", "memory", "1Gi", "pods", "10")
		obj.Spec.Unschedulable = name == "c"
		nodes = append(nodes, state.NewNodeInfo(state.NewNode(obj)))
	}
	pod := app("web", "p", func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests = statetest.List("cpu", "2", "memory", "2Gi")
	})
	r := profileOf(t).Evaluate(placement.Input{Pod: pod, Nodes: nodes})
	want := []placement.Group{
		{Plugin: names.NodeResourcesFit, Reasons: []string{"Insufficient cpu", "Insufficient memory"}, Nodes: 2},
		{Plugin: names.NodeUnschedulable, Reasons: []string{"node(s) were unschedulable"}, Nodes: 1},
	}
	if diff := cmp.Diff(want, r.Diagnosis.Groups()); diff != "" {
		t.Fatalf("groups (-want +got):\n%s", diff)
	}
	byPlugin := map[string]int32{names.NodeResourcesFit: 2, names.NodeUnschedulable: 1}
	if diff := cmp.Diff(byPlugin, r.Diagnosis.NodesByPlugin()); diff != "" {
		t.Fatalf("nodes by plugin (-want +got):\n%s", diff)
	}
}
