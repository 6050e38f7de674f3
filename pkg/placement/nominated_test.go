package placement_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
)

// A Beside counts the further pods of each node on that node alone, and leaves nothing behind.
func TestBeside(t *testing.T) {
	list := nodes(3) // with 4 CPU each
	one := func(name string) *state.Pod { return changed(statetest.Pod("default", name, "cpu", "1")) }
	further := map[string][]*state.Pod{
		"node-0001": {one("a"), one("b"), one("c"), one("d")}, "node-0002": {one("e"), one("f"), one("g")},
	}
	p := defaultProfile(t)
	in := placement.Input{Pod: one("p"), Nodes: list}
	rejected := func(further map[string][]*state.Pod) (by []string) {
		b, err := p.Beside(in)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			by = nil
			for _, n := range list {
				if f, is := b.Rejects(n, further[n.Node.Name]); is {
					by = append(by, n.Node.Name, f.Plugin)
				}
			}
		}
		return by
	}
	if got, want := rejected(further), []string{"node-0001", names.NodeResourcesFit}; !slices.Equal(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
	if r := p.Evaluate(in); r.FeasibleCount != 3 {
		t.Errorf("%d feasible nodes afterwards, want 3", r.FeasibleCount)
	}
	onPort := func(p *corev1.Pod) {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80, ContainerPort: 80}}
	}
	in.Pod = changed(statetest.Pod("default", "p", "cpu", "1"), onPort)
	further = map[string][]*state.Pod{"node-0002": {changed(statetest.Pod("default", "a", "cpu", "1"), onPort)}}
	if got, want := rejected(further), []string{"node-0002", names.NodePorts}; !slices.Equal(got, want) {
		t.Fatalf("%v, want %v: the port is taken", got, want)
	}
}

// What counts on one node does not count when the next one is judged, with rules about pods on other nodes either.
func TestBesideOnOtherNodes(t *testing.T) {
	list := nodes(3)
	alone := func(p *corev1.Pod) {
		p.Labels = map[string]string{"app": "a"}
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels}, TopologyKey: corev1.LabelHostname,
			}},
		}}
	}
	for _, n := range list {
		n.Node.Object.Labels = map[string]string{corev1.LabelHostname: n.Node.Name}
	}
	b, err := defaultProfile(t).Beside(placement.Input{
		Pod: changed(statetest.Pod("default", "p", "cpu", "1"), alone), Nodes: list,
	})
	if err != nil {
		t.Fatal(err)
	}
	other := []*state.Pod{changed(statetest.Pod("default", "a", "cpu", "1"), alone)}
	if f, is := b.Rejects(list[0], other); !is || f.Plugin != names.InterPodAffinity {
		t.Errorf("%+v, %t, want it rejected next to a pod that it is against", f, is)
	}
	if f, is := b.Rejects(list[0], nil); is {
		t.Errorf("%+v: what counted before still counts", f)
	}
	if f, is := b.Rejects(list[1], nil); is {
		t.Errorf("%+v: what counted on another node counts", f)
	}
}
