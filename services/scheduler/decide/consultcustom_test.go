package decide_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/work"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

// newCustomWorld returns a world with a custom plugin at all points of a decision that answers with advise.
func newCustomWorld(t *testing.T, seed uint64, shards int, advise func(step.Consult) step.Advice) *world {
	cfg := placement.DefaultProfile(corev1.DefaultSchedulerName)
	cfg.Custom = &placement.Custom{Points: map[string][]placement.CustomPlugin{
		placement.AtPreFilter: {{Name: "Guide", Weight: 1}}, placement.AtFilter: {{Name: "Guide", Weight: 1}},
	}}
	w := newWorldOf(t, seed, shards, cfg)
	w.advise = advise
	return w
}

// A plugin's answer about the pod as a whole has precedence over the results of rules and plugins for nodes.
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
			[]string{"Guide", names.NodeResourcesFit}},
		{placement.Guidance{Only: []placement.Narrowed{
			{Plugin: "Guide", Nodes: []string{"full"}}, {Plugin: "Other", Nodes: []string{"a"}},
		}}, "0/2 nodes are available: node(s) didn't satisfy plugin(s) [Guide Other] simultaneously.",
			[]string{"Guide", "Other"}},
	} {
		w := newCustomWorld(t, 1, 1, func(q step.Consult) step.Advice {
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

// Plugins that guide the choice of nodes are also asked about a pod for which the rules pass no node.
func TestPluginsGuideWhereNothingFits(t *testing.T) {
	asked := 0
	w := newCustomWorld(t, 1, 1, func(q step.Consult) step.Advice {
		asked += 1 + len(q.Nodes)
		return step.Advice{ID: q.ID, Guidance: &placement.Guidance{Plugin: "Guide", Rejection: "not today"},
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

// Whatever the interleaving of several shards and binders: if a plugin allows two pods on each node that it is
// shown, no node gets three; and in the end every pod for which there is room has a place.
func TestPluginsCountUnderConcurrency(t *testing.T) {
	const most = 2
	for seed := range uint64(extendedSeeds) {
		w := newCustomWorld(t, seed, 3, countingPlugin(most))
		w.fill(6, 8, 20)
		w.placeAll()
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

// An answer is used before the next question is sent, however many pods must be asked about.
func TestPluginsAreAskedOncePerPod(t *testing.T) {
	const pods = 40
	for seed := range uint64(extendedSeeds) {
		answer := countingPlugin(pods)
		questions := map[string]int{}
		w := newCustomWorld(t, seed, 1, func(q step.Consult) step.Advice {
			questions[q.Pod.Name]++
			return answer(q)
		})
		w.fill(3, pods, pods)
		// Without lost answers: after those, pods are asked about again.
		s := w.shards[0]
		w.offer()
		w.step(s, step.Input{Facts: w.unreadFacts(s), Ledger: w.unreadLedger(s)})
		w.step(s, step.Input{Offers: []work.OfferBatch{{Term: 1, Offers: s.offers}}})
		s.offers = nil
		for len(s.consults) > 0 || s.commit != nil {
			var in step.Input
			if len(s.consults) > 0 && (s.commit == nil || w.rng.IntN(2) == 0) {
				in.Advice = []step.Advice{w.advise(s.consults[0])}
				s.consults = s.consults[1:]
			} else {
				c := s.commit
				s.commit = nil
				in.Results = []step.Result{{ID: c.ID, Txn: w.commit(c.Txn)}}
			}
			w.step(s, in)
		}
		if len(w.reservations()) != pods {
			t.Fatalf("seed %d: %d pods placed, want %d", seed, len(w.reservations()), pods)
		}
		for pod, n := range questions {
			if n != 1 {
				t.Fatalf("seed %d: %d questions about pod %s, want one", seed, n, pod)
			}
		}
	}
}

// A pod for which a plugin passes no node gets its verdict at once, however much the cluster changes, as of the
// question: changes after the question wake it.
func TestPluginsVerdictIsAsOfTheQuestion(t *testing.T) {
	var w *world
	var asked []int
	answer := countingPlugin(0)
	w = newCustomWorld(t, 1, 1, func(q step.Consult) step.Advice {
		asked = append(asked, len(w.facts))
		a := answer(q)
		w.addPod("other", func(p *corev1.Pod) { p.Spec.NodeName = "a" })
		w.step(w.shards[0], step.Input{Facts: w.unreadFacts(w.shards[0])})
		return a
	})
	w.addNode("a", 10)
	w.addNode("b", 10)
	w.addPod("p")
	w.offer()
	w.settle()
	d := w.only()
	if d.Kind != events.DecisionUnplaceable || d.Message != "0/2 nodes are available: 2 full house." {
		t.Fatalf("%s %q, want what the plugin says of both nodes", d.Kind, d.Message)
	}
	if want := []int{int(d.FactSequence)}; !slices.Equal(asked, want) {
		t.Fatalf("asked at facts %d, the verdict says %d", asked, want)
	}
}

// A limit that a plugin counts beyond a node holds among the pods of one shard, in whatever order its transactions
// and the facts arrive.
func TestPluginsCountBeyondANode(t *testing.T) {
	const most = 3
	for seed := range uint64(extendedSeeds) {
		w := newCustomWorld(t, seed, 1, func(q step.Consult) step.Advice {
			a := step.Advice{ID: q.ID, Guidance: &placement.Guidance{}, Opinions: map[string]placement.Opinion{}}
			pods := 0
			for _, n := range q.Cluster {
				pods += n.PodCount()
			}
			for _, n := range q.Nodes {
				a.Opinions[n.Name] = placement.Opinion{Rejected: pods >= most, Plugin: "Guide", Reasons: []string{"enough"}}
			}
			return a
		})
		w.fill(6, 8, 20)
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

// countingPlugin allows at most that many pods on each node.
func countingPlugin(most int) func(step.Consult) step.Advice {
	return func(q step.Consult) step.Advice {
		a := step.Advice{ID: q.ID, Guidance: &placement.Guidance{}, Opinions: map[string]placement.Opinion{}}
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
