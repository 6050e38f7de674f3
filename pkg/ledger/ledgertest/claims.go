package ledgertest

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/invariant"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
)

// api is a view of the API: what it shows of pods, claimed ones included, and how far it has got.
type api struct {
	facts
	// leaving are pods whose deletion is under way, by the resourceVersion that shows it.
	leaving map[string]uint64
	budgets uint64
}

func (a api) VictimFate(uid string, podRV uint64) (txns.Fate, uint64) {
	if rv, ok := a.leaving[uid]; ok {
		return txns.Leaving, rv
	}
	if _, _, known := a.PodFact(uid); !known && a.progress >= podRV {
		return txns.Left, a.progress
	}
	return txns.Staying, 0
}

func (a api) BudgetProgress() uint64 { return a.budgets }

// running returns a view at progress with these pods bound at resourceVersion 50.
func running(progress uint64, pods ...string) api {
	a := api{facts: facts{pods: map[string]uint64{}, progress: progress}, leaving: map[string]uint64{}, budgets: progress}
	for _, uid := range pods {
		a.pods[uid] = 50
	}
	return a
}

// leave returns the view in which one more pod is being deleted since rv.
func (a api) leave(uid string, rv uint64) api {
	leaving := map[string]uint64{uid: rv}
	for k, v := range a.leaving {
		leaving[k] = v
	}
	a.leaving = leaving
	return a
}

const budgetUID = "budget"

func victim(nodeUID, podUID string, budgets ...string) txns.NodeEntry {
	return txns.NodeEntry{NodeUID: nodeUID, Entry: ledger.Entry{
		PodUID: podUID, Namespace: "ns", Name: podUID, PodRV: 50, Budgets: budgets,
	}}
}

func budgetRoom(b ledger.BudgetDoc, allowed int32) txns.BudgetRoom {
	b.UID = budgetUID
	b.Namespace = "ns"
	b.Name = "pdb"
	return txns.BudgetRoom{Doc: b, Allowed: allowed}
}

// nomination returns the nomination of a new pod for node a, with these victims on their nodes.
func (s *shard) nomination(f api, docs []ledger.NodeDoc, victims ...txns.NodeEntry) txns.Nomination {
	e := s.entry("preemptor-" + s.token.String())
	e.Priority = 100
	f.pods[e.PodUID] = 0 // pending
	return txns.Nomination{
		Authority: s.authority(e), Hold: txns.NodeEntry{NodeUID: "a", Entry: e}, Docs: docs, Victims: victims, Facts: f,
	}
}

func (s *shard) authority(entries ...ledger.Entry) txns.Authority {
	m := txns.Authority{Epochs: map[int32]int64{}}
	for _, e := range entries {
		m.Epochs[e.Partition()] = s.epochs[e.Partition()]
	}
	return m
}

// built requires that a builder did not refuse.
func built(t *testing.T, c txns.Change, err error) txns.Change {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func changeTxn(t *testing.T, c txns.Change) ledger.Txn {
	t.Helper()
	txn, err := c.Txn()
	if err != nil {
		t.Fatal(err)
	}
	return txn
}

// commitChange commits a change and checks its effect on every document.
func commitChange(t *testing.T, h Harness, c txns.Change) int64 {
	t.Helper()
	before := ledgerOf(t, h)
	r := mustCommit(t, h.Store, changeTxn(t, c))
	after := ledgerOf(t, h)
	for d := range after.Docs() {
		old, _ := before.Doc(d.NodeUID)
		if old.Revision == d.Revision {
			continue
		}
		for _, v := range append(invariant.CheckSuccessor(old, d), invariant.CheckDoc(d)...) {
			t.Error(v)
		}
	}
	for b := range after.Budgets().All() {
		for _, v := range invariant.CheckBudgetSuccessor(before.Budgets().Of(b.UID), b) {
			t.Error(v)
		}
	}
	for x := range after.Exclusives().All() {
		for _, v := range invariant.CheckExclusiveSuccessor(before.Exclusives().Of(x.Key), x) {
			t.Error(v)
		}
	}
	for _, v := range invariant.CheckClaims(after.Docs()) {
		t.Error(v)
	}
	return r
}

// wantConflict commits a change that must fail, and returns what it lost.
func wantConflict(t *testing.T, h Harness, c txns.Change) txns.Outcome {
	t.Helper()
	r := commit(t, h.Store, changeTxn(t, c))
	if r.Succeeded {
		t.Fatal("a change on stale documents committed")
	}
	lost, err := c.Classify(r)
	if err != nil {
		t.Fatal(err)
	}
	return lost
}

// commitConflicting commits two changes that were made on the same view, the first before the second: the second must
// fail and report a document that changed.
func commitConflicting(t *testing.T, h Harness, first, second txns.Change) txns.Outcome {
	t.Helper()
	commitChange(t, h, first)
	before, _ := list(t, h.Store, "")
	lost := wantConflict(t, h, second)
	if lost.Applied || len(lost.Docs)+len(lost.Budgets)+len(lost.Exclusives)+len(lost.Plans) == 0 {
		t.Errorf("lost %+v, want a document that changed", lost)
	}
	after, _ := list(t, h.Store, "")
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("half of a failed change was made:\n%s", diff)
	}
	return lost
}

func ledgerOf(t *testing.T, h Harness) *replica.View {
	t.Helper()
	v := replica.NewView()
	kvs, revision := list(t, h.Store, "")
	if err := v.Reset(kvs, revision); err != nil {
		t.Fatal(err)
	}
	return v
}

func refused(t *testing.T, what string, err error) {
	t.Helper()
	var e *txns.RefusedError
	if !errors.As(err, &e) {
		t.Errorf("%s: %v, want *RefusedError", what, err)
	}
}

// nominated returns a store in which one plan clears node a: its victims are v on a and w on b, and w is covered by
// a budget that allows one disruption.
func nominated(t *testing.T, h Harness) (*shard, txns.Nomination) {
	t.Helper()
	s := newShard(t, h, "s")
	n := s.nomination(running(100, "v", "w", "keeper"), []ledger.NodeDoc{node("a"), node("b"), node("c")},
		victim("a", "v"), victim("b", "w", budgetUID))
	n.Keepers = []txns.NodeEntry{{NodeUID: "c", Entry: ledger.Entry{PodUID: "keeper", Namespace: "ns", Name: "keeper"}}}
	n.Budgets = []txns.BudgetRoom{budgetRoom(ledger.BudgetDoc{}, 1)}
	c, err := txns.Nominate(n)
	commitChange(t, h, built(t, c, err))
	return s, n
}

// promotion returns the promotion of the nomination, as the view shows it.
func promotion(t *testing.T, h Harness, n txns.Nomination, f api) txns.Promotion {
	t.Helper()
	v := ledgerOf(t, h)
	p := txns.Promotion{
		Authority: n.Authority, PodUID: n.Hold.Entry.PodUID, Token: n.Hold.Entry.Token, PodRV: n.Hold.Entry.PodRV + 7,
		Fits: true, Facts: f,
	}
	for _, d := range v.Plans().Docs(n.Plan()) {
		if d.NodeUID == n.Hold.NodeUID {
			p.Target = d
			continue
		}
		p.Docs = append(p.Docs, d)
	}
	return p
}

// mark makes the victims of a nomination evictable.
func mark(t *testing.T, h Harness, plan string, victims ...string) (txns.Change, error) {
	t.Helper()
	v := ledgerOf(t, h)
	owner, _, _ := v.Plans().Owner(plan)
	e := txns.EvictPlan{Plan: plan, Owner: owner, Docs: v.Plans().Docs(plan), Victims: victims}
	if r, ok := v.Plans().Record(plan); ok {
		e.Record = &r
	}
	return txns.MarkEvicting(e)
}

// abortChange returns T8 of a plan as the view shows it.
func abortChange(t *testing.T, h Harness, plan string) txns.Abort {
	t.Helper()
	v := ledgerOf(t, h)
	a := txns.Abort{Plan: plan, Docs: v.Plans().Docs(plan)}
	for b := range v.Budgets().All() {
		a.Budgets = append(a.Budgets, b)
	}
	for x := range v.Exclusives().All() {
		a.Exclusives = append(a.Exclusives, x)
	}
	if r, ok := v.Plans().Record(plan); ok {
		a.Record = &r
	}
	return a
}
