package decide

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"

	"github.com/berth-scheduler/berth/services/queue/decide/waiting"
)

// lost returns a harness in which pod a was rejected from facts of epoch 1, of which those after the sixth are
// then lost.
func lost(t *testing.T) *harness {
	h := newHarness(t)
	h.epoch = 1
	h.node("n", func(n *corev1.Node) { n.Spec.Unschedulable = true })
	h.lead()
	h.add("a", 0)
	h.ask("s1", 1)
	h.sequence = 9
	h.facts(state.Changes{})
	h.answer(h.offerOf("a"), events.DecisionUnplaceable, func(d *events.Decision) {
		d.Plugins, d.FactEpoch = []string{"NodeResourcesFit"}, 1
	})
	return h
}

// rewound applies the store of the remaining facts.
func (h *harness) rewound(sequence uint64) {
	h.t.Helper()
	h.sequence = sequence
	var pods []*state.Pod
	for _, p := range h.pods {
		pods = append(pods, p)
	}
	h.step(FactsReset{Pods: pods, Position: h.at()})
}

// Facts that have taken the sequences of lost ones are news to a verdict that was computed from the lost ones.
func TestFactsUnderNumbersOfLostOnesWake(t *testing.T) {
	h := lost(t)
	h.rewound(6)
	h.sleep(flushAfter / 10)
	h.want("a", waiting.PoolParked)
	h.epoch = 2
	h.node("m", label)
	h.ask("s1", 9)
	h.want("a", waiting.PoolOffered)
}

// The same holds if the verdict arrives only then, from the decisions log.
func TestVerdictFromLostFactsComesLate(t *testing.T) {
	h := newHarness(t)
	h.lead()
	h.add("a", 0)
	h.ask("s1", 1)
	o := h.offerOf("a")
	h.epoch = 2
	h.node("m", label)
	h.answer(o, events.DecisionUnplaceable, func(d *events.Decision) {
		d.Plugins, d.FactEpoch, d.FactSequence = []string{"NodeResourcesFit"}, 1, h.sequence+5
	})
	h.sleep(flushAfter / 10)
	h.ask("s1", 9)
	h.want("a", waiting.PoolOffered)
}

// A new epoch alone, in which nothing is lost, wakes no pod.
func TestVerdictBeforeAnEpochIsValid(t *testing.T) {
	h := lost(t)
	h.want("a", waiting.PoolParked)
	h.epoch = 2
	h.node("n", func(n *corev1.Node) { n.Annotations = map[string]string{"k": "v"} })
	h.sleep(flushAfter / 10)
	h.ask("s1", 9)
	h.want("a", waiting.PoolParked)
	if v := h.core.backlog.pods[h.pods["a"].UID].Verdict; v.FactSequence != 10 {
		t.Errorf("the verdict counts from %d on, want 10", v.FactSequence)
	}
}

// What a verdict saw in the lost facts may be gone without any fact about it: the pod is tried again, although
// nothing that is published now would help it.
func TestVerdictFromLostFactsIsTriedAgain(t *testing.T) {
	h := lost(t)
	h.rewound(6)
	h.sleep(flushAfter / 10)
	h.want("a", waiting.PoolParked)
	h.epoch = 2
	h.node("n", func(n *corev1.Node) { n.Annotations = map[string]string{"k": "v"} })
	h.ask("s1", 9)
	h.want("a", waiting.PoolOffered)
}
