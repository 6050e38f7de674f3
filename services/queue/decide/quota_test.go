package decide

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"

	"github.com/berth-scheduler/berth/services/queue/decide/memory"
	"github.com/berth-scheduler/berth/services/queue/decide/quota"
	"github.com/berth-scheduler/berth/services/queue/decide/waiting"
)

// budget gives a namespace a budget; an empty text removes it.
func (h *harness) budget(namespace, text string) {
	h.t.Helper()
	obj := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, UID: types.UID(namespace)}}
	if text != "" {
		obj.Annotations = map[string]string{quota.Annotation: text}
	}
	h.facts(state.Changes{Others: []state.ObjectChange{{
		Kind: events.KindNamespace, After: &state.Object{Kind: events.KindNamespace, Name: namespace, API: obj},
	}}})
}

func (h *harness) gated(namespace, name, cpu string, gates ...string) {
	h.t.Helper()
	h.put(name, func(p *corev1.Pod) {
		p.Namespace = namespace
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse(cpu)
		for _, g := range append(gates, events.QuotaGate) {
			p.Spec.SchedulingGates = append(p.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: g})
		}
	})
}

// ungated returns the pods that were let go since the last call, and forgets them.
func (h *harness) ungated() []string {
	h.t.Helper()
	var names []string
	for _, d := range h.records {
		if d.Kind != events.DecisionUngate || d.Actor != "queue-a" {
			h.t.Fatalf("record %+v", d)
		}
		names = append(names, d.Pod.Name)
	}
	h.records = nil
	return names
}

func (h *harness) wantUngated(want ...string) {
	h.t.Helper()
	if diff := cmp.Diff(want, h.ungated()); diff != "" {
		h.t.Fatalf("%s", diff)
	}
}

func (h *harness) ungate(name string) {
	h.t.Helper()
	h.put(name, func(p *corev1.Pod) { p.Spec.SchedulingGates = nil })
}

func TestPodsWaitForTheBudgetInOrder(t *testing.T) {
	h := newHarness(t)
	h.lead()
	h.budget("ns", "requests.cpu=3")
	h.gated("ns", "a", "2")
	h.gated("ns", "b", "2")
	h.gated("ns", "c", "1")
	h.wantUngated("a") // b is next and does not fit; c would, and does not overtake it
	h.want("b", waiting.PoolGated)
	if _, why := h.core.Where("b"); !strings.Contains(why, "requests.cpu=2 ") {
		t.Fatalf("reason %q", why)
	}
	h.ungate("a")
	h.want("a", waiting.PoolActive)
	h.wantUngated()
	h.put("a", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
	h.wantUngated("b", "c")
	// More room, less room, an invalid budget, no budget.
	h.gated("ns", "d", "2")
	h.gated("ns", "e", "1")
	h.wantUngated()
	h.budget("ns", "requests.cpu=5")
	h.wantUngated("d")
	h.budget("ns", "requests.cpu=1")
	h.wantUngated()
	h.budget("ns", "requests.cpu=much")
	if _, why := h.core.Where("e"); !strings.Contains(why, "namespace ns: annotation "+quota.Annotation) {
		t.Fatalf("reason %q", why)
	}
	h.budget("ns", "")
	h.wantUngated("e")
}

// TestOtherGatesComeFirst checks that room is not held for a pod that cannot go yet.
func TestOtherGatesComeFirst(t *testing.T) {
	h := newHarness(t)
	h.lead()
	h.budget("ns", "pods=1")
	h.gated("ns", "a", "1", "other")
	h.gated("ns", "b", "1")
	h.wantUngated("b")
	h.remove("b")
	h.wantUngated()
	h.put("a", func(p *corev1.Pod) { p.Spec.SchedulingGates = p.Spec.SchedulingGates[1:] })
	h.wantUngated("a")
	// The pod of another scheduler counts, and a second leader lets no pod go twice.
	h.remove("a")
	h.put("foreign", func(p *corev1.Pod) { p.Spec.SchedulerName = "other" })
	h.gated("ns", "c", "1")
	h.wantUngated()
	h.remove("foreign")
	h.wantUngated("c")
}

func TestAGateThatStaysIsAskedAboutAgain(t *testing.T) {
	h := newHarness(t)
	h.lead()
	h.budget("ns", "pods=1")
	h.gated("ns", "a", "1")
	h.wantUngated("a")
	h.sleep(quota.RemovalTime - 1)
	h.wantUngated()
	h.sleep(1)
	h.wantUngated("a")
	// A reset of the facts does not change that.
	h.step(FactsReset{Pods: []*state.Pod{h.pods["a"]}, Position: h.at()})
	h.wantUngated()
	h.step(StepDown{})
	h.sleep(quota.RemovalTime)
	h.wantUngated()
}

// TestAPodThatWasLetGoKeepsItsRoom checks that binders repeat a removal until it succeeds, however long that takes,
// and that no other pod gets the room before the gate or the pod is gone.
func TestAPodThatWasLetGoKeepsItsRoom(t *testing.T) {
	for name, end := range map[string]func(h *harness){
		"its gate goes, and it ends": func(h *harness) {
			h.ungate("low")
			h.wantUngated()
			h.put("low", ended)
		},
		"it is deleted": func(h *harness) { h.remove("low") },
		"it has ended":  func(h *harness) { h.put("low", ended) },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			h.lead()
			h.budget("ns", "pods=1")
			h.gated("ns", "low", "1")
			h.wantUngated("low")
			h.gated("ns", "high", "1")
			h.put("high", moreUrgent)
			for range 3 {
				h.sleep(quota.RemovalTime - 1)
				h.wantUngated()
				h.sleep(1)
				h.wantUngated("low")
			}
			h.budget("ns", "pods=0") // it can go at any moment all the same
			h.sleep(quota.RemovalTime)
			h.wantUngated("low")
			h.budget("ns", "pods=1")
			h.wantUngated()
			h.check()
			end(h)
			h.wantUngated("high")
			h.check()
		})
	}
}

// TestGatesThatStayDelayNoOtherPod covers a namespace whose pods keep their gates, for instance because an admission
// webhook refuses the change: its removals are requested again in turn with the others.
func TestGatesThatStayDelayNoOtherPod(t *testing.T) {
	h := newHarness(t)
	for i := range 2 * quota.MaxOutstanding {
		h.gated("stuck", fmt.Sprintf("stuck%d", i), "100m")
	}
	h.lead()
	if n := len(h.ungated()); n != quota.MaxOutstanding {
		t.Fatalf("%d may go, want %d", n, quota.MaxOutstanding)
	}
	h.gated("other", "other", "1")
	h.wantUngated()
	h.sleep(quota.RemovalTime)
	again := h.ungated()
	if len(again) != quota.MaxOutstanding || !slices.Contains(again, "other") {
		t.Fatalf("%d may go, want %d and the other namespace's among them", len(again), quota.MaxOutstanding)
	}
	h.check()
}

func (h *harness) check() {
	h.t.Helper()
	if err := h.core.Check(maps.Values(h.pods)); err != nil {
		h.t.Fatalf("%v", err)
	}
}

// ungateOf returns another leader's decision to let a pod go.
func (h *harness) ungateOf(name string, sequence uint64) Decided {
	return Decided{Decisions: []events.SequencedDecision{{Sequence: sequence, Decision: events.Decision{
		Kind: events.DecisionUngate, Pod: events.PodRef{UID: name}, Token: "1", FactSequence: h.sequence, FactEpoch: h.epoch,
	}}}}
}

// TestAnotherLeaderIsNotRepeated checks that what another leader has let go counts against the budget, whichever a
// replica reads first, facts or decisions.
func TestAnotherLeaderIsNotRepeated(t *testing.T) {
	for name, begin := range map[string]func(h *harness){
		"facts first": func(h *harness) {
			h.gated("ns", "a", "1")
			h.step(h.ungateOf("a", 1))
		},
		"decisions first": func(h *harness) {
			h.sequence++ // the fact of a
			h.step(h.ungateOf("a", 1))
			h.step(h.ungateOf("deleted", 2))
			h.sequence--
			h.gated("ns", "a", "1")
		},
		"decisions before all facts": func(h *harness) {
			h.sequence = 10
			h.step(h.ungateOf("a", 1))
			h.step(h.ungateOf("deleted", 2))
			h.sequence = 8
			h.facts(state.Changes{})
			h.gated("ns", "a", "1")
		},
		"facts read again from before": func(h *harness) {
			h.sequence = 5
			h.gated("ns", "a", "1")
			h.step(h.ungateOf("a", 1))
			a := h.pods["a"]
			h.sequence -= 2
			delete(h.pods, "a")
			h.step(FactsReset{Position: h.at()})
			h.pods["a"] = a
			h.facts(state.Changes{Pods: []state.PodChange{{After: a}}})
			h.facts(state.Changes{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			h.step(FactsReset{Position: h.at()})
			begin(h)
			h.budget("ns", "pods=1")
			h.gated("ns", "b", "1")
			h.lead()
			h.wantUngated()
			h.sleep(quota.RemovalTime)
			h.wantUngated("a")
			h.check()
			if n := h.core.budgets.Sizes().Hidden; n != 0 {
				t.Errorf("%d pods are remembered that are gone", n)
			}
			h.ungate("a")
			h.remove("a")
			h.wantUngated("b")
		})
	}
}

// TestAMemoryNamesThoseThatWereLetGo checks that these pods count for a replica that starts with the memory. If an
// earlier version wrote the memory, it does not name them, and the decisions from before it are read once more for
// that.
func TestAMemoryNamesThoseThatWereLetGo(t *testing.T) {
	h := newHarness(t)
	h.add("failing", 0)
	h.gated("ns", "a", "1")
	h.step(Decided{Decisions: []events.SequencedDecision{{Sequence: 3, Decision: events.Decision{
		Kind: events.DecisionFailed, Pod: events.PodRef{UID: "failing"}, Token: "2", Attempt: 2, FactSequence: 99,
	}}}})
	ungate := h.ungateOf("a", 4)
	h.step(ungate)
	written, _ := h.core.Remember()
	for name, data := range map[string][]byte{"this version": written, "an earlier version": withoutLeaving(t, written)} {
		t.Run(name, func(t *testing.T) {
			known, err := memory.Decode(data)
			if err != nil {
				t.Fatal(err)
			}
			if !known.Complete != (name == "an earlier version") {
				t.Fatalf("complete: %t", known.Complete)
			}
			next := newHarness(t)
			next.step(Remembered{Memory: known})
			if !known.Complete {
				old := events.Decision{Kind: events.DecisionFailed, Pod: events.PodRef{UID: "failing"}, Token: "9", Attempt: 7}
				next.step(Decided{Decisions: []events.SequencedDecision{{Sequence: 2, Decision: old}, ungate.Decisions[0]}})
			}
			next.gated("ns", "a", "1")
			next.budget("ns", "pods=1")
			next.gated("ns", "b", "1")
			next.add("failing", 0)
			next.lead()
			if let := next.ungated(); slices.Contains(let, "b") {
				t.Errorf("%q may go: there is no room beside a", let)
			}
			if n := next.core.backlog.pods["failing"].Attempt.Count; n != 2 {
				t.Errorf("%d attempts at the other pod, want 2 as the memory says", n)
			}
			if next.core.decisions.sequence != 4 {
				t.Errorf("decisions are read up to %d, want 4", next.core.decisions.sequence)
			}
		})
	}
}

// withoutLeaving returns a memory as earlier versions wrote it.
func withoutLeaving(t *testing.T, data []byte) []byte {
	t.Helper()
	const leaving, complete = 9, 10
	var out []byte
	for len(data) > 0 {
		field, _, n := protowire.ConsumeField(data)
		if n < 0 {
			t.Fatal(n)
		}
		if field != leaving && field != complete {
			out = append(out, data[:n]...)
		}
		data = data[n:]
	}
	return out
}

// TestALeaderReadsWhatTheOneBeforeDecided checks that no pod is let go before it has.
func TestALeaderReadsWhatTheOneBeforeDecided(t *testing.T) {
	h := newHarness(t)
	h.budget("ns", "pods=1")
	h.gated("ns", "a", "1")
	h.gated("ns", "b", "1")
	h.step(Decided{CaughtUp: true})
	h.step(Lead{Term: 2, Decided: 7})
	h.wantUngated()
	h.step(h.ungateOf("b", 6))
	h.wantUngated()
	h.step(Decided{Through: 7}) // the record there cannot be read
	h.wantUngated()
	h.sleep(quota.SettleTime)
	h.wantUngated("b")
	h.remove("b")
	h.wantUngated("a")
}

// NATS lost its tail, with the decision to let a go, and a binder has read it. The next leader gives a's room to no
// other pod before that binder has removed the gate or stopped trying.
func TestALeaderWaitsForWhatTheLogHasLost(t *testing.T) {
	h := newHarness(t)
	h.budget("ns", "pods=1")
	h.gated("ns", "a", "1")
	h.gated("ns", "b", "1")
	h.put("b", moreUrgent)
	h.gated("free", "unlimited", "1")
	h.step(Decided{CaughtUp: true, Through: 7})
	h.step(Lead{Term: 2, Decided: 7})
	h.wantUngated("unlimited")
	h.ungate("unlimited")
	h.sleep(quota.SettleTime - 1)
	h.wantUngated()
	h.check()
	h.ungate("a")
	h.wantUngated()
	h.sleep(1)
	h.wantUngated()
	h.remove("a")
	h.wantUngated("b")
	h.check()
}

// NATS lost all of the log, with the decision to let a go. An empty log says nothing about what it has lost.
func TestALeaderWaitsForALogThatHasLostEverything(t *testing.T) {
	h := newHarness(t)
	h.budget("ns", "pods=1")
	h.gated("ns", "a", "1")
	h.gated("ns", "b", "1")
	h.put("b", moreUrgent)
	h.step(Decided{CaughtUp: true, Through: 7})
	none := uint64(0)
	h.step(Decided{Shortened: &none})
	h.step(Lead{Term: 2})
	h.sleep(quota.SettleTime - 1)
	h.wantUngated()
	h.ungate("a")
	h.sleep(1)
	h.wantUngated()
	h.remove("a")
	h.wantUngated("b")
	h.check()
}

// TestALeaderThatLeadsAgainGivesTurns covers also a first term that ended before the leader had waited.
func TestALeaderThatLeadsAgainGivesTurns(t *testing.T) {
	h := newHarness(t)
	h.budget("ns", "pods=1")
	h.gated("ns", "a", "1")
	h.step(Decided{CaughtUp: true, Through: 7})
	h.step(Lead{Term: 2, Decided: 7})
	h.step(StepDown{})
	h.check()
	none := uint64(0)
	h.step(Decided{Shortened: &none})
	h.step(Lead{Term: 4})
	h.check()
	h.sleep(quota.SettleTime)
	h.wantUngated("a")
	h.check()
}

// TestWhatTheLogHasNotDoesNotOutliveItsLeader covers decisions of which the next leader cannot know either.
func TestWhatTheLogHasNotDoesNotOutliveItsLeader(t *testing.T) {
	h := newHarness(t)
	h.lead()
	h.budget("ns", "pods=2")
	h.gated("ns", "recorded", "1")
	h.gated("ns", "dropped", "1")
	h.wantUngated("recorded", "dropped")
	h.step(h.ungateOf("recorded", 1))
	h.step(StepDown{})
	h.check()
	h.step(h.ungateOf("other", 2))
	h.gated("ns", "other", "1")
	h.put("other", moreUrgent)
	h.step(h.ungateOf("other", 3))
	h.step(Lead{Term: 3})
	h.wantUngated()
	h.sleep(quota.SettleTime)
	h.wantUngated("other", "recorded") // once more
	h.check()
	h.remove("recorded")
	h.wantUngated("dropped")
}

// TestNamespacesTakeTurns checks that turns are by CPU, not by pods.
func TestNamespacesTakeTurns(t *testing.T) {
	h := newHarness(t)
	for i := range 4 {
		h.gated("large", fmt.Sprintf("l%d", i), "2")
	}
	for i := range 8 {
		h.gated("small", fmt.Sprintf("s%d", i), "500m")
	}
	h.lead()
	h.wantUngated("s0", "s1", "l0", "s2", "s3", "s4", "s5", "l1", "s6", "s7", "l2", "l3")
}

// TestWhoIsFirstNow checks that when the head of the queue leaves, requests less, or is overtaken, the new head gets
// the available room without waiting for another change.
func TestWhoIsFirstNow(t *testing.T) {
	for name, change := range map[string]func(h *harness){
		"the head goes":          func(h *harness) { h.remove("large") },
		"the head has ended":     func(h *harness) { h.put("large", ended) },
		"the head asks for less": func(h *harness) { h.put("large", smaller) },
		"the head is overtaken":  func(h *harness) { h.put("small", moreUrgent) },
		"the namespace goes": func(h *harness) {
			ns := &state.Object{Kind: events.KindNamespace, Name: "ns"}
			h.facts(state.Changes{Others: []state.ObjectChange{{Kind: events.KindNamespace, Before: ns}}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			h.lead()
			h.budget("ns", "requests.cpu=2")
			h.gated("ns", "large", "4")
			h.gated("ns", "small", "1")
			h.wantUngated()
			change(h)
			if len(h.ungated()) == 0 {
				t.Errorf("nobody goes\n%s", h.core.Describe())
			}
		})
	}
}

func smaller(p *corev1.Pod) {
	p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("1")
}

func ended(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }

func moreUrgent(p *corev1.Pod) {
	priority := int32(5)
	p.Spec.Priority = &priority
}

// A replica that has read records which the log has lost knows nothing of the records in their place, and lets no pod
// go before it has read those.
func TestALogThatLostRecordsIsReadAgain(t *testing.T) {
	h := newHarness(t)
	h.budget("ns", "pods=1")
	h.gated("ns", "a", "1")
	h.gated("ns", "b", "1")
	h.step(Decided{Through: 10, CaughtUp: true})
	last := uint64(4)
	h.step(Decided{Shortened: &last})
	h.step(Lead{Term: 2, Decided: 5})
	h.sleep(quota.SettleTime)
	h.wantUngated()
	h.step(Decided{Through: 4, CaughtUp: true})
	h.wantUngated()
	h.step(h.ungateOf("b", 5))
	h.wantUngated()
	h.remove("b")
	h.wantUngated("a")
}

// TestDecisionsThatTheLogHasLostAreMadeAgain covers decisions of which neither the next leader nor a binder may know.
func TestDecisionsThatTheLogHasLostAreMadeAgain(t *testing.T) {
	h := newHarness(t)
	h.lead()
	h.budget("ns", "pods=2")
	h.gated("ns", "kept", "1")
	h.gated("ns", "lost", "1")
	h.wantUngated("kept", "lost")
	h.step(h.ungateOf("kept", 1))
	h.step(h.ungateOf("lost", 2))
	h.wantUngated()
	last := uint64(1)
	h.step(Decided{Shortened: &last})
	h.wantUngated()
	h.step(h.ungateOf("kept", 1))
	h.wantUngated("lost")
	h.check()
}
