package ledgertest

import (
	"errors"
	"testing"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
)

func promote(t *testing.T, h Harness) {
	_, n := nominated(t, h)
	for what, f := range map[string]api{
		"every victim is there":       running(200, "v", "w"),
		"one of two is there":         running(200, "w"),
		"one of two is being deleted": running(200).leave("w", 150),
		"the facts are older":         running(40),
	} {
		_, err := txns.Promote(promotion(t, h, n, f))
		refused(t, what, err)
	}
	p := promotion(t, h, n, running(200))
	p.Fits = false
	_, err := txns.Promote(p)
	refused(t, "the pod does not fit now", err)
	p = promotion(t, h, n, running(200))
	p.PodRV = 1
	_, err = txns.Promote(p)
	refused(t, "an older version of the pod", err)
	p.Token++
	var illegal *txns.TransitionError
	if _, err := txns.Promote(p); !errors.As(err, &illegal) {
		t.Errorf("another attempt's hold: %v, want *TransitionError", err)
	}
	c, err := txns.Promote(promotion(t, h, n, running(200)))
	at := commitChange(t, h, built(t, c, err))
	v := ledgerOf(t, h)
	_, e, _ := v.Entry(n.Hold.Entry.PodUID)
	if e.State != ledger.Committed || e.PodRV != n.Hold.Entry.PodRV+7 || e.Plan != "" {
		t.Errorf("promoted: %+v", e)
	}
	for _, uid := range []string{"a", "b"} {
		d, _ := v.Doc(uid)
		if d.HW[ledger.KindPod] != 200 || len(d.Entries) > 1 {
			t.Errorf("node %s: %+v, want no claims and high-water 200", uid, d)
		}
	}
	if lost := wantConflict(t, h, c); !lost.Applied || lost.AppliedAt != at {
		t.Errorf("resubmitted: %+v, want applied at %d", lost, at)
	}
}

// displacement displaces the hold of a nomination by a pod of that priority.
func (s *shard) displacement(t *testing.T, h Harness, n txns.Nomination, priority int32) txns.Displacement {
	t.Helper()
	p := promotion(t, h, n, n.Facts.(api))
	e := s.entry("displacer-" + s.token.String())
	e.Priority = priority
	return txns.Displacement{
		Authority: s.authority(e), Target: p.Target, Docs: p.Docs, PodUID: p.PodUID, Token: p.Token,
		Entry: e, Facts: n.Facts,
	}
}

func displace(t *testing.T, h Harness) {
	s, n := nominated(t, h)
	var low *txns.PriorityError
	for _, priority := range []int32{-1, 99, 100} {
		if _, err := txns.Displace(s.displacement(t, h, n, priority)); !errors.As(err, &low) {
			t.Errorf("priority %d against 100: %v, want *PriorityError", priority, err)
		}
	}
	x := s.displacement(t, h, n, 101)
	c, err := txns.Displace(x)
	at := commitChange(t, h, built(t, c, err))
	v := ledgerOf(t, h)
	if _, _, ok := v.Entry(n.Hold.Entry.PodUID); ok {
		t.Error("the displaced pod still has a reservation")
	}
	_, e, ok := v.Plans().Owner(n.Plan())
	if !ok || e.PodUID != x.Entry.PodUID || e.State != ledger.Held {
		t.Errorf("the plan is for %+v, %v", e, ok)
	}
	if lost := wantConflict(t, h, c); !lost.Applied || lost.AppliedAt != at {
		t.Errorf("resubmitted: %+v, want applied at %d", lost, at)
	}
	// The plan continues for the new holder of the place, also after its evictions have begun.
	c, err = mark(t, h, n.Plan(), "v", "w")
	commitChange(t, h, built(t, c, err))
	plan := n.Plan()
	n.Hold.Entry = x.Entry
	next := s.displacement(t, h, n, 5000)
	next.Target, next.Docs = split(ledgerOf(t, h).Plans().Docs(x.Target.Entries[1].Plan), "a")
	c, err = txns.Displace(next)
	commitChange(t, h, built(t, c, err))
	v = ledgerOf(t, h)
	if _, e, ok := v.Plans().Owner(plan); !ok || e.PodUID != next.Entry.PodUID {
		t.Errorf("the plan is for %+v, %v, after its evictions have begun", e, ok)
	}
	for _, uid := range []string{"v", "w"} {
		if _, e, ok := v.Plans().Victim(uid); !ok || e.Plan != plan || e.State != ledger.Evicting {
			t.Errorf("the claim on %s is %+v, %v: want it marked for the same plan", uid, e, ok)
		}
	}
}

// split returns the document of a node, and the others.
func split(docs []ledger.NodeDoc, nodeUID string) (target ledger.NodeDoc, rest []ledger.NodeDoc) {
	for _, d := range docs {
		if d.NodeUID == nodeUID {
			target = d
			continue
		}
		rest = append(rest, d)
	}
	return target, rest
}

func displaceOrPromote(t *testing.T, h Harness) {
	s, n := nominated(t, h)
	n.Facts = running(200)
	three, err := txns.Promote(promotion(t, h, n, running(200)))
	built(t, three, err)
	four, err := txns.Displace(s.displacement(t, h, n, 101))
	commitConflicting(t, h, three, built(t, four, err))
	var illegal *txns.TransitionError
	x := s.displacement(t, h, n, 101)
	x.Target = doc(t, h.Store, "a")
	if _, err := txns.Displace(x); !errors.As(err, &illegal) || illegal.From != ledger.Committed {
		t.Errorf("displaced after it was promoted: %v, want *TransitionError", err)
	}
}

func displaceOrEvict(t *testing.T, h Harness) {
	s, n := nominated(t, h)
	four, err := txns.Displace(s.displacement(t, h, n, 101))
	built(t, four, err)
	marked, err := mark(t, h, n.Plan(), "w") // on node b, away from the hold
	commitConflicting(t, h, built(t, marked, err), four)
}

func abort(t *testing.T, h Harness) {
	_, n := nominated(t, h)
	c, err := mark(t, h, n.Plan(), "v")
	commitChange(t, h, built(t, c, err))
	a := abortChange(t, h, n.Plan())
	short := a
	short.Budgets = nil
	_, err = txns.AbortPlan(short)
	refused(t, "a budget that is not given", err)
	a.Docs = append(a.Docs, doc(t, h.Store, "c"))
	c, err = txns.AbortPlan(a)
	commitChange(t, h, built(t, c, err))
	v := ledgerOf(t, h)
	if _, _, ok := v.Entry(n.Hold.Entry.PodUID); ok {
		t.Error("the hold is still there")
	}
	if _, _, ok := v.Plans().Victim("w"); ok || v.Budgets().Of(budgetUID).Claimed("w") {
		t.Error("a claim that nothing was sent for is still there")
	}
	if _, e, ok := v.Plans().Victim("v"); !ok || e.State != ledger.Evicting || v.Plans().VictimOfLivePlan(e) {
		t.Errorf("an eviction under way is not claimed any more, or goes for nobody: %+v, %v", e, ok)
	}
	if d, _ := v.Doc("c"); len(d.Entries) != 0 {
		t.Errorf("the keeper is still pinned: %+v", d)
	}
	_, err = txns.AbortPlan(abortChange(t, h, n.Plan()))
	refused(t, "aborted twice", err)
	_, err = mark(t, h, n.Plan(), "v")
	refused(t, "marked without a hold", err)
	gone, changed := txns.Finish(doc(t, h.Store, "a"), running(300))
	if !changed || len(gone.Entries) != 0 || gone.HW[ledger.KindPod] != 300 {
		t.Errorf("the victim is gone: %+v, want an empty document and high-water 300", gone)
	}
	commitChange(t, h, txns.Change{Docs: []ledger.NodeDoc{gone}})
}

func abortOrPromote(t *testing.T, h Harness) {
	_, n := nominated(t, h)
	three, err := txns.Promote(promotion(t, h, n, running(200)))
	built(t, three, err)
	eight, err := txns.AbortPlan(abortChange(t, h, n.Plan()))
	commitConflicting(t, h, built(t, eight, err), three)
}

func abortOrEvict(t *testing.T, h Harness) {
	_, n := nominated(t, h)
	marked, err := mark(t, h, n.Plan(), "w")
	built(t, marked, err)
	eight, err := txns.AbortPlan(abortChange(t, h, n.Plan()))
	commitConflicting(t, h, built(t, eight, err), marked)
	_, err = mark(t, h, n.Plan(), "w")
	refused(t, "an eviction of an aborted plan", err)
}

func budgets(t *testing.T, h Harness) {
	f := running(100, "x", "y")
	claim := func(uid string) ledger.BudgetClaim { return ledger.BudgetClaim{PodUID: uid, PodRV: 50, Plan: "p"} }
	b, err := txns.ClaimBudget(budgetRoom(ledger.BudgetDoc{}, 1), f, claim("x"))
	if err != nil {
		t.Fatal(err)
	}
	one := txns.Change{Budgets: []ledger.BudgetDoc{b}}
	commitChange(t, h, one)
	if lost := wantConflict(t, h, one); len(lost.Budgets) != 1 {
		t.Errorf("resubmitted: %+v, want the budget", lost)
	}
	b = ledgerOf(t, h).Budgets().Of(budgetUID)
	var full *txns.BudgetError
	if _, err := txns.ClaimBudget(budgetRoom(b, 1), f, claim("y")); !errors.As(err, &full) {
		t.Errorf("a claim beyond the budget: %v, want *BudgetError", err)
	}
	_, err = txns.ClaimBudget(budgetRoom(b, 2), f, claim("x"))
	refused(t, "a victim twice", err)

	// The eviction took from the budget before 150, the pod shows it at 150.
	early := running(160, "y").leave("x", 150)
	early.budgets = 149
	if _, changed := txns.SettleBudget(b, early); changed {
		t.Error("settled before the budget's status shows the eviction")
	}
	f = early
	f.budgets = 150
	if free, known := budgetRoom(b, 0).Free(f); free != 0 || !known {
		t.Errorf("%d free, %v: the status shows the claim", free, known)
	}
	settled, changed := txns.SettleBudget(b, f)
	if !changed || settled.HW[ledger.KindBudget] != 150 {
		t.Fatalf("settled %+v, %v, want high-water 150", settled, changed)
	}
	commitChange(t, h, txns.Change{Budgets: []ledger.BudgetDoc{settled}})
	b = ledgerOf(t, h).Budgets().Of(budgetUID)
	_, err = txns.ClaimBudget(budgetRoom(b, 1), early, claim("y"))
	refused(t, "a claim on a status from before what was settled", err)
	budgetsTakenBack(t, h, b, f)
}

// budgetsTakenBack tests a claim whose eviction the API server refuses.
func budgetsTakenBack(t *testing.T, h Harness, b ledger.BudgetDoc, f api) {
	t.Helper()
	s := newShard(t, h, "s")
	n := s.nomination(f, []ledger.NodeDoc{node("a")}, victim("a", "y", budgetUID))
	n.Budgets = []txns.BudgetRoom{budgetRoom(b, 1)}
	c, err := txns.Nominate(n)
	commitChange(t, h, built(t, c, err))
	if _, err := txns.FailEviction(doc(t, h.Store, "a"), "y", n.Plan()); err == nil {
		t.Error("an eviction failed that was never sent")
	}
	c, err = mark(t, h, n.Plan(), "y")
	commitChange(t, h, built(t, c, err))
	d, err := txns.FailEviction(doc(t, h.Store, "a"), "y", n.Plan())
	if err != nil {
		t.Fatal(err)
	}
	covered := txns.CoverBudget(ledgerOf(t, h).Budgets().Of(budgetUID), txns.Failure{BudgetRV: 170})
	commitChange(t, h, txns.Change{Docs: []ledger.NodeDoc{d}, Budgets: []ledger.BudgetDoc{covered}})
	c, err = txns.AbortPlan(abortChange(t, h, n.Plan()))
	commitChange(t, h, built(t, c, err))
	b = ledgerOf(t, h).Budgets().Of(budgetUID)
	if len(b.Claims) != 0 || b.HW[ledger.KindBudget] != 170 {
		t.Errorf("taken back: %+v, want no claim and high-water 170", b)
	}
}

func settleOrNominate(t *testing.T, h Harness) {
	s, n := nominated(t, h)
	f := running(200, "v", "x").leave("w", 150)
	b := ledgerOf(t, h).Budgets().Of(budgetUID)
	settled, _ := txns.SettleBudget(b, f)
	two := s.nomination(f, []ledger.NodeDoc{doc(t, h.Store, "a")}, victim("a", "x", budgetUID))
	two.Budgets = []txns.BudgetRoom{budgetRoom(b, 1)}
	c, err := txns.Nominate(two)
	lost := commitConflicting(t, h, txns.Change{Budgets: []ledger.BudgetDoc{settled}}, built(t, c, err))
	if len(lost.Budgets) != 1 || len(lost.Docs) != 0 {
		t.Errorf("lost %+v, want the budget alone", lost)
	}
	two.Budgets = []txns.BudgetRoom{budgetRoom(lost.Budgets[0], 1)}
	c, err = txns.Nominate(two)
	commitChange(t, h, built(t, c, err))
	if n.Plan() == two.Plan() {
		t.Error("two plans of one id")
	}
}

// relocation moves pod m from node src to node dst.
func (s *shard) relocation(f api, docs ...ledger.NodeDoc) txns.Relocation {
	e := s.entry("m")
	e.Replacement = ledger.Replacement{Owner: "replicaset", Template: "hash"}
	return txns.Relocation{
		Placeholder: txns.NodeEntry{NodeUID: "dst", Entry: e}, Victim: victim("src", "m", budgetUID), Docs: docs, Facts: f,
	}
}

func move(t *testing.T, h Harness) {
	s := newShard(t, h, "s")
	m := s.relocation(running(100, "m"), node("src"), node("dst"))
	m.Budgets = []txns.BudgetRoom{budgetRoom(ledger.BudgetDoc{}, 1)}
	nameless := m
	nameless.Placeholder.Entry.Replacement = ledger.Replacement{}
	_, err := txns.Relocate(nameless)
	refused(t, "a move for nobody", err)
	c, err := txns.Relocate(m)
	at := commitChange(t, h, built(t, c, err))
	if lost := wantConflict(t, h, c); !lost.Applied || lost.AppliedAt != at {
		t.Errorf("resubmitted: %+v, want applied at %d", lost, at)
	}
	c, err = mark(t, h, m.Plan(), "m")
	commitChange(t, h, built(t, c, err))

	e := s.entry("replacement")
	r := m.Placeholder.Entry.Replacement
	_, err = txns.TakeOver(doc(t, h.Store, "dst"), ledger.Replacement{Owner: r.Owner, Template: "other"}, 0, e)
	refused(t, "another template takes the place over", err)
	stranger := e
	stranger.Namespace = "another"
	_, err = txns.TakeOver(doc(t, h.Store, "dst"), r, m.Placeholder.Entry.Token, stranger)
	refused(t, "a pod of another namespace takes the place over", err)
	d, err := txns.TakeOver(doc(t, h.Store, "dst"), r, 0, e)
	if err != nil {
		t.Fatal(err)
	}
	b := txns.PlaceBatch{Epochs: s.authority(e).Epochs, Docs: []ledger.NodeDoc{d}, Placed: []ledger.Token{e.Token}}
	aborted, err := txns.AbortPlan(abortChange(t, h, m.Plan()))
	built(t, aborted, err)
	mustCommit(t, h.Store, txnOf(t, b))
	if lost := wantConflict(t, h, aborted); len(lost.Docs) != 1 {
		t.Errorf("aborted after it was taken over: lost %+v, want the place", lost)
	}
	v := ledgerOf(t, h)
	if d, _ := v.Doc("dst"); len(d.Entries) != 1 || d.Entries[0].PodUID != "replacement" {
		t.Errorf("the place: %+v", d)
	}
	if _, e, ok := v.Plans().Victim("m"); !ok || v.Plans().VictimOfLivePlan(e) {
		t.Errorf("the eviction under way: %+v, %v", e, ok)
	}
}

func moveOrNominate(t *testing.T, h Harness) {
	s := newShard(t, h, "s")
	f := running(100, "m", "v")
	m := s.relocation(f, node("src"), node("dst"))
	m.Budgets = []txns.BudgetRoom{budgetRoom(ledger.BudgetDoc{}, 1)}
	one, err := txns.Relocate(m)
	built(t, one, err)
	n := s.nomination(f, []ledger.NodeDoc{node("a")}, victim("a", "v", budgetUID))
	n.Budgets = m.Budgets
	two, err := txns.Nominate(n)
	lost := commitConflicting(t, h, one, built(t, two, err))
	n.Budgets = []txns.BudgetRoom{budgetRoom(lost.Budgets[0], 1)}
	var full *txns.BudgetError
	if _, err := txns.Nominate(n); !errors.As(err, &full) {
		t.Errorf("decided again: %v, want *BudgetError", err)
	}
}

func placeExclusive(t *testing.T, h Harness) {
	s := newShard(t, h, "s")
	place := func(x ledger.ExclusiveDoc, items []string, docs ...ledger.NodeDoc) txns.PlaceBatch {
		b := s.batch(t, docs...)
		e := b.Docs[0].Entries[0]
		held, err := x.AddHolder(ledger.Holder{
			PodUID: e.PodUID, Token: e.Token, NodeUID: b.Docs[0].NodeUID, Items: items,
		})
		if err != nil {
			t.Fatal(err)
		}
		b.Exclusives = []ledger.ExclusiveDoc{held}
		return b
	}
	volume := ledger.ExclusiveDoc{Key: ledger.KeyVolume("pvc")}
	one, two := place(volume, nil, node("a"), node("b")), place(volume, nil, node("c"), node("d"))
	mustCommit(t, h.Store, txnOf(t, one))
	lost := losers(t, two, commit(t, h.Store, txnOf(t, two)))
	if len(lost.Exclusives) != 1 || len(lost.Docs) != 0 {
		t.Fatalf("lost %+v, want the volume", lost)
	}
	won, ok := txns.Winners(two, lost)
	if !ok || len(won.Docs) != 1 || won.Docs[0].NodeUID != "d" || len(won.Exclusives) != 0 {
		t.Fatalf("winners %+v, want that of d alone", won)
	}
	mustCommit(t, h.Store, txnOf(t, won))
	var taken *ledger.TakenError
	other := ledger.Holder{PodUID: "p", Token: 1, NodeUID: "x"}
	if _, err := lost.Exclusives[0].AddHolder(other); !errors.As(err, &taken) {
		t.Errorf("a held volume: %v, want *TakenError", err)
	}
	pool := ledger.ExclusiveDoc{Key: ledger.KeyPool("driver", "pool")}
	mustCommit(t, h.Store, txnOf(t, place(pool, []string{"d1", "d0"}, node("e"))))
	pool = ledgerOf(t, h).Exclusives().Of(pool.Key)
	other.Items = []string{"d2", "d1"}
	if _, err := pool.AddHolder(other); !errors.As(err, &taken) {
		t.Errorf("a held device: %v, want *TakenError", err)
	}
	mustCommit(t, h.Store, txnOf(t, place(pool, []string{"d2"}, node("f"))))

	// The pod on a is bound: its node's document is handed over first, the volume's follows.
	held := ledgerOf(t, h).Exclusives().Of(volume.Key)
	if _, changed := txns.FinishHolders(held, ledgerOf(t, h)); changed {
		t.Error("a holder with a reservation was dropped")
	}
	d := doc(t, h.Store, "a")
	bound := running(300)
	bound.pods[d.Entries[0].PodUID] = 260
	d, _ = txns.Finish(d, bound)
	commitChange(t, h, txns.Change{Docs: []ledger.NodeDoc{d}})
	free, changed := txns.FinishHolders(held, ledgerOf(t, h))
	if !changed || len(free.Holders) != 0 || free.HW[ledger.KindPod] != 260 {
		t.Errorf("after the hand-over: %+v, %v, want no holder and high-water 260", free, changed)
	}
	commitChange(t, h, txns.Change{Exclusives: []ledger.ExclusiveDoc{free}})
}

func nominateOrHold(t *testing.T, h Harness) {
	s := newShard(t, h, "s")
	n := s.nomination(running(100, "v"), []ledger.NodeDoc{node("a")}, victim("a", "v"))
	e := n.Hold.Entry
	volume := ledger.ExclusiveDoc{Key: ledger.KeyVolume("pvc")}
	held, err := volume.AddHolder(ledger.Holder{PodUID: e.PodUID, Token: e.Token, NodeUID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	n.Exclusives = []ledger.ExclusiveDoc{held}
	c, err := txns.Nominate(n)
	commitChange(t, h, built(t, c, err))
	b := s.batch(t, node("b"))
	other, err := volume.AddHolder(ledger.Holder{PodUID: "p", Token: b.Placed[0], NodeUID: "b"})
	if err != nil {
		t.Fatal(err)
	}
	b.Exclusives = []ledger.ExclusiveDoc{other}
	if l := losers(t, b, commit(t, h.Store, txnOf(t, b))); l.Applied || len(l.Exclusives) != 1 {
		t.Errorf("two pods have one volume: %+v", l)
	}
	c, err = txns.AbortPlan(abortChange(t, h, n.Plan()))
	commitChange(t, h, built(t, c, err))
	b.Exclusives[0] = ledgerOf(t, h).Exclusives().Of(volume.Key)
	if len(b.Exclusives[0].Holders) != 0 {
		t.Errorf("the aborted hold still has the volume: %+v", b.Exclusives[0])
	}
}
