package placement_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// racksHints are those of a plugin Racks that listens to labels of nodes, and is helped by a rack.
type racksHints struct{}

func (racksHints) Events(plugin string) ([]rule.Event, bool) {
	return []rule.Event{{Kind: events.KindNode, Actions: rule.UpdateNodeLabel}}, plugin == "Racks"
}

func (racksHints) Helps(_ string, _ *state.Pod, c rule.Change) bool {
	return c.NewNode.Object.Labels["rack"] != ""
}

func labelled(labels map[string]string) *state.Node {
	return state.NewNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n", Labels: labels}})
}

func TestHintsOfCustomPlugins(t *testing.T) {
	cfg := placement.DefaultProfile("s")
	cfg.Custom = &placement.Custom{Points: map[string][]placement.CustomPlugin{
		placement.AtFilter: {{Name: "Racks"}},
	}}
	plain, err := placement.NewProfile(cfg)
	if err != nil {
		t.Fatal(err)
	}
	hinted := plain.Hinted(racksHints{})
	pod := state.NewPod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "p"}})
	node := func(before, after *state.Node) rule.Change {
		return rule.NodeChange(state.NodeChange{Before: before, After: after})
	}
	bare := labelled(nil)
	annotated := bare.Object.DeepCopy()
	annotated.Annotations = map[string]string{"a": "b"}
	for _, test := range []struct {
		name          string
		profile       *placement.Profile
		plugin        string
		change        rule.Change
		listens, wake bool
	}{
		{"a rack", hinted, "Racks", node(bare, labelled(map[string]string{"rack": "r"})), true, true},
		{"another label", hinted, "Racks", node(bare, labelled(map[string]string{"k": "v"})), true, false},
		{"a new node, which it does not listen to", hinted, "Racks", node(nil, labelled(map[string]string{"rack": "r"})),
			false, false},
		{"a new node, and another plugin", hinted, "Others", node(nil, bare), true, true},
		{"a new node, and nothing is known of the plugin", plain, "Racks", node(nil, bare), true, true},
		{"a rule's change, and a plugin's", hinted, names.NodeUnschedulable,
			node(bare, labelled(map[string]string{"rack": "r"})), false, false},
	} {
		if got := test.profile.Listens(test.plugin, test.change); got != test.listens {
			t.Errorf("%s: listens %t, want %t", test.name, got, test.listens)
		}
		if got := test.profile.Wakes(pod, []string{test.plugin}, test.change); got != test.wake {
			t.Errorf("%s: wakes %t, want %t", test.name, got, test.wake)
		}
	}
	if note := node(bare, state.NewNode(annotated)); !plain.AnyListens(note) || hinted.AnyListens(note) {
		t.Errorf("an annotation of a node: heeded without hints %t, with %t; want the first alone, as no rule listens",
			plain.AnyListens(note), hinted.AnyListens(note))
	}
	if got := hinted.EventsOf("Racks"); len(got) != 1 || got[0] != "NodeUpdateNodeLabel" {
		t.Errorf("awaits %v, want NodeUpdateNodeLabel", got)
	}
	if a, b := hinted.Interest("Racks", pod).Class, plain.Interest("Racks", pod).Class; a != "p" || b != "" {
		t.Errorf("classes %q and %q, want one for each pod with hints, and one for all without", a, b)
	}
}
