package decide_test

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
)

// askedBackElsewhere returns a scenario in which a place on n0 is held for p, which excludes low from its zone. low is
// only reserved, on n1 of that zone, and its reservation is asked back.
func askedBackElsewhere(t *testing.T) (st *scenario, p, low string) {
	t.Helper()
	st = &scenario{world: newWorld(t, 1, 2)}
	st.s = st.shards[0]
	st.addNodeIn("n0", "z", 2)
	st.addNodeIn("n1", "z", 2)
	st.deliverAll()
	low = st.pod("low", ofApp("blocker"), onNode("n1"))
	st.runUntilQuiet()
	p = st.pod("p", important(10), apartFrom(zoneKey, "blocker"), onNode("n0"))
	st.runUntilQuiet()
	_, hold, ok := st.hold(p)
	_, taken, reserved := st.hold(low)
	if !ok || hold.State != ledger.Held || !reserved || !taken.Wanted {
		t.Fatalf("hold %+v, reservation %+v: want a place held and the reservation asked back", hold, taken)
	}
	return st, p, low
}

// releaseReservation takes a reservation back, as its binder does.
func (st *scenario) releaseReservation(uid string) {
	st.t.Helper()
	doc, e, ok := st.hold(uid)
	if !ok {
		st.t.Fatalf("%s has no reservation", uid)
	}
	must := func(d ledger.NodeDoc, err error) ledger.NodeDoc {
		if err != nil {
			st.t.Fatal(err)
		}
		return d
	}
	st.touch(doc.NodeName, func(d ledger.NodeDoc) ledger.NodeDoc {
		return must(txns.MarkFencing(d, uid, e.Token, ledger.FenceByWant))
	})
	st.publish(st.pods[uid])
	rv, _ := strconv.ParseUint(st.pods[uid].ResourceVersion, 10, 64)
	st.touch(doc.NodeName, func(d ledger.NodeDoc) ledger.NodeDoc {
		return must(txns.ReleaseFenced(d, uid, e.Token, rv))
	})
}

// A place is held until a reservation on another node that excludes its pod has been given back.
func TestPlaceWaitsForReservationsElsewhere(t *testing.T) {
	st, p, low := askedBackElsewhere(t)
	st.wait(time.Second)
	st.runUntilQuiet()
	if _, hold, _ := st.hold(p); hold.State != ledger.Held {
		t.Fatalf("%+v while the reservation stands", hold)
	}
	st.releaseReservation(low)
	st.runUntilQuiet()
	if _, hold, _ := st.hold(p); hold.State != ledger.Committed {
		t.Errorf("%+v after the reservation has gone, decisions %v", hold, st.kinds())
	}
}

// The next owner of the partition waits as well: the requests of a plan to give reservations back are only in the
// ledger.
func TestSuccessorWaitsForReservationsElsewhere(t *testing.T) {
	st, p, low := askedBackElsewhere(t)
	st.takeOver(p, st.shards[1])
	st.s = st.shards[1]
	st.runUntilQuiet()
	if _, hold, _ := st.hold(p); hold.State != ledger.Held || st.s.core.HeldPlaces() != 1 {
		t.Fatalf("%+v, and the heir looks after %d holds", hold, st.s.core.HeldPlaces())
	}
	st.releaseReservation(low)
	st.runUntilQuiet()
	if _, hold, _ := st.hold(p); hold.State != ledger.Committed {
		t.Errorf("%+v after the reservation has gone", hold)
	}
}

// The pod whose reservation is asked back is bound first: the next plan evicts it.
func TestReservationElsewhereIsBoundAfterAll(t *testing.T) {
	st, p, low := askedBackElsewhere(t)
	st.bind(low, "n1")
	st.deliverAll()
	st.wait(time.Second)
	st.runUntilQuiet()
	if _, _, reserved := st.hold(p); reserved {
		t.Fatal("the place is held still, although the pod in the way is bound")
	}
	st.offerAgain(p)
	st.runUntilQuiet()
	_, hold, _ := st.hold(p)
	if claim, ok := st.claims()[low]; hold.State != ledger.Held || !ok || claim.Plan != hold.Plan {
		t.Errorf("hold %+v, claims %+v: want the bound pod to go", hold, st.claims())
	}
}

// If a binder does not give the reservation back, it keeps the place from other pods only for some minutes.
func TestReservationElsewhereIsNotAwaitedForEver(t *testing.T) {
	st, p, _ := askedBackElsewhere(t)
	st.wait(4 * time.Minute)
	st.runUntilQuiet()
	if _, _, reserved := st.hold(p); reserved {
		t.Error("the place is held still")
	}
	if !slices.Contains(st.kinds(), events.DecisionWithdrawn) {
		t.Errorf("decisions %v: want the place withdrawn", st.kinds())
	}
}
