package gang_test

import (
	"fmt"
	"iter"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement/gang"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// groups are PodGroups by name, and pods.
type groups struct {
	rule.NoObjects
	objects map[string]*state.Object
	pods    []*state.Pod
}

func (g groups) ObjectByName(_ events.Kind, namespace, name string) (*state.Object, bool) {
	o, ok := g.objects[namespace+"/"+name]
	return o, ok
}

func (g groups) PodsOfGroup(namespace, name string) iter.Seq[*state.Pod] {
	return func(yield func(*state.Pod) bool) {
		for _, p := range g.pods {
			if p.Namespace == namespace && p.PodGroup() == name && !yield(p) {
				return
			}
		}
	}
}

func object(name string, spec schedulingv1alpha2.PodGroupSpec) *state.Object {
	return &state.Object{
		Kind: events.KindPodGroup, UID: "uid-" + name, Namespace: "ns", Name: name,
		API: &schedulingv1alpha2.PodGroup{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)}, Spec: spec,
		},
	}
}

func gangOf(minCount int32) schedulingv1alpha2.PodGroupSpec {
	return schedulingv1alpha2.PodGroupSpec{SchedulingPolicy: schedulingv1alpha2.PodGroupSchedulingPolicy{
		Gang: &schedulingv1alpha2.GangSchedulingPolicy{MinCount: minCount},
	}}
}

func pod(name, group string, changes ...func(*corev1.Pod)) *state.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}
	if group != "" {
		p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group}
	}
	for _, change := range changes {
		change(p)
	}
	return state.NewPod(p)
}

// TestExpects compares what a pod waits for with upstream's PreEnqueue.
func TestExpects(t *testing.T) {
	topology := gangOf(0)
	topology.SchedulingPolicy = schedulingv1alpha2.PodGroupSchedulingPolicy{
		Basic: &schedulingv1alpha2.BasicSchedulingPolicy{},
	}
	topology.SchedulingConstraints = &schedulingv1alpha2.PodGroupSchedulingConstraints{
		Topology: []schedulingv1alpha2.TopologyConstraint{{Key: "rack"}},
	}
	all := groups{objects: map[string]*state.Object{
		"ns/three": object("three", gangOf(3)), "ns/racks": object("racks", topology),
	}}
	bound := func(p *corev1.Pod) { p.Spec.NodeName = "n" }
	gated := func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}} }
	ended := func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }
	for _, test := range []struct {
		name   string
		pod    *state.Pod
		others []*state.Pod
		want   string
	}{
		{"no group", pod("a", ""), nil, ""},
		{"no object", pod("a", "none"), nil, `waiting for pods's pod group "none" to appear in scheduling queue`},
		{"no gang", pod("a", "racks"), nil, ""},
		{"too few", pod("a", "three"), []*state.Pod{pod("b", "three")}, gang.TooFew},
		{"enough", pod("a", "three"), []*state.Pod{pod("b", "three"), pod("c", "three")}, ""},
		{"bound and gated ones count", pod("a", "three"),
			[]*state.Pod{pod("b", "three", bound), pod("c", "three", gated)}, ""},
		{"ended ones do not", pod("a", "three"), []*state.Pod{pod("b", "three", ended), pod("c", "three")}, gang.TooFew},
		{"nor those of another group", pod("a", "three"), []*state.Pod{pod("b", "four"), pod("c", "three")}, gang.TooFew},
	} {
		t.Run(test.name, func(t *testing.T) {
			all.pods = append([]*state.Pod{test.pod}, test.others...)
			if got := (gang.Plugin{}).Expects(test.pod, all); got != test.want {
				t.Errorf("waits for %q, want %q", got, test.want)
			}
		})
	}
	g, member := gang.Of(pod("a", "racks"), all)
	if !member || g == nil || g.Gang || !g.Together() || fmt.Sprint(g.Topology) != "[rack]" || g.MinCount != 1 {
		t.Errorf("racks are %+v", g)
	}
}

// TestHint: a pod waits for the PodGroup of its own group.
func TestHint(t *testing.T) {
	waits := pod("a", "three")
	for name, want := range map[string]bool{"three": true, "four": false} {
		change := rule.ObjectChange(state.ObjectChange{Kind: events.KindPodGroup, After: object(name, gangOf(3))})
		if got := (gang.Plugin{}).Hint(waits, change); got != want {
			t.Errorf("hint about %s: %t, want %t", name, got, want)
		}
		if change.Label() != "scheduling.k8s.io/PodGroupAdd" {
			t.Errorf("the change is called %q", change.Label())
		}
	}
	rack := schedulingv1alpha2.PodGroupSpec{SchedulingConstraints: &schedulingv1alpha2.PodGroupSchedulingConstraints{
		Topology: []schedulingv1alpha2.TopologyConstraint{{Key: "rack"}},
	}}
	all := groups{objects: map[string]*state.Object{
		"ns/racks": object("racks", rack), "ns/three": object("three", gangOf(3)),
	}}
	for label, want := range map[string]bool{"rack": true, "row": false} {
		node := state.NewNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: "n", UID: "n", Labels: map[string]string{label: "r1"},
		}})
		change := rule.NodeChange(state.NodeChange{After: node})
		change.Objects = all
		if got := (gang.Plugin{}).Hint(pod("a", "racks"), change); got != want {
			t.Errorf("hint about a node with a %s: %t, want %t", label, got, want)
		}
		if (gang.Plugin{}).Hint(waits, change) {
			t.Error("a gang without a topology is woken by a node")
		}
	}
	if (gang.Plugin{}).Hint(pod("b", ""), rule.Change{NewObject: object("", gangOf(1))}) {
		t.Error("a pod without a group is woken")
	}
}
