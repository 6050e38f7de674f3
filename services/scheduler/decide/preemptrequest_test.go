package decide_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/state"
)

// byRequest makes a pod one whose eviction can only be requested.
func byRequest(p *corev1.Pod) {
	p.Annotations = map[string]string{state.AnnotationRequestEvictOnly: ""}
}

// A pod whose eviction can only be requested is a victim although its budget allows nothing, and its claim is marked.
func TestRequestBehindABudget(t *testing.T) {
	st := newScenario(t, 1, 1, 1)
	a := arenaIn(st.world)
	v := st.running("v", "n0", ofApp("app0"), ready, byRequest)
	a.addBudget("app0", 1)
	st.deliverAll()
	p := st.pod("p", important(10))
	st.runUntilQuiet()
	if _, hold, ok := st.hold(p); !ok || hold.State != ledger.Held {
		t.Fatalf("hold %+v, want a place held: %+v", hold, st.s.decisions)
	}
	claim, claimed := st.claims()[v]
	if !claimed || len(claim.Budgets) != 1 {
		t.Fatalf("claim %+v, want one with its budget", claim)
	}
	b := st.ledgerView().Budgets().Of(claim.Budgets[0])
	if i := slices.IndexFunc(b.Claims, func(c ledger.BudgetClaim) bool { return c.PodUID == v }); i < 0 ||
		!b.Claims[i].Regardless {
		t.Errorf("claims on the budget: %+v, want one regardless of its room", b.Claims)
	}
}

// The place is held for longer than binders wait for a controller to take the request on, and, once one has, until the
// victim has left.
func TestVictimThatMigrates(t *testing.T) {
	st, p, v := held(t, 1, byRequest)
	st.mark(p)
	st.runUntilQuiet()
	isHeld := func(when string) {
		t.Helper()
		st.runUntilQuiet()
		if _, hold, _ := st.hold(p); hold.State != ledger.Held {
			t.Fatalf("%s: %+v, want the place held", when, hold)
		}
	}
	st.wait(10*time.Minute + 30*time.Second)
	isHeld("while binders wait")
	st.pods[v].Annotations[state.AnnotationEvictionInProgress] = ""
	st.publish(st.pods[v])
	isHeld("when a controller has taken it on")
	st.wait(5 * time.Hour)
	isHeld("during a long migration")
	st.deletePod(v)
	st.runUntilQuiet()
	if _, hold, _ := st.hold(p); hold.State != ledger.Committed {
		t.Errorf("%+v, want the pod to have its place", hold)
	}
}

// A request that no binder reports on is given up like the eviction of a pod that stays, only later.
func TestRequestThatNobodyReportsOn(t *testing.T) {
	st, p, _ := held(t, 1, byRequest)
	st.mark(p)
	st.runUntilQuiet()
	st.wait(15 * time.Minute)
	st.runUntilQuiet()
	if _, _, reserved := st.hold(p); reserved {
		t.Error("the place is held still")
	}
}
