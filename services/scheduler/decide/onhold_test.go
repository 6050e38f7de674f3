package decide_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/placement/names"
)

// heldSpread returns a scenario in which a pod runs in zone a, on n0, and a place in zone b, on n1, is held for first,
// or is about to be. A second pod with the rule arrives: if first counts, it fits in zone a.
func heldSpread(t *testing.T) (st *scenario, first, second string) {
	t.Helper()
	st = newScenario(t, 1, 0, 1)
	st.addNodeIn("n0", "a", 10)
	st.addNodeIn("n1", "b", 1)
	st.running("there", "n0", evenly, important(500))
	st.running("victim", "n1", important(1))
	st.deliverAll()
	first = st.pod("first", evenly, important(10))
	st.drive(func() bool { return st.s.commit != nil && st.s.commit.Kind == "T2" })
	second = st.pod("second", evenly)
	return st, first, second
}

// heldAt checks that a place is held for a pod.
func (st *scenario) heldAt(uid, node string) {
	st.t.Helper()
	if d, hold, _ := st.hold(uid); hold.State != ledger.Held || d.NodeName != node {
		st.t.Fatalf("%+v on %q, want a place held on %s", hold, d.NodeName, node)
	}
}

// evict terminates the victims of a pod's plan.
func (st *scenario) evict(uid string) {
	st.t.Helper()
	for _, victim := range st.mark(uid) {
		st.runUntilQuiet()
		st.deletePod(victim)
	}
	st.runUntilQuiet()
}

// A pod that is staged for a place which is only held for it may not get it. A pod whose rule counted it is decided
// again, and rejected with upstream's message.
func TestWhoCountsAPodThatIsNominated(t *testing.T) {
	st, first, second := heldSpread(t)
	st.drive(func() bool { return st.s.commit == nil && !st.s.more })
	st.heldAt(first, "n1")
	if at := st.reservedAt(second); len(at) > 0 {
		t.Errorf("reserved on %q next to one pod, with none in the other zone", at)
	}
	d := st.s.decisions[len(st.s.decisions)-1]
	const why = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match pod topology spread constraints."
	if d.Pod.UID != second || d.Kind != events.DecisionUnplaceable || d.Message != why {
		t.Errorf("%s %s: %q, want it unplaceable: %q", d.Pod.UID, d.Kind, d.Message, why)
	}
	if want := []string{names.NodeResourcesFit, names.PodTopologySpread}; !slices.Equal(d.Plugins, want) {
		t.Errorf("it waits for %v, want %v", d.Plugins, want)
	}
	remake(t, st.world, st.s)
}

// Once a pod whose place was held is bound, it counts for all rules.
func TestWhoWaitsForAPodThatIsNominated(t *testing.T) {
	st, first, second := heldSpread(t)
	st.drive(func() bool { return st.s.commit == nil && !st.s.more })
	st.heldAt(first, "n1")
	st.offerAgain(second)
	st.runUntilQuiet()
	if at := st.reservedAt(second); len(at) > 0 {
		t.Errorf("reserved on %q while the place is only held", at)
	}
	st.evict(first)
	st.bind(first, "n1")
	st.runUntilQuiet()
	st.offerAgain(second)
	st.runUntilQuiet()
	if at := st.reservedAt(second); !slices.Equal(at, []string{"n0"}) {
		t.Errorf("reserved on %q, want n0: there is a pod in the other zone", at)
	}
	remake(t, st.world, st.s)
}

// A held place is given up when its pod is deleted. A pod that waited for it is still rejected.
func TestWhoWaitsForAPodThatIsNominatedInVain(t *testing.T) {
	st, first, second := heldSpread(t)
	st.drive(func() bool { return st.s.commit == nil && !st.s.more })
	st.heldAt(first, "n1")
	st.deletePod(first)
	st.runUntilQuiet()
	st.offerAgain(second)
	st.runUntilQuiet()
	if at := st.reservedAt(second); len(at) > 0 {
		t.Errorf("reserved on %q next to one pod, with none in the other zone", at)
	}
}

// No preemption plan is made for a pod that fits only because of a place that is held for another pod.
func TestNoPlanRestsOnAPlaceThatIsHeld(t *testing.T) {
	st := newScenario(t, 1, 0, 1)
	st.addNodeIn("n0", "a", 2)
	st.addNodeIn("n1", "b", 1)
	st.running("there", "n0", evenly, important(500))
	st.running("victim", "n1", important(1))
	st.running("full", "n0", important(5))
	st.deliverAll()
	first := st.pod("first", evenly, important(10))
	st.runUntilQuiet()
	st.heldAt(first, "n1")
	second := st.pod("second", evenly, important(10))
	st.runUntilQuiet()
	if d, hold, held := st.hold(second); held {
		t.Errorf("%+v on %q, want no preemption plan", hold, d.NodeName)
	}
	st.evict(first)
	st.offerAgain(second)
	st.runUntilQuiet()
	st.heldAt(second, "n0")
}

// A pod counted when a place was found is gone when the place is free, and only a held pod makes up for it.
//
//  1. A pod runs in each zone, and a place is held for first in zone a.
//  2. That of zone b goes. A place is held for second there.
//  3. The victim of first goes. It must not be placed before second is.
func TestPromotionRestsOnNoHold(t *testing.T) {
	st := newScenario(t, 1, 0, 1)
	st.addNodeIn("n0", "a", 2)
	st.addNodeIn("n1", "b", 1)
	st.running("there", "n0", evenly, important(500))
	st.running("full", "n0", important(1))
	peer := st.running("mate", "n1", evenly, important(500))
	st.deliverAll()
	first := st.pod("first", evenly, important(10))
	st.runUntilQuiet()
	st.heldAt(first, "n0")
	st.mark(first)
	st.deletePod(peer)
	st.running("victim", "n1", important(1))
	st.runUntilQuiet()
	second := st.pod("second", evenly, important(10))
	st.runUntilQuiet()
	st.heldAt(second, "n1")
	st.deletePod("pod-full")
	st.runUntilQuiet()
	st.heldAt(first, "n0")
	st.evict(second)
	st.wait(0)
	st.runUntilQuiet()
	for uid, node := range map[string]string{first: "n0", second: "n1"} {
		if d, e, _ := st.hold(uid); e.State != ledger.Committed || d.NodeName != node {
			t.Errorf("%s: %+v on %q, want it placed on %s", uid, e, d.NodeName, node)
		}
	}
}

// Places held for pods that no rule of the pod counts make no difference.
func TestHoldsThatNoSpreadCounts(t *testing.T) {
	st := newScenario(t, 1, 0, 1)
	st.addNodeIn("n0", "a", 10)
	st.addNodeIn("n1", "b", 1)
	st.running("victim", "n1", important(1))
	st.deliverAll()
	pinned := func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "n1"} }
	first := st.pod("first", pinned, important(10))
	st.runUntilQuiet()
	st.heldAt(first, "n1")
	second := st.pod("second", evenly)
	st.runUntilQuiet()
	if at := st.reservedAt(second); !slices.Equal(at, []string{"n0"}) {
		t.Errorf("reserved on %q, want n0", at)
	}
}
