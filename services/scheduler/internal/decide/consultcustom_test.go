package decide_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/services/scheduler/internal/decide"
)

// newCustomWorld is a world with a custom plugin at all points of a decision that answers with advise.
func newCustomWorld(t *testing.T, seed uint64, shards int, advise func(decide.Consult) decide.Advice) *world {
	cfg := placement.DefaultProfile(corev1.DefaultSchedulerName)
	cfg.Custom = &placement.Custom{Points: map[string][]placement.CustomPlugin{
		placement.AtPreFilter: {{Name: "Guide", Weight: 1}}, placement.AtFilter: {{Name: "Guide", Weight: 1}},
	}}
	w := newWorldOf(t, seed, shards, cfg)
	w.advise = advise
	return w
}

// What a plugin says of the pod as a whole comes before what rules and plugins say of nodes.
func TestPluginsGuide(t *testing.T) {
	for _, test := range []struct {
		guidance placement.Guidance
		message  string
		plugins  []string
	}{
		{placement.Guidance{Plugin: "Guide", Rejection: "not today"},
			"0/2 nodes are available: not today.", []string{"Guide"}},
		{placement.Guidance{Only: []placement.Narrowed{{Plugin: "Guide", Nodes: nil}}},
			"0/2 nodes are available: node(s) didn't satisfy plugin Guide.", []string{"Guide"}},
		{placement.Guidance{Only: []placement.Narrowed{{Plugin: "Guide", Nodes: []string{"full"}}}},
			"0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't satisfy plugin(s) [Guide].",
			[]string{"Guide", placement.NodeResourcesFit}},
		{placement.Guidance{Only: []placement.Narrowed{
			{Plugin: "Guide", Nodes: []string{"full"}}, {Plugin: "Other", Nodes: []string{"a"}},
		}}, "0/2 nodes are available: node(s) didn't satisfy plugin(s) [Guide Other] simultaneously.",
			[]string{"Guide", "Other"}},
	} {
		w := newCustomWorld(t, 1, 1, func(q decide.Consult) decide.Advice {
			a := opinions(func(string) placement.Opinion { return placement.Opinion{} })(q)
			a.Guidance = &test.guidance
			return a
		})
		w.addNode("a", 10)
		w.addNode("full", 0)
		w.addPod("p")
		w.offer()
		w.settle()
		d := w.only()
		if d.Kind != events.DecisionUnplaceable || d.Message != test.message {
			t.Errorf("%s %q, want %q", d.Kind, d.Message, test.message)
		}
		if diff := cmp.Diff(test.plugins, d.Plugins); diff != "" {
			t.Errorf("plugins (-want +got):\n%s", diff)
		}
	}
}

// Plugins that have a say before nodes are looked at are asked about a pod that the rules let nowhere.
func TestPluginsGuideWhereNothingFits(t *testing.T) {
	asked := 0
	w := newCustomWorld(t, 1, 1, func(q decide.Consult) decide.Advice {
		asked += 1 + len(q.Nodes)
		return decide.Advice{ID: q.ID, Guidance: &placement.Guidance{Plugin: "Guide", Rejection: "not today"},
			Opinions: map[string]placement.Opinion{}}
	})
	w.addNode("full", 0)
	w.addPod("p")
	w.offer()
	w.settle()
	if d := w.only(); asked != 1 || d.Message != "0/1 nodes are available: not today." {
		t.Errorf("asked %d times, %q: want one question about no node, and the plugin's word", asked, d.Message)
	}
}

// Whatever the interleaving of several shards and binders: of a plugin that lets two pods onto each node, as it is
// shown it, no node gets three; and in the end every pod for which there is room has a place.
func TestPluginsCountUnderConcurrency(t *testing.T) {
	const most = 2
	for seed := range uint64(extendedSeeds) {
		w := newCustomWorld(t, seed, 3, countingPlugin(most))
		for i := range 6 {
			w.addNode(fmt.Sprintf("n%d", i), 8)
		}
		for i := range 20 {
			w.addPod(fmt.Sprintf("p%d", i))
		}
		for range 12 {
			w.offer()
			w.settle()
			for range 10 {
				w.bindOne()
			}
			w.settle()
		}
		on, placed := map[string]int{}, 0
		for _, p := range w.pods {
			if p.Spec.NodeName != "" {
				on[p.Spec.NodeName]++
				placed++
			}
		}
		for node, pods := range on {
			if pods > most {
				t.Fatalf("seed %d: %d pods on %s, where the plugin lets %d", seed, pods, node, most)
			}
		}
		if want := 6 * most; placed != want {
			t.Fatalf("seed %d: %d pods placed, want %d", seed, placed, want)
		}
	}
}

// What a plugin counts beyond a node holds among the pods of one shard, however its transactions and the facts come in.
func TestPluginsCountBeyondANode(t *testing.T) {
	const most = 3
	for seed := range uint64(extendedSeeds) {
		w := newCustomWorld(t, seed, 1, func(q decide.Consult) decide.Advice {
			a := decide.Advice{ID: q.ID, Guidance: &placement.Guidance{}, Opinions: map[string]placement.Opinion{}}
			stand := 0
			for _, n := range q.Cluster {
				stand += n.PodCount()
			}
			for _, n := range q.Nodes {
				a.Opinions[n.Name] = placement.Opinion{Rejected: stand >= most, Plugin: "Guide", Reasons: []string{"enough"}}
			}
			return a
		})
		for i := range 6 {
			w.addNode(fmt.Sprintf("n%d", i), 8)
		}
		for i := range 20 {
			w.addPod(fmt.Sprintf("p%d", i))
		}
		for range 6 {
			w.offer()
			w.settle()
			w.bindOne()
		}
		placed := 0
		for _, d := range w.shards[0].decisions {
			if d.Kind == events.DecisionPlaced {
				placed++
			}
		}
		if placed != most {
			t.Fatalf("seed %d: %d pods placed, where the plugin lets %d", seed, placed, most)
		}
	}
}

// countingPlugin lets so many pods onto each node.
func countingPlugin(most int) func(decide.Consult) decide.Advice {
	return func(q decide.Consult) decide.Advice {
		a := decide.Advice{ID: q.ID, Guidance: &placement.Guidance{}, Opinions: map[string]placement.Opinion{}}
		for _, n := range q.Cluster {
			switch {
			case !slices.Contains(q.Nodes, n.Node):
			case n.PodCount() >= most:
				a.Opinions[n.Node.Name] = placement.Opinion{Rejected: true, Plugin: "Guide", Reasons: []string{"full house"}}
			default:
				a.Opinions[n.Node.Name] = placement.Opinion{}
			}
		}
		return a
	}
}
