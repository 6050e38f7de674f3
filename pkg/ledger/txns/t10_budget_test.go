package txns

import (
	"errors"
	"testing"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
)

// seen is a component's view: how far it has read pods and budgets, and since when it sees a pod leave.
type seen struct {
	oneFact
	leaving map[string]uint64
	budgets uint64
}

func (s seen) PodProgress() uint64    { return s.progress }
func (s seen) BudgetProgress() uint64 { return s.budgets }
func (s seen) VictimFate(uid string, _ uint64) (Fate, uint64) {
	if rv, ok := s.leaving[uid]; ok {
		return Leaving, rv
	}
	return Staying, 0
}

// TestCountOfOnesOwn is the history that the model of budgets finds without the count (docs/models.md): three pods,
// two of which must stay.
func TestCountOfOnesOwn(t *testing.T) {
	room := BudgetRoom{
		Doc: ledger.BudgetDoc{UID: "b", Namespace: "ns", Name: "pdb"}, Allowed: 1,
		Count: &BudgetCount{Healthy: []string{"p0", "p1", "p2"}, Desired: 2},
	}
	claim := func(r BudgetRoom, facts ClaimFacts, uid string) (ledger.BudgetDoc, error) {
		return ClaimBudget(r, facts, ledger.BudgetClaim{PodUID: uid, PodRV: 10, Plan: "x"})
	}
	start := seen{oneFact: oneFact{progress: 20}, budgets: 20}
	var err error
	if room.Doc, err = claim(room, start, "p0"); err != nil {
		t.Fatal(err)
	}
	// The eviction of p0 takes from the budget, at 21. The disruption controller stops waiting for p0 to leave: the
	// budget allows 1 again, at 22. The eviction deletes p0, at 23. The component reads both.
	late := seen{oneFact: oneFact{progress: 23}, leaving: map[string]uint64{"p0": 23}, budgets: 23}
	room.Allowed, room.Count.Healthy = 1, []string{"p1", "p2"}
	var full *BudgetError
	if _, err := claim(room, late, "p1"); !errors.As(err, &full) {
		t.Errorf("p1 was claimed while two pods run that have to stay: %v", err)
	}
	byStatus := room
	byStatus.Count = nil
	if _, err := claim(byStatus, late, "p1"); err != nil {
		t.Errorf("by its status alone: %v, want the model's counterexample", err)
	}

	// The claim is settled. A member that has not read that p0 left would count p0.
	settled, changed := SettleBudget(room.Doc, late)
	if !changed || len(settled.Claims) != 0 || settled.HW[ledger.KindPod] != 23 || settled.HW[ledger.KindBudget] != 23 {
		t.Fatalf("settled: %+v, changed %v", settled, changed)
	}
	behind := seen{oneFact: oneFact{progress: 22}, budgets: 23}
	room.Doc, room.Count.Healthy = settled, []string{"p0", "p1", "p2"}
	var refused *RefusedError
	if _, err := claim(room, behind, "p1"); !errors.As(err, &refused) {
		t.Errorf("claimed on facts about pods from before the settling: %v", err)
	}

	// Another pod has started in p0's place.
	room.Count.Healthy = []string{"p1", "p2", "p3"}
	if _, err := claim(room, late, "p1"); err != nil {
		t.Error(err)
	}
	// A claimed pod must not be counted as healthy.
	room.Doc.Claims = []ledger.BudgetClaim{{PodUID: "p3", PodRV: 20, Plan: "y"}}
	room.Allowed = 5
	if free, known := room.Free(late); free != 0 || !known {
		t.Errorf("%d free (%v) beside a claim, want 0", free, known)
	}
}

// A claim that is made regardless of room is marked as such, in the stored form too; it counts all the same.
func TestClaimRegardlessOfRoom(t *testing.T) {
	room := BudgetRoom{Doc: ledger.BudgetDoc{UID: "b", Namespace: "ns", Name: "pdb"}, Exceed: true}
	facts := seen{oneFact: oneFact{progress: 20}, budgets: 20}
	b, err := ClaimBudget(room, facts, ledger.BudgetClaim{PodUID: "p", PodRV: 10, Plan: "x"})
	if err != nil {
		t.Fatal(err)
	}
	value, err := codec.EncodeBudget(b)
	if err != nil {
		t.Fatal(err)
	}
	read, err := codec.DecodeBudget(ledger.KV{Key: b.DocKey(), Value: value, ModRevision: 1})
	if err != nil || len(read.Claims) != 1 || !read.Claims[0].Regardless {
		t.Fatalf("read %+v (%v), want a claim that is regardless of room", read, err)
	}
	var full *BudgetError
	room = BudgetRoom{Doc: read, Allowed: 1}
	if _, err := ClaimBudget(room, facts, ledger.BudgetClaim{PodUID: "q", PodRV: 10, Plan: "y"}); !errors.As(err, &full) {
		t.Errorf("%v, want no room beside it", err)
	}
	room = BudgetRoom{Doc: ledger.BudgetDoc{UID: "c", Namespace: "ns", Name: "other"}, Allowed: 1}
	c, err := ClaimBudget(room, facts, ledger.BudgetClaim{PodUID: "q", PodRV: 10, Plan: "y"})
	if err != nil || c.Claims[0].Regardless {
		t.Errorf("%+v (%v), want an ordinary claim", c, err)
	}
}

// A victim whose eviction can only be requested is claimed from a budget that allows nothing. Its claim is marked,
// counts for later claims, and gives no room to ordinary victims of the same plan.
func TestClaimOfARequest(t *testing.T) {
	facts := seen{oneFact: oneFact{progress: 20}, budgets: 20}
	pdb := ledger.BudgetDoc{UID: "b", Namespace: "ns", Name: "pdb"}
	evict := func(allowed int32, request bool) ([]ledger.BudgetDoc, error) {
		c, err := ClaimEviction(SoleEviction{
			Token: 1, Sender: "binder", Doc: ledger.NodeDoc{NodeUID: "n", NodeName: "n"}, Facts: facts,
			Budgets: []BudgetRoom{{Doc: pdb, Allowed: allowed}},
			Victim: NodeEntry{NodeUID: "n", Request: request, Entry: ledger.Entry{
				PodUID: "p", Namespace: "ns", Name: "p", PodRV: 10, Budgets: []string{"b"},
			}},
		})
		return c.Budgets, err
	}
	var full *BudgetError
	if _, err := evict(0, false); !errors.As(err, &full) {
		t.Errorf("an ordinary pod: %v, want no room", err)
	}
	claimed, err := evict(0, true)
	if err != nil || len(claimed) != 1 || len(claimed[0].Claims) != 1 || !claimed[0].Claims[0].Regardless {
		t.Fatalf("%+v (%v), want one claim regardless of room", claimed, err)
	}
	beside := BudgetRoom{Doc: claimed[0], Allowed: 1}
	other := ledger.BudgetClaim{PodUID: "q", PodRV: 10, Plan: "y"}
	if _, err := ClaimBudget(beside, facts, other); !errors.As(err, &full) {
		t.Errorf("%v, want no room beside it", err)
	}
	both := []ledger.BudgetClaim{
		{PodUID: "p", PodRV: 10, Plan: "x", Regardless: true}, {PodUID: "q", PodRV: 10, Plan: "x"},
	}
	if _, err := ClaimBudget(BudgetRoom{Doc: pdb}, facts, both...); !errors.As(err, &full) || full.Wanted != 1 {
		t.Errorf("%v, want no room for the ordinary one", err)
	}
	b, err := ClaimBudget(BudgetRoom{Doc: pdb, Allowed: 1}, facts, both...)
	if err != nil || len(b.Claims) != 2 || !b.Claims[0].Regardless || b.Claims[1].Regardless {
		t.Errorf("%+v (%v), want both claims, the first marked", b, err)
	}
}
