package decide_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/pkg/placement"
)

// large returns a scenario in which a pod fits only where many pods on other nodes are all gone, each of which has a
// disruption budget: more documents than fit in one transaction.
func large(t *testing.T) (st *scenario, p string, victims []string) {
	t.Helper()
	st = newScenario(t, 2, 0, 0)
	st.addNamespace("d")
	a := arenaIn(st.world)
	apps := make([]string, placement.MaxBlockersLimit)
	for i := range apps {
		apps[i] = fmt.Sprintf("v%d", i)
		st.addNodeIn("n-"+apps[i], "z", 2)
		victims = append(victims, st.running(apps[i], "n-"+apps[i], ofApp(apps[i]), ready))
		a.addBudget(apps[i], 0)
	}
	st.deliverAll()
	return st, st.pod("p", important(10), apartFrom(corev1.LabelTopologyZone, apps...)), victims
}

func (w *world) record(plan string) ledger.PlanRecord {
	w.t.Helper()
	kvs, _, err := w.store.List(w.t.Context(), ledger.KeyPlan(plan))
	if err != nil || len(kvs) != 1 {
		w.t.Fatalf("record of plan %s: %v, %d keys", plan, err, len(kvs))
	}
	r, err := codec.DecodePlan(kvs[0])
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// A plan that is too large for one transaction is made in several, and counts when it is whole.
func TestLargePlan(t *testing.T) {
	st, p, victims := large(t)
	st.runUntilQuiet()
	_, hold, ok := st.hold(p)
	if !ok || hold.State != ledger.Held || !ledger.IsRecorded(hold.Plan) {
		t.Fatalf("hold %+v, want one whose plan has a record; decisions %+v", hold, st.s.decisions)
	}
	if r := st.record(hold.Plan); r.State != ledger.PlanReady || r.Victims != len(victims) {
		t.Errorf("record %+v, want it Ready with %d victims", r, len(victims))
	}
	if got := len(st.claims()); got != len(victims) {
		t.Errorf("%d victims are claimed, want %d", got, len(victims))
	}
	for _, v := range victims {
		st.deletePod(v)
	}
	st.runUntilQuiet()
	if _, now, _ := st.hold(p); now.State != ledger.Committed || st.record(hold.Plan).State != ledger.PlanDone {
		t.Errorf("%+v, record %+v: want it promoted", now, st.record(hold.Plan))
	}
}

// A large plan is also given up in several transactions.
func TestLargePlanIsGivenUp(t *testing.T) {
	st, p, _ := large(t)
	st.runUntilQuiet()
	st.deletePod(p)
	st.runUntilQuiet()
	if _, _, held := st.hold(p); held || len(st.claims()) != 0 {
		t.Errorf("held: %v, and %d claims are left", held, len(st.claims()))
	}
}

// A large plan that was begun by a shard which has lost the partition since is given up by the next owner.
func TestLargePlanOfAnotherShardIsGivenUp(t *testing.T) {
	st, p, _ := large(t)
	for range 100 {
		if _, _, held := st.hold(p); held {
			break
		}
		st.deliverAll()
		if st.s.commit != nil {
			st.answer()
		}
	}
	_, hold, ok := st.hold(p)
	if !ok || st.record(hold.Plan).State != ledger.PlanForming {
		t.Fatalf("hold %+v, want a plan that is forming", hold)
	}
	st.takeOver(p, st.shards[1])
	st.s = st.shards[1]
	st.runUntilQuiet()
	if _, _, held := st.hold(p); held || len(st.claims()) != 0 {
		t.Errorf("%d claims are left of a plan that nobody completes", len(st.claims()))
	}
	if r := st.record(hold.Plan); r.State != ledger.PlanAborted {
		t.Errorf("record %+v, want it Aborted", r)
	}
}

// The same holds for a plan whose victims are on one node, with more budgets than fit in one transaction.
func TestLargePlanOnOneNodeIsGivenUp(t *testing.T) {
	st := newScenario(t, 1, 0, 0)
	st.addNamespace("d")
	a := arenaIn(st.world)
	const pods = ledger.MaxTxnOps
	st.addNodeIn("n", "z", pods)
	for i := range pods {
		app := fmt.Sprintf("v%d", i)
		st.running(app, "n", ofApp(app), ready)
		a.addBudget(app, 0)
	}
	st.deliverAll()
	p := st.pod("p", important(10), func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = *resource.NewMilliQuantity(100*pods, resource.DecimalSI)
	})
	st.runUntilQuiet()
	if _, hold, ok := st.hold(p); !ok || !ledger.IsRecorded(hold.Plan) || len(st.claims()) != pods {
		t.Fatalf("hold %+v and %d claims, want a plan with a record and %d", hold, len(st.claims()), pods)
	}
	st.deletePod(p)
	st.runUntilQuiet()
	if _, _, held := st.hold(p); held || len(st.claims()) != 0 {
		t.Errorf("held: %v, and %d claims are left", held, len(st.claims()))
	}
}
