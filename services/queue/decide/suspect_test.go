package decide

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"

	"github.com/berth-scheduler/berth/services/queue/decide/waiting"
)

func TestPodsThatKillTheirShardsAreQuarantined(t *testing.T) {
	h := newHarness(t)
	h.lead()
	h.add("poison", 0)
	h.add("good", 0)
	expire := func() {
		h.ask("s1", 9)
		h.sleep(lease)
	}
	expire()
	expire() // both are suspects now, and offered one at a time
	h.ask("s1", 9)
	h.want("poison", waiting.PoolOffered)
	h.want("good", waiting.PoolActive)
	h.add("innocent", 0)
	h.want("innocent", waiting.PoolActive)
	h.sleep(lease)
	h.ask("s1", 9)
	h.want("poison", waiting.PoolOffered)
	h.sleep(lease)
	h.want("poison", waiting.PoolParked)
	if len(h.records) != 1 || h.records[0].Kind != events.DecisionQuarantined || h.records[0].Pod.Name != "poison" ||
		h.records[0].Attempt != 4 || !strings.Contains(h.records[0].Message, "4 attempts") {
		t.Fatalf("records %+v", h.records)
	}
	h.ask("s1", 9)
	h.want("good", waiting.PoolOffered)
	h.want("innocent", waiting.PoolActive)
	h.answer(h.offerOf("good"), events.DecisionFailed, nil)
	h.want("innocent", waiting.PoolOffered)
	// Neither time, events, its own condition nor the record itself free it.
	h.applyDecision(h.records[0])
	h.node("n", func(*corev1.Node) {})
	h.put("poison", func(p *corev1.Pod) { p.Status.Message = "in quarantine" })
	h.sleep(3 * flushAfter)
	h.want("poison", waiting.PoolParked)
	if _, why := h.core.Where("poison"); !strings.Contains(why, "quarantine") {
		t.Fatalf("reason %q", why)
	}
	h.put("poison", func(p *corev1.Pod) { p.Labels = map[string]string{"mended": "yes"} })
	h.ask("s1", 9)
	h.want("poison", waiting.PoolOffered)
}

// TestQuarantineSurvives checks that another leader learns of a quarantine from the log.
func TestQuarantineSurvives(t *testing.T) {
	h := newHarness(t)
	h.add("a", 0)
	h.applyDecision(events.Decision{
		Kind: events.DecisionQuarantined, Pod: events.PodRef{UID: "a"}, Token: "1", Attempt: 9, Message: "no",
	})
	h.lead()
	h.ask("s1", 9)
	h.sleep(2 * flushAfter)
	h.want("a", waiting.PoolParked)
}
