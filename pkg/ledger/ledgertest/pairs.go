package ledgertest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
)

// pairs are transactions that are made on one view and must not both commit.
var pairs = map[string]func(t *testing.T, h Harness, s *shard, n txns.Nomination) (a, b txns.Change){
	"T3 and T4": func(t *testing.T, h Harness, s *shard, n txns.Nomination) (a, b txns.Change) {
		a, err := txns.Promote(promotion(t, h, n, running(200)))
		built(t, a, err)
		b, err = txns.Displace(s.displacement(t, h, n, 101))
		return a, built(t, b, err)
	},
	"T3 and T8": func(t *testing.T, h Harness, _ *shard, n txns.Nomination) (a, b txns.Change) {
		a, err := txns.Promote(promotion(t, h, n, running(200)))
		built(t, a, err)
		b, err = txns.AbortPlan(abortChange(t, h, n.Plan()))
		return a, built(t, b, err)
	},
	"T4 and T4": func(t *testing.T, h Harness, s *shard, n txns.Nomination) (a, b txns.Change) {
		a, err := txns.Displace(s.displacement(t, h, n, 101))
		built(t, a, err)
		b, err = txns.Displace(s.displacement(t, h, n, 102))
		return a, built(t, b, err)
	},
	"T4 and T8": func(t *testing.T, h Harness, s *shard, n txns.Nomination) (a, b txns.Change) {
		a, err := txns.Displace(s.displacement(t, h, n, 101))
		built(t, a, err)
		b, err = txns.AbortPlan(abortChange(t, h, n.Plan()))
		return a, built(t, b, err)
	},
	"T8 and the mark": func(t *testing.T, h Harness, _ *shard, n txns.Nomination) (a, b txns.Change) {
		a, err := txns.AbortPlan(abortChange(t, h, n.Plan()))
		built(t, a, err)
		b, err = mark(t, h, n.Plan(), "w")
		return a, built(t, b, err)
	},
	"T8 and T12 on one budget": func(t *testing.T, h Harness, s *shard, n txns.Nomination) (a, b txns.Change) {
		a, err := txns.AbortPlan(abortChange(t, h, n.Plan()))
		built(t, a, err)
		m := s.relocation(running(100, "m"), node("src"), node("dst"))
		m.Budgets = []txns.BudgetRoom{budgetRoom(ledgerOf(t, h).Budgets().Of(budgetUID), 2)}
		b, err = txns.Relocate(m)
		return a, built(t, b, err)
	},
	"T10 and T2 on one budget": func(t *testing.T, h Harness, s *shard, _ txns.Nomination) (a, b txns.Change) {
		f := running(200, "v", "x").leave("w", 150)
		settled, _ := txns.SettleBudget(ledgerOf(t, h).Budgets().Of(budgetUID), f)
		two := s.nomination(f, []ledger.NodeDoc{doc(t, h.Store, "a")}, victim("a", "x", budgetUID))
		two.Budgets = []txns.BudgetRoom{budgetRoom(ledgerOf(t, h).Budgets().Of(budgetUID), 1)}
		b, err := txns.Nominate(two)
		return txns.Change{Budgets: []ledger.BudgetDoc{settled}}, built(t, b, err)
	},
	"T12 and T2 on one budget": func(t *testing.T, h Harness, s *shard, _ txns.Nomination) (a, b txns.Change) {
		m := s.relocation(running(100, "m"), node("src"), node("dst"))
		m.Budgets = []txns.BudgetRoom{budgetRoom(ledgerOf(t, h).Budgets().Of(budgetUID), 2)}
		a, err := txns.Relocate(m)
		built(t, a, err)
		two := s.nomination(running(100, "x"), []ledger.NodeDoc{node("d")}, victim("d", "x", budgetUID))
		two.Hold.NodeUID, two.Budgets = "d", m.Budgets
		b, err = txns.Nominate(two)
		return a, built(t, b, err)
	},
}

// either commits each pair in both orders: the second transaction loses, and nothing of it is applied. Each run
// nominates its own plan and victims.
func either(t *testing.T, h Harness) {
	s := newShard(t, h, "s")
	for name, pair := range pairs {
		for order := range 2 {
			n := freshPlan(t, h, s)
			first, second := pair(t, h, s, n)
			if order == 1 {
				first, second = second, first
			}
			commitConflicting(t, h, first, second)
			if t.Failed() {
				t.Fatalf("%s, order %d", name, order)
			}
		}
	}
}

// freshPlan empties the ledger of nodes and budgets, and nominates.
func freshPlan(t *testing.T, h Harness, s *shard) txns.Nomination {
	t.Helper()
	var all ledger.Txn
	for _, prefix := range []string{ledger.PrefixNode, ledger.PrefixIncarnation, ledger.PrefixBudget} {
		kvs, _ := list(t, h.Store, prefix)
		for _, kv := range kvs {
			all.Deletes = append(all.Deletes, kv.Key)
		}
	}
	mustCommit(t, h.Store, all)
	n := s.nomination(running(100, "v", "w"), []ledger.NodeDoc{node("a"), node("b")},
		victim("a", "v"), victim("b", "w", budgetUID))
	n.Budgets = []txns.BudgetRoom{budgetRoom(ledger.BudgetDoc{}, 1)}
	c, err := txns.Nominate(n)
	commitChange(t, h, built(t, c, err))
	return n
}

// abaClaims: every kind of document returns to an earlier value; a transaction that read it before loses.
func abaClaims(t *testing.T, h Harness) {
	s, n := nominated(t, h)
	old := ledgerOf(t, h)
	oldB := old.Budgets().Of(budgetUID)
	eight, err := txns.AbortPlan(abortChange(t, h, n.Plan()))
	commitChange(t, h, built(t, eight, err))
	f := n.Facts.(api)
	n.Docs = []ledger.NodeDoc{doc(t, h.Store, "a"), doc(t, h.Store, "b"), doc(t, h.Store, "c")}
	n.Budgets = []txns.BudgetRoom{budgetRoom(ledgerOf(t, h).Budgets().Of(budgetUID), 1)}
	c, err := txns.Nominate(n)
	commitChange(t, h, built(t, c, err))

	now := ledgerOf(t, h)
	same := now.Budgets().Of(budgetUID)
	same.Revision = oldB.Revision
	if diff := cmp.Diff(oldB, same); diff != "" {
		t.Fatalf("the budget did not come back to what it was:\n%s", diff)
	}
	settled, _ := txns.SettleBudget(oldB, f.leave("w", 90))
	wantConflict(t, h, txns.Change{Budgets: []ledger.BudgetDoc{settled}})
	x, err := txns.Displace(txns.Displacement{
		Authority: s.authority(s.entry("z")), Target: mustDoc(t, old, "a"), PodUID: n.Hold.Entry.PodUID,
		Token: n.Hold.Entry.Token, Entry: func() ledger.Entry { e := s.entry("z"); e.Priority = 200; return e }(), Facts: f,
	})
	wantConflict(t, h, built(t, x, err))
	b := s.batch(t, mustDoc(t, old, "b"))
	if commit(t, h.Store, txnOf(t, b)).Succeeded {
		t.Error("a placement on a document from before committed")
	}
}

func mustDoc(t *testing.T, v *replica.View, uid string) ledger.NodeDoc {
	t.Helper()
	d, ok := v.Doc(uid)
	if !ok {
		t.Fatalf("no document of node %s", uid)
	}
	return d
}

// sweepAll sweeps every document once.
func sweepAll(t *testing.T, h Harness, f api, overdue bool) (evict []ledger.Entry) {
	t.Helper()
	for _, uid := range []string{"a", "b", "c"} {
		v := ledgerOf(t, h)
		swept, err := txns.SweepDoc(txns.Sweeping{Doc: mustDoc(t, v, uid), View: v, Facts: f, Overdue: overdue})
		if err != nil {
			t.Fatal(err)
		}
		evict = append(evict, swept.Evict...)
		if !swept.Empty() {
			commitChange(t, h, swept.Change)
		}
	}
	return evict
}

func sweep(t *testing.T, h Harness) {
	_, n := nominated(t, h)
	f := n.Facts.(api)
	before, _ := list(t, h.Store, "")
	if evict := sweepAll(t, h, f, false); len(evict) != 0 {
		t.Errorf("victims that nobody marked are to be evicted: %+v", evict)
	}
	if after, _ := list(t, h.Store, ""); cmp.Diff(before, after) != "" {
		t.Error("a plan at work was swept")
	}
	c, err := mark(t, h, n.Plan(), "v", "w")
	commitChange(t, h, built(t, c, err))
	if evict := sweepAll(t, h, f.leave("w", 120), false); len(evict) != 1 || evict[0].PodUID != "v" {
		t.Errorf("due are %+v, want v", evict)
	}
	stale := replica.NewView()
	_, err = txns.SweepDoc(txns.Sweeping{Doc: doc(t, h.Store, "a"), View: stale, Facts: f})
	refused(t, "a picture that is older than the document", err)

	if evict := sweepAll(t, h, f, true); len(evict) != 0 {
		t.Errorf("an overdue plan still evicts %+v", evict)
	}
	v := ledgerOf(t, h)
	if _, _, ok := v.Entry(n.Hold.Entry.PodUID); ok {
		t.Error("an overdue hold is still there")
	}
	if _, _, ok := v.Plans().Victim("v"); !ok {
		t.Error("an eviction under way is not claimed any more")
	}
	sweepAll(t, h, running(300, "keeper"), false)
	settled, changed := txns.SettleBudget(ledgerOf(t, h).Budgets().Of(budgetUID), running(300))
	if !changed {
		t.Error("the victim is gone, and its budget is not settled")
	}
	commitChange(t, h, txns.Change{Budgets: []ledger.BudgetDoc{settled}})
	for d := range ledgerOf(t, h).Docs() {
		if len(d.Entries) > 0 {
			t.Errorf("left: %+v", d)
		}
	}
}
