package ledgertest

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/registry"
	"github.com/berth-scheduler/berth/pkg/ledger/roster"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
)

func nominate(t *testing.T, h Harness) {
	_, n := nominated(t, h)
	v := ledgerOf(t, h)
	if _, e, ok := v.Entry(n.Hold.Entry.PodUID); !ok || e.State != ledger.Held || e.Plan != n.Plan() {
		t.Errorf("hold %+v, %v", e, ok)
	}
	for _, uid := range []string{"v", "w"} {
		_, e, ok := v.Plans().Victim(uid)
		if !ok || e.Plan != n.Plan() || e.State != 0 || !v.Plans().VictimOfLivePlan(e) {
			t.Errorf("claim on %s: %+v, %v", uid, e, ok)
		}
	}
	if b := v.Budgets().Of(budgetUID); len(b.Claims) != 1 || !b.Claimed("w") {
		t.Errorf("budget %+v", b)
	}
	if d, _ := v.Doc("c"); len(d.Entries) != 1 || d.Entries[0].Role != ledger.RoleKeeper {
		t.Errorf("the keeper is not pinned: %+v", d)
	}
	if docs := v.Plans().Docs(n.Plan()); len(docs) != 2 {
		t.Errorf("the plan is in %d documents, want those of a and b", len(docs))
	}
}

func nominateTwice(t *testing.T, h Harness) {
	s := newShard(t, h, "s")
	n := s.nomination(running(100, "v"), []ledger.NodeDoc{node("a")}, victim("a", "v"))
	c, err := txns.Nominate(n)
	first := commitChange(t, h, built(t, c, err))
	if lost := wantConflict(t, h, c); !lost.Applied || lost.AppliedAt != first {
		t.Errorf("resubmitted: %+v, want applied at %d", lost, first)
	}
	commitChange(t, h, built(promoted(t, h, n)))
	if lost := wantConflict(t, h, c); !lost.Applied {
		t.Errorf("resubmitted after it was promoted: %+v, want applied", lost)
	}
}

// promoted returns T3 of a nomination whose victims are gone.
func promoted(t *testing.T, h Harness, n txns.Nomination) (*testing.T, txns.Change, error) {
	t.Helper()
	c, err := txns.Promote(promotion(t, h, n, running(200)))
	return t, c, err
}

func nominateWithout(t *testing.T, h Harness) {
	s := newShard(t, h, "s")
	build := func() txns.Change {
		n := s.nomination(running(100, "v"), []ledger.NodeDoc{node("a")}, victim("a", "v"))
		n.Guards = carrier(zoneTerm("x"), "z", 0, 0).Guards
		c, err := txns.Nominate(n)
		return built(t, c, err)
	}
	c := build()
	r := registered(t, h, registry.Registry{}, zoneTerm("x"))
	if lost := wantConflict(t, h, c); !lost.Registry || lost.RegistryRevision != r.Revision || len(lost.Docs) != 0 {
		t.Errorf("lost %+v, want the registry", lost)
	}
	c.Authority.TermRegistryRevision = r.Revision
	moved := mustCommit(t, h.Store, txnOf(t, s.guarded(t, r, matcher(zoneTerm("x"), "z", 0), node("rival"))))
	if lost := wantConflict(t, h, c); lost.Guards[matchers(zoneTerm("x"), "z")] != moved {
		t.Errorf("lost %+v, want a guard", lost)
	}
	c.Guards[1].Revision = moved
	p := c.Docs[0].Entries[1].Partition()
	release, err := roster.ReleasePartition(p, s.epochs[p])
	if err != nil {
		t.Fatal(err)
	}
	mustCommit(t, h.Store, release)
	if lost := wantConflict(t, h, c); !slices.Equal(lost.Partitions, []int32{p}) {
		t.Errorf("lost %+v, want partition %d", lost, p)
	}
	if len(slices.Collect(ledgerOf(t, h).Reserved())) != 1 {
		t.Error("a nomination left something")
	}
}

func nominateRefuses(t *testing.T, h Harness) {
	s, n := nominated(t, h)
	v := ledgerOf(t, h)
	a, _ := v.Doc("a")
	f := running(100, "v", "w", "x", "keeper")
	c, _ := v.Doc("c")
	var claimed *txns.ClaimedError
	for what, again := range map[string]txns.Nomination{
		"a victim of another plan": s.nomination(f, []ledger.NodeDoc{a}, victim("a", "v")),
		"a keeper as a victim":     s.nomination(f, []ledger.NodeDoc{a, c}, victim("c", "keeper")),
		"a victim twice":           s.nomination(f, []ledger.NodeDoc{a}, victim("a", "x"), victim("a", "x")),
	} {
		if _, err := txns.Nominate(again); !errors.As(err, &claimed) {
			t.Errorf("%s: %v, want *ClaimedError", what, err)
		}
	}
	relies := s.nomination(f, []ledger.NodeDoc{a}, victim("a", "x"))
	relies.Keepers = []txns.NodeEntry{victim("a", "v")}
	if _, err := txns.Nominate(relies); !errors.As(err, &claimed) {
		t.Errorf("a victim as a keeper: %v, want *ClaimedError", err)
	}
	broke := s.nomination(f, []ledger.NodeDoc{a}, victim("a", "x", budgetUID))
	broke.Budgets = []txns.BudgetRoom{budgetRoom(v.Budgets().Of(budgetUID), 1)}
	var full *txns.BudgetError
	if _, err := txns.Nominate(broke); !errors.As(err, &full) || full.Claimed != 1 || full.Wanted != 1 {
		t.Errorf("a budget that is used up: %v, want *BudgetError", err)
	}
	broke.Budgets[0].Exceed = true
	if _, err := txns.Nominate(broke); err != nil {
		t.Errorf("a budget that may be exceeded: %v", err)
	}
	late := a
	late.HW = map[string]uint64{ledger.KindPod: 101}
	for what, bad := range map[string]txns.Nomination{
		"no victims":           s.nomination(f, []ledger.NodeDoc{a}),
		"a node not given":     s.nomination(f, []ledger.NodeDoc{a}, victim("b", "x")),
		"a budget not given":   s.nomination(f, []ledger.NodeDoc{a}, victim("a", "x", "other")),
		"facts that are older": s.nomination(f, []ledger.NodeDoc{late}, victim("a", "x")),
	} {
		_, err := txns.Nominate(bad)
		refused(t, what, err)
	}
	foreign := s.nomination(f, []ledger.NodeDoc{a}, victim("a", "x"))
	foreign.Epochs = nil
	if _, err := txns.Nominate(foreign); err == nil {
		t.Error("nominated a pod of a partition without its epoch")
	}
	if _, e, _ := v.Plans().Victim("w"); e.Plan != n.Plan() {
		t.Errorf("the refusals changed a claim: %+v", e)
	}
}

// large returns a nomination with a hundred victims on a hundred nodes, in three transactions.
func large(t *testing.T, h Harness) (s *shard, n txns.Nomination, chunks [][]txns.NodeEntry) {
	t.Helper()
	s = newShard(t, h, "s")
	var pods []string
	var victims []txns.NodeEntry
	for i, uid := range numbered("n%03d", 150) {
		pods = append(pods, fmt.Sprintf("v%03d", i))
		victims = append(victims, victim(uid, pods[i]))
	}
	n = s.nomination(running(100, pods...), []ledger.NodeDoc{node("a")}, victims...)
	for _, v := range victims {
		n.Docs = append(n.Docs, node(v.NodeUID))
	}
	c, err := txns.Nominate(n)
	_, err = built(t, c, err).Txn()
	wantTxnError(t, "150 victims in one transaction", err)
	n.Victims, n.Docs = nil, n.Docs[:1]
	return s, n, slices.Collect(slices.Chunk(victims, 60))
}

func extend(t *testing.T, h Harness, n txns.Nomination, victims []txns.NodeEntry) txns.Change {
	t.Helper()
	r, _ := ledgerOf(t, h).Plans().Record(n.RecordedPlan())
	x := txns.Extension{Authority: n.Authority, Record: r, Victims: victims, Facts: n.Facts}
	for _, v := range victims {
		x.Docs = append(x.Docs, doc(t, h.Store, v.NodeUID))
	}
	c, err := txns.ExtendPlan(x)
	return built(t, c, err)
}

func nominateLarge(t *testing.T, h Harness) {
	_, n, chunks := large(t, h)
	plan := n.RecordedPlan()
	c, err := txns.FormPlan(n, 150)
	commitChange(t, h, built(t, c, err))
	for _, chunk := range chunks {
		r, _ := ledgerOf(t, h).Plans().Record(plan)
		hold, _, _ := ledgerOf(t, h).Plans().Owner(plan)
		_, err := txns.FinishPlan(n.Authority, r, hold, 0)
		refused(t, "an incomplete plan is finished", err)
		again := extend(t, h, n, chunk)
		commitChange(t, h, again)
		if lost := wantConflict(t, h, again); lost.Applied || len(lost.Docs) != len(chunk) {
			t.Errorf("resubmitted: %d documents lost, want %d", len(lost.Docs), len(chunk))
		}
		_, err = mark(t, h, plan, chunk[0].Entry.PodUID)
		refused(t, "a victim of a forming plan is marked", err)
		if v := ledgerOf(t, h); v.Plans().VictimOfLivePlan(chunk[0].Entry) {
			t.Error("a victim of a forming plan counts as claimed")
		}
	}
	v := ledgerOf(t, h)
	r, _ := v.Plans().Record(plan)
	hold, _, _ := v.Plans().Owner(plan)
	claimed := 0
	for _, d := range v.Plans().Docs(plan) {
		for _, e := range d.Entries {
			if e.Role == ledger.RoleVictim {
				claimed++
			}
		}
	}
	finish, err := txns.FinishPlan(n.Authority, r, hold, claimed)
	commitChange(t, h, built(t, finish, err))
	c, err = mark(t, h, plan, "v000", "v001")
	commitChange(t, h, built(t, c, err))
	if _, e, ok := ledgerOf(t, h).Plans().Victim("v149"); !ok || !ledgerOf(t, h).Plans().VictimOfLivePlan(e) {
		t.Error("a victim of a ready plan does not count as claimed")
	}
	largePromoted(t, h, n)
}

// largePromoted ends a large plan: the hold is promoted, the rest is handed over, and the record is dropped when
// nothing refers to it.
func largePromoted(t *testing.T, h Harness, n txns.Nomination) {
	t.Helper()
	plan := n.RecordedPlan()
	v := ledgerOf(t, h)
	target, _, _ := v.Plans().Owner(plan)
	r, _ := v.Plans().Record(plan)
	p := txns.Promotion{
		Authority: n.Authority, Target: target, PodUID: n.Hold.Entry.PodUID, Token: n.Hold.Entry.Token,
		PodRV: n.Hold.Entry.PodRV, Fits: true, Facts: running(200),
	}
	_, p.Docs = split(v.Plans().Docs(plan), "a")
	_, err := txns.Promote(p)
	refused(t, "promoted without the record", err)
	p.Record, p.Facts = &r, running(200, "v149")
	_, err = txns.Promote(p)
	refused(t, "promoted while a victim of many runs", err)
	p.Facts = running(200)
	c, err := txns.Promote(p)
	commitChange(t, h, built(t, c, err))
	r, _ = ledgerOf(t, h).Plans().Record(plan)
	_, err = txns.DropPlan(r, ledgerOf(t, h))
	refused(t, "dropped while claims are left", err)
	for d := range ledgerOf(t, h).Docs() {
		if next, changed := txns.Finish(d, running(200)); changed {
			commitChange(t, h, txns.Change{Docs: []ledger.NodeDoc{next}})
		}
	}
	c, err = txns.DropPlan(r, ledgerOf(t, h))
	commitChange(t, h, built(t, c, err))
	if n := len(slices.Collect(ledgerOf(t, h).Plans().Records())); n != 0 {
		t.Errorf("%d records left", n)
	}
}

func nominateAborted(t *testing.T, h Harness) {
	_, n, chunks := large(t, h)
	plan := n.RecordedPlan()
	c, err := txns.FormPlan(n, 150)
	commitChange(t, h, built(t, c, err))
	commitChange(t, h, extend(t, h, n, chunks[0]))
	late := extend(t, h, n, chunks[1])
	v := ledgerOf(t, h)
	r, _ := v.Plans().Record(plan)
	hold, _, _ := v.Plans().Owner(plan)
	finish, err := txns.FinishPlan(n.Authority, r, hold, 150)
	built(t, finish, err)

	c, err = txns.AbortPlan(txns.Abort{Plan: plan, Docs: []ledger.NodeDoc{hold}, Record: &r})
	commitChange(t, h, built(t, c, err))
	for what, c := range map[string]txns.Change{"extended": late, "finished": finish} {
		if lost := wantConflict(t, h, c); len(lost.Plans) != 1 || lost.Plans[0].State != ledger.PlanAborted {
			t.Errorf("%s after the abort: lost %+v, want the record", what, lost)
		}
	}
	for _, d := range ledgerOf(t, h).Plans().Docs(plan) {
		swept, err := txns.SweepDoc(txns.Sweeping{Doc: d, View: ledgerOf(t, h), Facts: n.Facts.(api)})
		commitChange(t, h, built(t, swept.Change, err))
	}
	r, _ = ledgerOf(t, h).Plans().Record(plan)
	c, err = txns.DropPlan(r, ledgerOf(t, h))
	commitChange(t, h, built(t, c, err))
	if docs := ledgerOf(t, h).Plans().Docs(plan); len(docs) != 0 {
		t.Errorf("%d documents have something of an aborted plan", len(docs))
	}
}

func nominateOrPlace(t *testing.T, h Harness) {
	s := newShard(t, h, "s")
	n := s.nomination(running(100, "v"), []ledger.NodeDoc{node("a")}, victim("a", "v"))
	c, err := txns.Nominate(n)
	built(t, c, err)
	b := s.batch(t, node("a"))
	mustCommit(t, h.Store, txnOf(t, b))
	lost := wantConflict(t, h, c)
	if lost.Applied || len(lost.Docs) != 1 || len(lost.Docs[0].Entries) != 1 {
		t.Fatalf("lost %+v, want the document with the placement", lost)
	}
	n.Docs = lost.Docs
	c, err = txns.Nominate(n)
	b = s.batch(t, lost.Docs[0])
	commitChange(t, h, built(t, c, err))
	if l := losers(t, b, commit(t, h.Store, txnOf(t, b))); l.Applied || len(l.Docs) != 1 {
		t.Errorf("placed against a hold: %+v", l)
	}
}

func nominateOneVictim(t *testing.T, h Harness) {
	s := newShard(t, h, "s")
	f := running(100, "v")
	one := s.nomination(f, []ledger.NodeDoc{node("a"), node("b")}, victim("b", "v"))
	two := s.nomination(f, []ledger.NodeDoc{node("b")}, victim("b", "v"))
	two.Hold.NodeUID = "b"
	first, err := txns.Nominate(one)
	built(t, first, err)
	second, err := txns.Nominate(two)
	lost := commitConflicting(t, h, first, built(t, second, err))
	two.Docs = lost.Docs
	var claimed *txns.ClaimedError
	if _, err := txns.Nominate(two); !errors.As(err, &claimed) {
		t.Errorf("decided again: %v, want *ClaimedError", err)
	}
}
