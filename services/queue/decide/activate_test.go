package decide

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/work"
	"github.com/berth-scheduler/berth/services/queue/decide/waiting"
)

// activate makes a shard that requests no work pass on the requests of plugins.
func (h *harness) activate(uids ...string) {
	h.t.Helper()
	h.step(WorkRequested{Request: work.Request{Shard: "s1", Activate: uids}})
}

// A pod that is parked or in backoff is active at once when a plugin requests it.
func TestActivated(t *testing.T) {
	h := parked(t, "NodeResourcesFit", nil)
	h.activate("a", "unknown")
	h.want("a", waiting.PoolActive)
	h.ask("s1", 1)
	h.answer(h.offerOf("a"), events.DecisionFailed, nil)
	h.put("a", func(p *corev1.Pod) { p.Status.Message = "no" })
	h.applyDecision(events.Decision{Kind: events.DecisionCondition, Pod: h.offerOf("a").Pod, PodResourceVersion: 1})
	h.want("a", waiting.PoolBackoff)
	h.activate("a")
	h.want("a", waiting.PoolActive)
}

// A pod whose last condition has yet to be written is not offered before the condition shows.
func TestActivatedBeforeItsCondition(t *testing.T) {
	h := newHarness(t)
	h.lead()
	h.add("a", 0)
	h.ask("s1", 1)
	h.answer(h.offerOf("a"), events.DecisionUnplaceable, plugins("NodeResourcesFit"))
	h.activate("a")
	h.want("a", waiting.PoolBackoff)
	h.applyDecision(events.Decision{Kind: events.DecisionCondition, Pod: h.offerOf("a").Pod, PodResourceVersion: 1})
	h.sleep(0)
	h.want("a", waiting.PoolActive)
}

// A pod that is being tried is remembered: it goes into backoff where it would be parked, once.
func TestActivatedWhileOffered(t *testing.T) {
	h := newHarness(t)
	h.lead()
	h.add("a", 0)
	for _, pool := range []waiting.Pool{waiting.PoolBackoff, waiting.PoolParked} {
		h.ask("s1", 1)
		h.want("a", waiting.PoolOffered)
		if pool == waiting.PoolBackoff {
			h.activate("a")
			h.want("a", waiting.PoolOffered)
		}
		h.step(WorkRequested{Request: work.Request{Shard: "s1"}})
		h.answer(h.offerOf("a"), events.DecisionUnplaceable, plugins("NodeResourcesFit"))
		h.want("a", pool)
		h.sleep(20 * time.Second)
	}
}

// Gates and quarantine hold, whatever a plugin requests.
func TestActivatedButHeld(t *testing.T) {
	h := newHarness(t)
	h.lead()
	h.put("gated", func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}} })
	h.add("bad", 0)
	h.ask("s1", 1)
	h.step(WorkRequested{Request: work.Request{Shard: "s1"}})
	h.answer(h.offerOf("bad"), events.DecisionQuarantined, nil)
	h.activate("gated", "bad")
	h.want("gated", waiting.PoolGated)
	h.want("bad", waiting.PoolParked)
}

// A verdict about a like pod does not keep an activated pod from being tried.
func TestActivatedLeavesItsLane(t *testing.T) {
	h := crowded(t)
	h.answer(h.offer(h.inHand()[0]), events.DecisionUnplaceable, plugins("NodeResourcesFit"))
	h.ask("s1", 0)
	h.wantInHand(1)
	if n := h.core.Pending()[waiting.PoolParked]; n < 10 {
		t.Fatalf("%d parked", n)
	}
	h.activate("p15")
	h.want("p15", waiting.PoolActive)
	h.ask("s1", 100)
	h.want("p15", waiting.PoolOffered)
}
