package decide

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
)

// inHand lists the pods that are out on offers and not answered yet, in order of arrival.
func (h *harness) inHand() []*entry { return inOrder(h.core.bags.offered) }

func (h *harness) offer(e *entry) events.Offer {
	h.t.Helper()
	o, ok := h.offers[e.attempt.token]
	if !ok {
		h.t.Fatalf("pod %s is not offered", e.pod.UID)
	}
	return o
}

// crowded has twenty equal pods that were rejected once, and woken by a node that all of
// them could use.
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
	if n := h.core.Pending()[PoolParked]; n != 20 {
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

// TestPodsRejectedAlikeGoFewAtATime: and more of them with each that finds a place.
func TestPodsRejectedAlikeGoFewAtATime(t *testing.T) {
	h := crowded(t)
	h.wantInHand(laneWidth)
	h.answer(h.offer(h.inHand()[0]), events.DecisionUnplaceable, plugins("NodeResourcesFit"))
	h.wantInHand(laneWidth)
	if got := h.inHand()[0].pod.UID; got != "p01" {
		t.Fatalf("%s is out, want p01 and then p02", got)
	}
	placed := func(d *events.Decision) { d.LedgerRevision = h.revision + 1 }
	h.answer(h.offer(h.inHand()[0]), events.DecisionPlaced, placed)
	h.wantInHand(2 * laneWidth)
	h.answer(h.offer(h.inHand()[0]), events.DecisionPlaced, placed)
	h.wantInHand(4 * laneWidth)
	h.answer(h.offer(h.inHand()[0]), events.DecisionUnplaceable, plugins("NodeResourcesFit"))
	h.wantInHand(4*laneWidth - 1)
	// Others do not wait for them, and neither do those that fail for no fault of the room.
	h.add("new", 0)
	h.want("new", PoolOffered)
	h.answer(h.offerOf("new"), events.DecisionUnplaceable, plugins("NodeName"))
	h.node("m", func(*corev1.Node) {})
	h.sleep(10 * time.Second)
	h.ask("s1", 100)
	h.want("new", PoolOffered)
}

// TestALaneOutlivesLostOffers: a permit comes back whatever becomes of its pod.
func TestALaneOutlivesLostOffers(t *testing.T) {
	h := crowded(t)
	out := h.inHand()
	h.remove(out[0].pod.UID)
	h.bind(out[1].pod.UID)
	h.wantInHand(laneWidth)
	out = h.inHand()
	h.step(WorkAsked{Request: events.WorkRequest{Shard: "s1", Window: 100, Return: []string{out[0].attempt.token}}})
	h.wantInHand(laneWidth)
	h.hold(Hold{PodUID: h.inHand()[0].pod.UID, Live: true})
	h.wantInHand(laneWidth)
	h.sleep(lease)
	h.ask("s1", 100)
	h.wantInHand(laneWidth)
	h.answer(h.offer(h.inHand()[0]), events.DecisionFailed, nil)
	h.wantInHand(laneWidth)
}

// TestEarlyPodsKeepToTheirLane: what would leave its backoff early does not overtake the
// lane either.
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
		h.tell(events.Decision{
			Kind: events.DecisionCondition, Pod: o.Pod, Token: o.Token, PodResourceVersion: e.pod.ResourceVersion,
		})
	}
	h.node("n", func(*corev1.Node) {})
	h.wantInHand(laneWidth)
	if n := h.core.Pending()[PoolBackoff]; n != 20-laneWidth {
		t.Fatalf("%d in backoff", n)
	}
	h.answer(h.offer(h.inHand()[0]), events.DecisionPlaced, func(d *events.Decision) { d.LedgerRevision = h.revision + 1 })
	h.wantInHand(min(2*laneWidth, earlyAtOnce))
}
