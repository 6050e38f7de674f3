package placement_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
)

// RejectedBeside counts the further pods of each node on that node alone, and leaves nothing behind.
func TestRejectedBeside(t *testing.T) {
	list := nodes(3) // with 4 CPU each
	one := func(name string) *state.Pod { return changed(statetest.Pod("default", name, "cpu", "1")) }
	beside := map[string][]*state.Pod{
		"node-0001": {one("a"), one("b"), one("c"), one("d")}, "node-0002": {one("e"), one("f"), one("g")},
		"ghost": {one("h"), one("i"), one("j"), one("k")},
	}
	p := defaultProfile(t)
	in := placement.Input{Pod: one("p"), Nodes: list}
	for range 2 {
		got, err := p.RejectedBeside(in, beside)
		if err != nil || len(got) != 1 || got["node-0001"].Plugin != names.NodeResourcesFit {
			t.Fatalf("%+v, %v; want that node-0001 is full", got, err)
		}
	}
	if r := p.Evaluate(in); r.FeasibleCount != 3 {
		t.Errorf("%d feasible nodes afterwards, want 3", r.FeasibleCount)
	}
	onPort := func(p *corev1.Pod) {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80, ContainerPort: 80}}
	}
	in.Pod = changed(statetest.Pod("default", "p", "cpu", "1"), onPort)
	got, err := p.RejectedBeside(in, map[string][]*state.Pod{
		"node-0002": {changed(statetest.Pod("default", "a", "cpu", "1"), onPort)},
	})
	if err != nil || len(got) != 1 || got["node-0002"].Plugin != names.NodePorts {
		t.Fatalf("%+v, %v; want that the port is taken on node-0002", got, err)
	}
}
