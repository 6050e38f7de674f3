package decide

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/work"
	"github.com/berth-scheduler/berth/services/queue/decide/waiting"
)

// inHand lists the offered pods that are not answered yet, in order of arrival.
func (h *harness) inHand() []*waiting.Entry { return waiting.InOrder(h.core.backlog.pools.Offered) }

func (h *harness) offer(e *waiting.Entry) work.Offer {
	h.t.Helper()
	o, ok := h.offers[e.Attempt.Token]
	if !ok {
		h.t.Fatalf("pod %s is not offered", e.Pod.UID)
	}
	return o
}

// crowded returns a harness with twenty equal pods that were rejected once, and woken by a node that all of them
// could use.
func crowded(t *testing.T) *harness {
	h := newHarness(t)
	h.lead()
	for i := range 20 {
		h.add(fmt.Sprintf("p%02d", i), 0)
	}
	h.ask("s1", 100)
	for _, e := range h.inHand() {
		h.answer(h.offer(e), events.DecisionUnplaceable, plugins("NodeResourcesFit"))
	}
	h.sleep(20 * time.Second)
	h.ask("s1", 100)
	if n := h.core.Pending()[waiting.PoolParked]; n != 20 {
		t.Fatalf("%d parked", n)
	}
	h.node("n", func(*corev1.Node) {})
	return h
}

func (h *harness) wantInHand(want int) {
	h.t.Helper()
	if got := len(h.inHand()); got != want {
		h.t.Fatalf("%d pods are out, want %d\n%s", got, want, h.core.Describe())
	}
}

// TestPodsRejectedAlikeGoFewAtATime checks that more of them are tried with each that finds a place, and that the
// first that finds none speaks for all.
func TestPodsRejectedAlikeGoFewAtATime(t *testing.T) {
	h := crowded(t)
	h.wantInHand(waiting.LaneWidth)
	placed := func(d *events.Decision) { d.LedgerRevision = h.revision + 1 }
	h.answer(h.offer(h.inHand()[0]), events.DecisionPlaced, placed)
	h.wantInHand(2 * waiting.LaneWidth)
	h.answer(h.offer(h.inHand()[0]), events.DecisionPlaced, placed)
	h.wantInHand(4 * waiting.LaneWidth)
	if got := h.inHand()[0].Pod.UID; got != "p02" {
		t.Fatalf("%s is out, want p02 first", got)
	}
	h.answer(h.offer(h.inHand()[0]), events.DecisionUnplaceable, plugins("NodeResourcesFit"))
	h.wantInHand(4*waiting.LaneWidth - 1)
	h.want("p10", waiting.PoolParked)
	h.want("p19", waiting.PoolParked)
	// What happens now concerns them too, after the backoff that the verdict costs them.
	h.node("m", func(*corev1.Node) {})
	h.want("p19", waiting.PoolBackoff)
	h.sleep(10 * time.Second)
	h.ask("s1", 100)
	h.want("p19", waiting.PoolActive)
	h.wantInHand(4*waiting.LaneWidth - 1)
}

// TestWhomAVerdictDoesNotCover covers pods that have changed, whose event came later, or that have waited for too
// long.
func TestWhomAVerdictDoesNotCover(t *testing.T) {
	h := crowded(t)
	out := h.inHand()
	h.put("p05", func(p *corev1.Pod) { p.Labels = map[string]string{"changed": "yes"} })
	h.answer(h.offer(out[0]), events.DecisionUnplaceable, func(d *events.Decision) {
		d.Plugins, d.FactSequence = []string{"NodeResourcesFit"}, h.sequence-1
	})
	h.want("p05", waiting.PoolOffered)
	h.want("p06", waiting.PoolParked)
	h = crowded(t)
	out = h.inHand()
	seen := h.sequence
	h.remove(h.boundPod())
	h.answer(h.offer(out[0]), events.DecisionUnplaceable, func(d *events.Decision) {
		d.Plugins, d.FactSequence = []string{"NodeResourcesFit"}, seen
	})
	h.want("p06", waiting.PoolActive)
	h.wantInHand(waiting.LaneWidth)
	// New pods wait neither for the lane nor for a verdict about others.
	h.add("new", 0)
	h.want("new", waiting.PoolOffered)
}

// TestAVerdictCoversThosePreemptingAlike checks that a pod that may not preempt (preemptionPolicy: Never) can be
// rejected where one that is otherwise alike would find a place.
func TestAVerdictCoversThosePreemptingAlike(t *testing.T) {
	h := newHarness(t)
	h.lead()
	may := map[string]*corev1.PreemptionPolicy{
		"never-1": new(corev1.PreemptNever), "never-2": new(corev1.PreemptNever), "never-3": new(corev1.PreemptNever),
		"may-1": new(corev1.PreemptLowerPriority), "may-2": nil, "may-3": nil, "may-4": nil,
	}
	for _, name := range slices.Sorted(maps.Keys(may)) {
		h.put(name, func(p *corev1.Pod) { p.Spec.PreemptionPolicy = may[name] })
	}
	h.ask("s1", 100)
	for _, e := range h.inHand() {
		h.answer(h.offer(e), events.DecisionUnplaceable, plugins("NodeResourcesFit"))
	}
	h.sleep(20 * time.Second)
	h.ask("s1", 100)
	h.node("n", func(*corev1.Node) {})
	h.want("may-3", waiting.PoolActive)
	h.answer(h.offerOf("never-1"), events.DecisionUnplaceable, plugins("NodeResourcesFit"))
	h.want("never-3", waiting.PoolParked)
	h.want("may-3", waiting.PoolActive)
	h.answer(h.offerOf("may-1"), events.DecisionUnplaceable, plugins("NodeResourcesFit"))
	h.want("may-3", waiting.PoolParked) // without a policy, a pod may preempt
}

// boundPod creates a pod that is bound.
func (h *harness) boundPod() string {
	h.t.Helper()
	h.add("bound", 0)
	h.bind("bound")
	return "bound"
}

// TestALaneOutlivesLostOffers checks that a permit is returned whatever happens to its pod.
func TestALaneOutlivesLostOffers(t *testing.T) {
	h := crowded(t)
	out := h.inHand()
	h.remove(out[0].Pod.UID)
	h.bind(out[1].Pod.UID)
	h.wantInHand(waiting.LaneWidth)
	out = h.inHand()
	h.step(WorkRequested{Request: work.Request{Shard: "s1", Window: 100, Return: []string{out[0].Attempt.Token}}})
	h.wantInHand(waiting.LaneWidth)
	h.hold(Hold{PodUID: h.inHand()[0].Pod.UID, Live: true})
	h.wantInHand(waiting.LaneWidth)
	h.sleep(lease)
	h.ask("s1", 100)
	h.wantInHand(waiting.LaneWidth)
	h.answer(h.offer(h.inHand()[0]), events.DecisionFailed, nil)
	h.wantInHand(waiting.LaneWidth)
}

// TestEarlyPodsKeepToTheirLane checks that pods that would leave their backoff early do not overtake their lane
// either.
func TestEarlyPodsKeepToTheirLane(t *testing.T) {
	h := newHarness(t)
	h.lead()
	for i := range 20 {
		h.add(fmt.Sprintf("p%02d", i), 0)
	}
	h.ask("s1", 100)
	for _, e := range h.inHand() {
		o := h.offer(e)
		h.answer(o, events.DecisionUnplaceable, plugins("NodeResourcesFit"))
		h.applyDecision(events.Decision{
			Kind: events.DecisionCondition, Pod: o.Pod, Token: o.Token, PodResourceVersion: e.Pod.ResourceVersion,
		})
	}
	h.node("n", func(*corev1.Node) {})
	h.wantInHand(waiting.LaneWidth)
	if n := h.core.Pending()[waiting.PoolBackoff]; n != 20-waiting.LaneWidth {
		t.Fatalf("%d in backoff", n)
	}
	h.answer(h.offer(h.inHand()[0]), events.DecisionPlaced, func(d *events.Decision) { d.LedgerRevision = h.revision + 1 })
	h.wantInHand(min(2*waiting.LaneWidth, maxEarlyLeases))
}
