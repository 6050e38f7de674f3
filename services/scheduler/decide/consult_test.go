package decide_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/evidence"
	"github.com/berth-scheduler/berth/pkg/events/work"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/state/feed"
	"github.com/berth-scheduler/berth/pkg/state/follow"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

// extendedSeeds is how many interleavings the random test tries.
const extendedSeeds = 60

// newExtendedWorld returns a world with an extender that answers with advise.
func newExtendedWorld(t *testing.T, seed uint64, shards int, advise func(step.Consult) step.Advice) *world {
	cfg := placement.DefaultProfile(corev1.DefaultSchedulerName)
	cfg.Extenders = []configv1.Extender{{URLPrefix: "http://extender", FilterVerb: "f", PrioritizeVerb: "p", Weight: 1}}
	w := newWorldOf(t, seed, shards, cfg)
	w.advise = advise
	return w
}

// opinions answers a question node by node.
func opinions(of func(node string) placement.Opinion) func(step.Consult) step.Advice {
	return func(q step.Consult) step.Advice {
		a := step.Advice{ID: q.ID, Opinions: map[string]placement.Opinion{}}
		for _, n := range q.Nodes {
			a.Opinions[n.Name] = of(n.Name)
		}
		return a
	}
}

// unreadFacts returns all facts that a shard has not seen; unreadLedger returns all batches of the ledger that it has
// not seen.
func (w *world) unreadFacts(s *shard) []feed.Step {
	facts := w.facts[s.fact:]
	s.fact = len(w.facts)
	return s.fold(follow.Batch{Facts: facts})
}

func (w *world) unreadLedger(s *shard) (list []replica.Batch) {
	for ; s.ledger < len(w.history); s.ledger++ {
		list = append(list, replica.Batch{Events: w.history[s.ledger]})
	}
	return list
}

func nodesOf(q step.Consult) string {
	var names []string
	for _, n := range q.Nodes {
		names = append(names, n.Name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// only returns the one decision about a pod that a world with one shard has made.
func (w *world) only() events.Decision {
	w.t.Helper()
	if got := w.shards[0].decisions; len(got) == 1 {
		return got[0]
	}
	w.t.Fatalf("decisions %+v, want one", w.shards[0].decisions)
	return events.Decision{}
}

// An extender's points outweigh the rules, and nodes that it rejects are not used.
func TestExtendersAreConsulted(t *testing.T) {
	var asked []string
	answer := opinions(func(node string) placement.Opinion {
		return map[string]placement.Opinion{
			"a": {Rejected: true, Reasons: []string{"no"}}, "b": {Points: placement.ExtenderPoints(1, 1)},
			"c": {Points: placement.ExtenderPoints(10, 100)},
		}[node]
	})
	w := newExtendedWorld(t, 1, 1, func(q step.Consult) step.Advice {
		asked = append(asked, nodesOf(q))
		return answer(q)
	})
	for _, name := range []string{"a", "b", "c"} {
		w.addNode(name, 10)
	}
	w.addPod("p")
	w.offer()
	w.settle()
	d := w.only()
	if d.Kind != events.DecisionPlaced || d.NodeName != "c" || d.NodesFeasible != 2 {
		t.Fatalf("%+v, want the pod placed on c, one of 2", d)
	}
	if diff := cmp.Diff([]string{"a b c"}, asked); diff != "" {
		t.Fatalf("questions (-want +got):\n%s", diff)
	}
	if d.Evidence.Basis.Way != evidence.WayAdvised {
		t.Fatalf("way %d, want %d", d.Evidence.Basis.Way, evidence.WayAdvised)
	}
}

func TestExtenderTurnsAllNodesDown(t *testing.T) {
	w := newExtendedWorld(t, 1, 1, opinions(func(node string) placement.Opinion {
		return placement.Opinion{Rejected: true, Reasons: []string{"no licence in " + node}}
	}))
	w.addNode("a", 10)
	w.addNode("b", 10)
	w.addNode("full", 0)
	w.addPod("p")
	w.offer()
	w.settle()
	d := w.only()
	want := "0/3 nodes are available: 1 Insufficient cpu, 1 no licence in a, 1 no licence in b. preemption: 0/3 nodes " +
		"are available: 1 Preemption is not helpful for scheduling, 2 No preemption victims found for incoming pod."
	if d.Kind != events.DecisionUnplaceable || d.Message != want {
		t.Fatalf("%s %q, want %q", d.Kind, d.Message, want)
	}
	if diff := cmp.Diff([]string{placement.Extenders, names.NodeResourcesFit}, d.Plugins); diff != "" {
		t.Fatalf("plugins (-want +got):\n%s", diff)
	}
}

func TestExtenderFails(t *testing.T) {
	w := newExtendedWorld(t, 1, 1, func(q step.Consult) step.Advice {
		return step.Advice{ID: q.ID, Err: errors.New("connection refused")}
	})
	w.addNode("a", 10)
	w.addPod("p")
	w.offer()
	w.settle()
	if d := w.only(); d.Kind != events.DecisionFailed || d.Message != "connection refused" {
		t.Fatalf("%s %q, want an error in the extender's words", d.Kind, d.Message)
	}
}

// An extender is not asked about a pod that fits nowhere, nor about one without a resource that it manages.
func TestExtenderIsNotAskedInVain(t *testing.T) {
	w := newExtendedWorld(t, 1, 1, nil)
	w.addNode("full", 0)
	w.addPod("p")
	w.offer()
	w.settle()
	if d := w.only(); d.Kind != events.DecisionUnplaceable {
		t.Fatal(d)
	}
	cfg := placement.DefaultProfile(corev1.DefaultSchedulerName)
	cfg.Extenders = []configv1.Extender{{
		FilterVerb: "f", ManagedResources: []configv1.ExtenderManagedResource{{Name: "example.com/gpu"}},
	}}
	w = newWorldOf(t, 1, 1, cfg)
	w.addNode("a", 1)
	w.addPod("q")
	w.offer()
	w.settle()
	if d := w.only(); d.Kind != events.DecisionPlaced || d.Evidence.Basis.Way != evidence.WayRanked {
		t.Fatal(d)
	}
}

// The node that a pod has been nominated to is asked about alone, and the others if it is rejected.
func TestExtenderAndNominatedNode(t *testing.T) {
	for _, refused := range []bool{false, true} {
		var asked []string
		answer := opinions(func(node string) placement.Opinion { return placement.Opinion{Rejected: refused && node == "a"} })
		w := newExtendedWorld(t, 1, 1, func(q step.Consult) step.Advice {
			asked = append(asked, nodesOf(q))
			return answer(q)
		})
		w.addNode("a", 10)
		w.addNode("b", 10)
		w.addPod("p", func(p *corev1.Pod) { p.Status.NominatedNodeName = "a" })
		w.offer()
		w.settle()
		node, questions := "a", []string{"a"}
		if refused {
			node, questions = "b", []string{"a", "a b"}
		}
		if d := w.only(); d.NodeName != node || !slices.Equal(asked, questions) {
			t.Fatalf("placed on %q after questions about %q, want %q after %q", d.NodeName, asked, node, questions)
		}
	}
}

// A failed question about the nominated node is no verdict: the other nodes are asked about.
func TestExtenderFailsAboutNominatedNode(t *testing.T) {
	answer := opinions(func(string) placement.Opinion { return placement.Opinion{} })
	w := newExtendedWorld(t, 1, 1, func(q step.Consult) step.Advice {
		if nodesOf(q) == "a" {
			return step.Advice{ID: q.ID, Err: errors.New("out to lunch")}
		}
		return answer(q)
	})
	w.addNode("a", 10)
	w.addNode("b", 10)
	w.addPod("p", func(p *corev1.Pod) { p.Status.NominatedNodeName = "a" })
	w.offer()
	w.settle()
	if d := w.only(); d.Kind != events.DecisionPlaced {
		t.Fatalf("%s %q, want it placed", d.Kind, d.Message)
	}
}

// Changes while an extender is being asked are part of the decision: a node that has filled up is not chosen, nor
// one that the extender was not asked about.
func TestClusterMovesWhileAnExtenderThinks(t *testing.T) {
	moved := false
	var w *world
	var asked []string
	answer := opinions(func(string) placement.Opinion { return placement.Opinion{} })
	w = newExtendedWorld(t, 1, 1, func(q step.Consult) step.Advice {
		asked = append(asked, nodesOf(q))
		if !moved {
			moved = true
			w.addPod("squatter", func(p *corev1.Pod) { p.Spec.NodeName = "a" })
			w.addNode("b", 1)
			w.step(w.shards[0], step.Input{Facts: w.unreadFacts(w.shards[0])})
		}
		return answer(q)
	})
	w.addNode("a", 1)
	w.addPod("p")
	w.offer()
	w.settle()
	if d := w.only(); d.NodeName != "b" || !slices.Equal(asked, []string{"a", "b"}) {
		t.Fatalf("placed on %q after questions about %q, want b after a and b", d.NodeName, asked)
	}
}

// A shard that stops gives back the pods that wait, and ignores the answer.
func TestDrainWhileAnExtenderThinks(t *testing.T) {
	w := newExtendedWorld(t, 1, 1, opinions(func(string) placement.Opinion { return placement.Opinion{} }))
	w.addNode("a", 10)
	w.addPod("p")
	s := w.shards[0]
	w.offer()
	w.step(s, step.Input{Facts: w.unreadFacts(s), Ledger: w.unreadLedger(s)})
	offered := s.offers[0].Token
	w.step(s, step.Input{Offers: []work.OfferBatch{{Term: 1, Offers: s.offers}}})
	if len(s.consults) != 1 {
		t.Fatalf("%d questions, want one", len(s.consults))
	}
	out, err := checked(s.core.Step(step.Input{Drain: true, Beat: true}, w.now))
	if err != nil || !out.Idle || !slices.Equal(out.Request.Return, []string{offered}) {
		t.Fatalf("%v, idle %v, returned %+v: want the one offer back", err, out.Idle, out.Request)
	}
	out, err = checked(s.core.Step(step.Input{Advice: []step.Advice{w.advise(s.consults[0])}}, w.now))
	if err != nil || len(out.Decisions) > 0 {
		t.Fatalf("%v, decisions %v: want none", err, out.Decisions)
	}
}

// Whatever the interleaving of several shards, extenders and binders: no pod is placed where an extender rejects it,
// none twice, no node is overcommitted, and in the end every pod for which there is room has a place.
func TestExtendersUnderConcurrency(t *testing.T) {
	for seed := range uint64(extendedSeeds) {
		refuses := func(node string) bool { return strings.HasSuffix(node, "0") }
		failures := 0
		answer := opinions(func(node string) placement.Opinion {
			return placement.Opinion{Rejected: refuses(node), Reasons: []string{"no"}}
		})
		var w *world
		w = newExtendedWorld(t, seed, 3, func(q step.Consult) step.Advice {
			if failures < 5 && w.rng.IntN(5) == 0 {
				failures++
				return step.Advice{ID: q.ID, Err: errors.New("out to lunch")}
			}
			return answer(q)
		})
		w.fill(6, 3, 20)
		w.placeAll()
		placed := 0
		for _, p := range w.pods {
			if p.Spec.NodeName != "" {
				placed++
			}
			if refuses(p.Spec.NodeName) {
				t.Fatalf("seed %d: pod %s is on %s, which the extender turns down", seed, p.Name, p.Spec.NodeName)
			}
		}
		if want := 5 * 3; placed != want {
			t.Fatalf("seed %d: %d pods placed, want %d", seed, placed, want)
		}
	}
}

// fill adds nodes with that much room each, and pods.
func (w *world) fill(nodes int, room int64, pods int) {
	for i := range nodes {
		w.addNode(fmt.Sprintf("n%d", i), room)
	}
	for i := range pods {
		w.addPod(fmt.Sprintf("p%d", i))
	}
}

// placeAll offers pods and binds those that are placed, in as many rounds as small worlds need.
func (w *world) placeAll() {
	for range 12 {
		w.offer()
		w.settle()
		for range 10 {
			w.bindOne()
		}
		w.settle()
	}
}
