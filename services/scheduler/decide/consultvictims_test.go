package decide_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/evidence"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/preempt"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

// extenderScenario is a scenario whose pods have an extender that filters and is asked about victims. It has nodes n0,
// n1, … with room for one pod, and on each of them a pod of priority 0: v0, v1, …
type extenderScenario struct {
	*scenario
	// about are the questions, abbreviated, in their order.
	about []string
	// choose returns the candidates that extenders leave, all if it is nil; opinion returns their opinion of a node.
	choose  func([]preempt.Candidate) ([]preempt.Candidate, error)
	opinion func(node string) (placement.Opinion, error)
}

func newExtenderScenario(t *testing.T, nodes int) *extenderScenario {
	t.Helper()
	st := &extenderScenario{opinion: func(string) (placement.Opinion, error) { return placement.Opinion{}, nil }}
	w := newExtendedWorld(t, 1, 2, nil)
	st.scenario = &scenario{world: w, s: w.shards[0]}
	for n := range nodes {
		st.addNode(fmt.Sprintf("n%d", n), 1)
		st.running(fmt.Sprintf("v%d", n), fmt.Sprintf("n%d", n), important(int32(n)))
	}
	st.deliverAll()
	return st
}

// advised answers a question.
func (st *extenderScenario) advised(q step.Consult) step.Advice {
	a := step.Advice{ID: q.ID}
	if len(q.Candidates) == 0 {
		a.Opinions = map[string]placement.Opinion{}
		for _, n := range q.Nodes {
			a.Opinions[n.Name], a.Err = st.opinion(n.Name)
		}
		st.about = append(st.about, nodesOf(q))
		return a
	}
	st.about = append(st.about, candidatesOf(q.Candidates))
	if a.Candidates = q.Candidates; st.choose != nil {
		a.Candidates, a.Err = st.choose(q.Candidates)
	}
	return a
}

// candidatesOf abbreviates candidates: node-victims.
func candidatesOf(list []preempt.Candidate) string {
	var out []string
	for _, c := range list {
		text := c.Node.Name
		for _, v := range c.Victims {
			text += "-" + v.Name
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

// answerConsults answers the open questions.
func (st *extenderScenario) answerConsults() {
	asked := st.s.consults
	st.s.consults = nil
	for _, q := range asked {
		st.step(st.s, step.Input{Advice: []step.Advice{st.advised(q)}})
	}
}

// runToEnd delivers and answers everything until nothing changes.
func (st *extenderScenario) runToEnd() {
	st.t.Helper()
	for range 100 {
		st.runUntilQuiet()
		if len(st.s.consults) == 0 {
			return
		}
		st.answerConsults()
	}
	st.t.Fatal("there is no end of questions")
}

// heldOn returns the node on which a place is held for a pod; empty for none.
func (st *extenderScenario) heldOn(uid string) string {
	doc, e, ok := st.hold(uid)
	if !ok || e.State != ledger.Held {
		return ""
	}
	return doc.NodeName
}

func (st *extenderScenario) last() events.Decision {
	st.t.Helper()
	if len(st.s.decisions) == 0 {
		st.t.Fatal("there is no decision")
	}
	return st.s.decisions[len(st.s.decisions)-1]
}

// Extenders are asked about every possible victim. The cheapest of the remaining candidates is taken, and when the
// victims are gone the extenders' filter is asked once more.
func TestExtendersChooseVictims(t *testing.T) {
	st := newExtenderScenario(t, 3)
	st.choose = func(list []preempt.Candidate) ([]preempt.Candidate, error) { return list[1:], nil }
	p := st.pod("p", important(100))
	if len(st.claims()) > 0 || st.s.commit != nil {
		t.Fatalf("claims %v, in flight %+v before the extenders have been asked", st.claims(), st.s.commit)
	}
	st.runToEnd()
	if node := st.heldOn(p); node != "n1" {
		t.Fatalf("a place is held on %q, want n1: n0 is cheaper, but not left", node)
	}
	if d := st.last(); d.Kind != events.DecisionNominated || d.Evidence.Basis.Way != evidence.WayAdvised {
		t.Errorf("%s by way %d, want a nomination that cannot be made again (%d)",
			d.Kind, d.Evidence.Basis.Way, evidence.WayAdvised)
	}
	st.mark(p)
	st.deletePod("pod-v1")
	st.runToEnd()
	if d := st.last(); d.Kind != events.DecisionPlaced || d.NodeName != "n1" {
		t.Errorf("%s on %q: %s; want it placed on n1", d.Kind, d.NodeName, d.Message)
	}
	if diff := cmp.Diff([]string{"n0-v0 n1-v1 n2-v2", "n1"}, st.about); diff != "" {
		t.Errorf("questions (-want +got):\n%s", diff)
	}
}

// The victims that extenders choose are checked: they must be sufficient, less important, and not claimed by another
// plan.
func TestVictimsOfExtendersHaveToDo(t *testing.T) {
	for name, c := range map[string]struct {
		pods  []int32 // priorities of the pods on n0, which has room for two
		needs int     // how many places the pod takes
		names []string
		does  bool
	}{
		"one more than needed": {pods: []int32{1, 2}, needs: 1, names: []string{"a", "b"}, does: true},
		"another one":          {pods: []int32{1, 2}, needs: 1, names: []string{"b"}, does: true},
		"too few":              {pods: []int32{1, 2}, needs: 2, names: []string{"a"}},
		"as important":         {pods: []int32{1, 100}, needs: 1, names: []string{"a", "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			st := newExtenderScenario(t, 0)
			st.addNode("n0", 2)
			for i, priority := range c.pods {
				st.running(string(rune('a'+i)), "n0", important(priority))
			}
			st.choose = func(list []preempt.Candidate) ([]preempt.Candidate, error) {
				one := list[0]
				one.Victims = nil
				for _, p := range one.Pods {
					if slices.Contains(c.names, p.Name) {
						one.Victims = append(one.Victims, p)
					}
				}
				return []preempt.Candidate{one}, nil
			}
			st.deliverAll()
			p := st.pod("p", important(100), places(c.needs))
			st.runToEnd()
			if held := st.heldOn(p) == "n0"; held != c.does {
				t.Fatalf("held: %v, want %v: %s", held, c.does, st.last().Message)
			}
			if c.does {
				if got := st.claims(); len(got) != len(c.names) {
					t.Errorf("claims %v, want those on %q", got, c.names)
				}
				return
			}
			const why = "preemption: no candidate node for preemption: on 1 node(s), those whom extenders have go are not " +
				"enough, or may not go."
			if d := st.last(); !strings.HasSuffix(d.Message, why) || !slices.Contains(d.Plugins, placement.Extenders) {
				t.Errorf("%q by %q, want %q by the extender too", d.Message, d.Plugins, why)
			}
		})
	}
}

// places makes a pod need that many places.
func places(n int) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		cpu := resource.NewMilliQuantity(int64(100*n), resource.DecimalSI)
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = *cpu
	}
}

// A doubted node is taken if there is no other.
func TestDoubtedCandidatesComeLast(t *testing.T) {
	for doubted, want := range map[int]string{1: "n1", 2: "n0"} {
		st := newExtenderScenario(t, 2)
		st.choose = func(list []preempt.Candidate) ([]preempt.Candidate, error) {
			list = slices.Clone(list)
			for i := range doubted {
				list[i].Doubted = true
			}
			return list, nil
		}
		p := st.pod("p", important(100))
		st.runToEnd()
		if node := st.heldOn(p); node != want {
			t.Errorf("%d of 2 doubted: a place is held on %q, want %s", doubted, node, want)
		}
	}
}

// When extenders leave no candidate, the pod waits with upstream's message for any change.
func TestExtendersSpareEveryVictim(t *testing.T) {
	st := newExtenderScenario(t, 2)
	st.choose = func([]preempt.Candidate) ([]preempt.Candidate, error) { return nil, nil }
	st.pod("p", important(100))
	st.runToEnd()
	const want = "0/2 nodes are available: 2 Insufficient cpu. preemption: no candidate node for preemption"
	if d := st.last(); d.Kind != events.DecisionUnplaceable || d.Message != want ||
		!slices.Contains(d.Plugins, placement.Extenders) {
		t.Errorf("%s %q by %q, want %q by the extender too", d.Kind, d.Message, d.Plugins, want)
	}
}

// If an extender does not answer about victims, the pod is unschedulable, for autoscalers to see, and is tried
// again.
func TestExtenderFailsAboutVictims(t *testing.T) {
	st := newExtenderScenario(t, 1)
	st.choose = func([]preempt.Candidate) ([]preempt.Candidate, error) { return nil, errors.New("out to lunch") }
	st.pod("p", important(100))
	st.runToEnd()
	d := st.last()
	if d.Kind != events.DecisionUnplaceable || d.RetryAfter == 0 ||
		!strings.HasSuffix(d.Message, " preemption: out to lunch") {
		t.Errorf("%s %q, again after %s: want the error, and a time", d.Kind, d.Message, d.RetryAfter)
	}
	if len(st.claims()) > 0 {
		t.Errorf("claims %v", st.claims())
	}
}

// A node that changes while extenders are being asked counts as one that was not asked about.
func TestVictimsMoveWhileAnExtenderThinks(t *testing.T) {
	for nodes, want := range map[int][]string{
		1: {"n0-v0", "n0-v0"},                // there is no other node: it is asked about again
		2: {"n0-v0 n1-v1"},                   // the other node is taken
		3: {"n0-v0 n1-v1 n2-v2", "n1-v1 n2"}, // see below
	} {
		st := newExtenderScenario(t, nodes)
		moved := false
		st.choose = func(list []preempt.Candidate) ([]preempt.Candidate, error) {
			if !moved {
				moved = true
				st.publish(st.pods["pod-v0"])
				if nodes == 3 { // the other victims leave by themselves: the pod fits
					st.deletePod("pod-v2")
				}
				st.deliverFacts()
			}
			return list, nil
		}
		p := st.pod("p", important(100))
		st.runToEnd()
		if nodes == 3 {
			if d := st.last(); d.Kind != events.DecisionPlaced || d.NodeName != "n2" || len(st.claims()) > 0 {
				t.Errorf("%s on %q, claims %v: want it placed on n2, which is free by now", d.Kind, d.NodeName, st.claims())
			}
			continue
		}
		if node := st.heldOn(p); node != fmt.Sprintf("n%d", nodes-1) {
			t.Errorf("of %d nodes a place is held on %q, want the last", nodes, node)
		}
		if diff := cmp.Diff(want, st.about); diff != "" {
			t.Errorf("%d nodes: questions (-want +got):\n%s", nodes, diff)
		}
	}
}

// No pod is evicted on a node that an extender finds hopeless, nor where only the extender is in the way.
func TestNoPodGoesWhereAnExtenderRefuses(t *testing.T) {
	for _, hopeless := range []bool{false, true} {
		st := newExtenderScenario(t, 1)
		st.addNode("roomy", 2)
		st.running("w", "roomy")
		st.deliverAll()
		st.opinion = func(string) (placement.Opinion, error) {
			return placement.Opinion{Rejected: true, Unresolvable: hopeless, Reasons: []string{"no licence"}}, nil
		}
		p := st.pod("p", important(100))
		st.runToEnd()
		if node := st.heldOn(p); node != "n0" {
			t.Errorf("hopeless %v: a place is held on %q, want n0", hopeless, node)
		}
		if diff := cmp.Diff([]string{"roomy", "n0-v0"}, st.about); diff != "" {
			t.Errorf("hopeless %v: questions (-want +got):\n%s", hopeless, diff)
		}
	}
}

// If a filter refuses the pod after its victims were evicted, the place is given up, and that counts as failed
// preemption. If it fails, it is asked again with every heartbeat, until patience ends.
func TestFilterRefusesTheHeldPlace(t *testing.T) {
	gone := func(t *testing.T, opinion func(string) (placement.Opinion, error)) *extenderScenario {
		st := newExtenderScenario(t, 1)
		p := st.pod("p", important(100))
		st.runToEnd()
		st.opinion = opinion
		st.mark(p)
		st.deletePod("pod-v0")
		st.runToEnd()
		return st
	}
	t.Run("no", func(t *testing.T) {
		st := gone(t, func(string) (placement.Opinion, error) {
			return placement.Opinion{Rejected: true, Reasons: []string{"no licence"}}, nil
		})
		const want = "The place held for it on node n0 was given up: an extender turns it down: no licence."
		if d := st.last(); d.Kind != events.DecisionWithdrawn || d.Message != want {
			t.Errorf("%s %q, want %q", d.Kind, d.Message, want)
		}
	})
	t.Run("fails", func(t *testing.T) {
		out := true
		st := gone(t, func(string) (placement.Opinion, error) {
			if out {
				return placement.Opinion{}, errors.New("out to lunch")
			}
			return placement.Opinion{}, nil
		})
		before := len(st.about)
		for range 3 {
			st.step(st.s, step.Input{Beat: true})
			st.runToEnd()
		}
		if len(st.about) != before+3 || st.last().Kind != events.DecisionNominated {
			t.Fatalf("%d questions in 3 heartbeats, last %s: want one in each, and the place held",
				len(st.about)-before, st.last().Kind)
		}
		out = false
		st.step(st.s, step.Input{Beat: true})
		st.runToEnd()
		if d := st.last(); d.Kind != events.DecisionPlaced {
			t.Errorf("%s %q, want it placed when the extender is back", d.Kind, d.Message)
		}
	})
	t.Run("fails for good", func(t *testing.T) {
		st := gone(t, func(string) (placement.Opinion, error) { return placement.Opinion{}, errors.New("out to lunch") })
		for range 4 {
			st.now = st.now.Add(time.Minute)
			st.step(st.s, step.Input{Beat: true})
			st.runToEnd()
		}
		if d := st.last(); d.Kind != events.DecisionWithdrawn || !strings.Contains(d.Message, "out to lunch") {
			t.Errorf("%s %q, want the place given up", d.Kind, d.Message)
		}
	})
}

// The victim of a plan was only reserved and is bound after all, while extenders are asked about the place of
// another plan whose victim has gone. The free room belongs to the other plan.
func TestPromisedRoomIsNotTakenByAPlanThatFailed(t *testing.T) {
	st := newExtenderScenario(t, 0)
	st.addNode("n0", 3)
	v := st.running("v", "n0")
	st.running("stays", "n0", important(500))
	st.deliverAll()
	r := st.pod("r", important(1))
	st.runToEnd()
	p := st.pod("p", important(100))
	st.runToEnd()
	st.mark(p)
	st.deletePod(v)
	st.runUntilQuiet()
	about := st.s.consults
	st.s.consults = nil
	if len(about) != 1 || nodesOf(about[0]) != "n0" {
		t.Fatalf("questions %+v, want one about the place of p", about)
	}
	q := st.pod("q", important(50))
	st.runToEnd()
	if st.heldOn(p) != "n0" || st.heldOn(q) != "n0" {
		t.Fatalf("places are held on %q for p and on %q for q, want both on n0", st.heldOn(p), st.heldOn(q))
	}
	st.pods[r].Spec.NodeName = "n0"
	st.publish(st.pods[r])
	st.runUntilQuiet()
	st.step(st.s, step.Input{Beat: true})
	st.runToEnd()
	const want = "The place held for it on node n0 was given up: the room that is left there is promised to another pod."
	if d := st.last(); d.Kind != events.DecisionWithdrawn || d.Pod.UID != q || d.Message != want {
		t.Errorf("%s of %s: %q, want q's place given up: %q", d.Kind, d.Pod.Name, d.Message, want)
	}
	st.step(st.s, step.Input{Advice: []step.Advice{st.advised(about[0])}})
	st.runToEnd()
	if d := st.last(); d.Kind != events.DecisionPlaced || d.Pod.UID != p {
		t.Errorf("%s of %s: %q, want p placed", d.Kind, d.Pod.Name, d.Message)
	}
}

// A place that is held for a pod is not given up because the rules let it pass elsewhere.
func TestHeldPlaceIsKeptWhereExtendersAreConsulted(t *testing.T) {
	st := newExtenderScenario(t, 1)
	p := st.pod("p", important(100))
	st.runToEnd()
	st.addNode("free", 1)
	st.deliverAll()
	for range 3 {
		st.now = st.now.Add(2 * time.Second)
		st.step(st.s, step.Input{Beat: true})
		st.runToEnd()
	}
	if node := st.heldOn(p); node != "n0" {
		t.Errorf("a place is held on %q, want n0: of the other node extenders have said nothing", node)
	}
}

// A shard that stops gives back the pods that wait for extenders, and ignores the answer.
func TestDrainWhileAnExtenderThinksAboutVictims(t *testing.T) {
	st := newExtenderScenario(t, 1)
	st.pod("p", important(100))
	if len(st.s.consults) != 1 || len(st.s.consults[0].Candidates) != 1 {
		t.Fatalf("questions %+v, want one about a candidate", st.s.consults)
	}
	out, err := checked(st.s.core.Step(step.Input{Drain: true, Beat: true}, st.now))
	if err != nil || !out.Idle || len(out.Request.Return) != 1 {
		t.Fatalf("%v, idle %v, returned %+v: want the one offer back", err, out.Idle, out.Request)
	}
	out, err = checked(st.s.core.Step(step.Input{Advice: []step.Advice{st.advised(st.s.consults[0])}}, st.now))
	if err != nil || out.Commit != nil || len(out.Decisions) > 0 {
		t.Fatalf("%v, commit %+v, decisions %v: want none", err, out.Commit, out.Decisions)
	}
}

// For pods without a resource that an extender manages, victims are chosen without a question.
func TestUninterestedExtendersAreNotAskedAboutVictims(t *testing.T) {
	cfg := placement.DefaultProfile(corev1.DefaultSchedulerName)
	cfg.Extenders = []configv1.Extender{{
		PreemptVerb: "p", ManagedResources: []configv1.ExtenderManagedResource{{Name: "example.com/gpu"}},
	}}
	w := newWorldOf(t, 1, 2, cfg)
	st := &extenderScenario{scenario: &scenario{world: w, s: w.shards[0]}}
	st.addNode("n0", 1)
	st.running("v", "n0")
	st.deliverAll()
	p := st.pod("p", important(100))
	st.runUntilQuiet()
	if node := st.heldOn(p); node != "n0" {
		t.Errorf("a place is held on %q, want n0", node)
	}
}

// Histories of TestShardsPreempt with an extender that is slow, fails, and omits some of the candidates: the
// promises hold, and no pod is evicted where the extender has not allowed it.
func TestShardsPreemptWithExtenders(t *testing.T) {
	total := map[string]int{}
	for seed := *preemptFirst; seed < *preemptFirst+*preemptSeeds && !t.Failed(); seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			var a *arena
			allowed, failures := map[string]bool{}, 0
			refuses := func(node string) bool { return node == "n1" && seed%4 == 0 }
			answer := opinions(func(node string) placement.Opinion { return placement.Opinion{Rejected: refuses(node)} })
			a = arenaIn(newExtendedWorld(t, seed, 2+int(seed%2), func(q step.Consult) step.Advice {
				if failures < 5 && a.rng.IntN(8) == 0 {
					failures++
					return step.Advice{ID: q.ID, Err: errors.New("out to lunch")}
				}
				if len(q.Candidates) == 0 {
					return answer(q)
				}
				total["asked"]++
				advice := step.Advice{ID: q.ID}
				for _, c := range q.Candidates {
					if a.rng.IntN(5) == 0 || refuses(c.Node.Name) {
						continue
					}
					for _, v := range c.Victims {
						allowed[v.UID] = true
					}
					advice.Candidates = append(advice.Candidates, c)
				}
				return advice
			}))
			a.play()
			for _, broken := range a.broken {
				t.Errorf("seed %d: %s", seed, broken)
			}
			for uid := range a.evicted {
				if !allowed[uid] {
					t.Errorf("seed %d: %s was evicted, about whom no extender has been asked", seed, uid)
				}
			}
			total["evicted"] += len(a.evicted)
			total["fulfilled"] += len(a.fulfilled)
		})
	}
	t.Logf("%d histories: %v", *preemptSeeds, total)
	if *preemptSeeds >= 30 && (total["asked"] == 0 || total["evicted"] == 0 || total["fulfilled"] == 0) {
		t.Errorf("%v: want some of each", total)
	}
}
