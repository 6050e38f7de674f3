package ledgertest

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
)

// incarnations returns the contracts of T15 and T16: node names that stand for one node after the other, and
// documents that are collected.
func incarnations() []contract {
	return []contract{
		{"the first document of a name wins", firstOfAName},
		{"an admission makes decisions on the node before lose", admissionWins},
		{"an admission hands high-waters on", admissionKeepsHighWaters},
		{"of two admissions one wins", admissionsRace},
		{"an older node is not admitted", olderIsRefused},
		{"a collected document is not missed", collected},
		{"what was absent before a collection is not absent any more", absentBefore},
		{"an admission starts from the floor", admittedFromTheFloor},
		{"a superseded document leaves its high-water to the name", supersededIsCollected},
		{"a document with entries is not collected", occupiedIsKept},
		{"a name keeps its incarnation while it has several documents", incarnationIsKept},
	}
}

// named returns a first document of a node with the name "name".
func named(uid string, rv uint64) ledger.NodeDoc {
	return ledger.NodeDoc{NodeUID: uid, NodeName: "name", HW: map[string]uint64{ledger.KindNode: rv}}
}

// viewOf returns the view of a member that has read the whole ledger.
func viewOf(t *testing.T, s ledger.Store) *replica.View {
	t.Helper()
	kvs, revision := list(t, s, "")
	v := replica.NewView()
	if err := v.Reset(kvs, revision); err != nil {
		t.Fatal(err)
	}
	return v
}

func admit(t *testing.T, v *replica.View, uid string, rv uint64) ledger.Txn {
	t.Helper()
	change, err := txns.AdmitNode{
		NodeUID: uid, NodeName: "name", NodeRV: rv, Known: v.Names().Incarnation("name"), Docs: v.Names().Docs("name"),
		Floor: v.Floor(),
	}.Admit()
	if err != nil {
		t.Fatal(err)
	}
	txn, err := change.Txn()
	if err != nil {
		t.Fatal(err)
	}
	return txn
}

// emptied returns a document that has lost all entries, at a high-water.
func emptied(d ledger.NodeDoc, hw uint64) ledger.NodeDoc {
	d.Entries = nil
	return d.Cover(ledger.KindPod, hw)
}

func wantAdmission(t *testing.T, v *replica.View, uid string, rv uint64, want replica.Admission) {
	t.Helper()
	if got := v.Names().Admission(uid, "name", rv); got != want {
		t.Errorf("admission of %s at %d is %d, want %d", uid, rv, got, want)
	}
}

func firstOfAName(t *testing.T, h Harness) {
	s := newShard(t, h, "s")
	one, two := s.batch(t, named("a", 10)), s.batch(t, named("b", 20))
	mustCommit(t, h.Store, txnOf(t, one))
	r := commit(t, h.Store, txnOf(t, two))
	if r.Succeeded {
		t.Fatal("two nodes of one name both got a first document")
	}
	lost := losers(t, two, r)
	if len(lost.Docs) != 1 || lost.Docs[0].NodeUID != "b" || lost.Docs[0].Revision != 0 || lost.NamesAt == 0 {
		t.Errorf("lost %+v, want the document of b, which cannot be the first", lost)
	}
	if won, ok := txns.Winners(two, lost); ok {
		t.Errorf("%d placements were said to have won", len(won.Placed))
	}
	v := viewOf(t, h.Store)
	wantAdmission(t, v, "a", 10, replica.Admitted)
	wantAdmission(t, v, "b", 20, replica.Unadmitted)
	wantAdmission(t, v, "b", 5, replica.Superseded)
}

func admissionWins(t *testing.T, h Harness) {
	s := newShard(t, h, "s")
	mustCommit(t, h.Store, txnOf(t, s.batch(t, named("a", 10))))
	v := viewOf(t, h.Store)
	old, _ := v.Doc("a")
	decided := s.batch(t, old)
	mustCommit(t, h.Store, admit(t, v, "b", 20))
	if commit(t, h.Store, txnOf(t, decided)).Succeeded {
		t.Fatal("a placement on the node before was committed after the admission of the next")
	}
	v = viewOf(t, h.Store)
	wantAdmission(t, v, "b", 20, replica.Admitted)
	wantAdmission(t, v, "a", 10, replica.Superseded)
	old, _ = v.Doc("a")
	if _, err := txns.Place(old, s.entry("late")); err == nil || old.SupersededBy != "b" {
		t.Errorf("superseded by %q, and a pod may be placed there (%v)", old.SupersededBy, err)
	}
	if _, err := txns.Pin(old, ledger.Entry{PodUID: "k"}, ledger.Dependent{PodUID: "d", PodRV: 1}); err == nil {
		t.Error("a pod may be pinned in a superseded document")
	}
	now, _ := v.Doc("b")
	mustCommit(t, h.Store, txnOf(t, s.batch(t, now)))
}

func admissionKeepsHighWaters(t *testing.T, h Harness) {
	s := newShard(t, h, "s")
	mustCommit(t, h.Store, txnOf(t, s.batch(t, named("a", 10))))
	mustCommit(t, h.Store, replace(t, emptied(doc(t, h.Store, "a"), 77)))
	s.token++
	victim := ledger.Entry{PodUID: "v", Namespace: "d", Name: "v", PodRV: 3}
	claimed, err := txns.ClaimVictim(doc(t, h.Store, "a"), victim, "plan")
	if err != nil {
		t.Fatal(err)
	}
	mustCommit(t, h.Store, replace(t, claimed))
	mustCommit(t, h.Store, admit(t, viewOf(t, h.Store), "b", 20))
	v := viewOf(t, h.Store)
	now, _ := v.Doc("b")
	if now.HW[ledger.KindPod] != 77 || now.HW[ledger.KindNode] != 20 {
		t.Errorf("high-waters %v, want those of the node before, and the node's own", now.HW)
	}
	if !now.Claimed("v") {
		t.Error("a victim that the node before claims can be claimed again")
	}
	mustCommit(t, h.Store, replace(t, emptied(doc(t, h.Store, "a"), 99)))
	now, _ = viewOf(t, h.Store).Doc("b")
	if got := now.HighWater(ledger.KindPod); got != 99 {
		t.Errorf("high-water of the name %d, want that of the node before, 99", got)
	}
	if now.Claimed("v") {
		t.Error("the claim has left, and counts")
	}
}

func admissionsRace(t *testing.T, h Harness) {
	s := newShard(t, h, "s")
	mustCommit(t, h.Store, txnOf(t, s.batch(t, named("a", 10))))
	v := viewOf(t, h.Store)
	one, two := admit(t, v, "b", 20), admit(t, v, "c", 30)
	mustCommit(t, h.Store, one)
	if commit(t, h.Store, two).Succeeded {
		t.Fatal("two nodes were admitted to one name at once")
	}
	mustCommit(t, h.Store, admit(t, viewOf(t, h.Store), "c", 30))
	v = viewOf(t, h.Store)
	wantAdmission(t, v, "c", 30, replica.Admitted)
	wantAdmission(t, v, "b", 20, replica.Superseded)
}

func olderIsRefused(t *testing.T, h Harness) {
	s := newShard(t, h, "s")
	mustCommit(t, h.Store, txnOf(t, s.batch(t, named("b", 20))))
	v := viewOf(t, h.Store)
	older := txns.AdmitNode{
		NodeUID: "a", NodeName: "name", NodeRV: 10, Known: v.Names().Incarnation("name"), Docs: v.Names().Docs("name"),
	}
	if _, err := older.Admit(); err == nil {
		t.Error("an older node was admitted")
	}
	older.Known = ledger.Incarnation{NodeName: "name"} // a member of a version before incarnations made the document
	if _, err := older.Admit(); err == nil {
		t.Error("a node was admitted that is older than a document of its name")
	}
}

func collect(t *testing.T, v *replica.View, keys ...string) ledger.Txn {
	t.Helper()
	txn, err := txns.CollectionOf(v, keys).Collect()
	if err != nil {
		t.Fatal(err)
	}
	return txn
}

func collected(t *testing.T, h Harness) {
	s := newShard(t, h, "s")
	volume, err := (ledger.ExclusiveDoc{Key: ledger.KeyVolume("claim")}).AddHolder(ledger.Holder{PodUID: "p", Token: 1,
		NodeUID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	freed, _ := volume.ReleaseHolder(1)
	freed.HW = map[string]uint64{ledger.KindPod: 120}
	budget := ledger.BudgetDoc{UID: "pdb", HW: map[string]uint64{ledger.KindBudget: 130}}
	txn, err := txns.Change{Budgets: []ledger.BudgetDoc{budget}, Exclusives: []ledger.ExclusiveDoc{freed}}.Txn()
	if err != nil {
		t.Fatal(err)
	}
	mustCommit(t, h.Store, txn)
	mustCommit(t, h.Store, txnOf(t, s.batch(t, named("a", 10))))
	mustCommit(t, h.Store, replace(t, emptied(doc(t, h.Store, "a"), 110)))
	v := viewOf(t, h.Store)
	var keys []string
	for key := range txns.Collectable(v) {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	want := []string{ledger.KeyBudget("pdb"), ledger.KeyNode("a"), ledger.KeyVolume("claim")}
	if !slices.Equal(keys, want) {
		t.Fatalf("%q are empty, want %q", keys, want)
	}
	mustCommit(t, h.Store, collect(t, v, keys...))
	for _, prefix := range []string{"n/", "b/", "x/", ledger.PrefixIncarnation} {
		if kvs, _ := list(t, h.Store, prefix); len(kvs) > 0 {
			t.Errorf("%d keys are left under %s", len(kvs), prefix)
		}
	}
	v = viewOf(t, h.Store)
	hw := map[string]uint64{ledger.KindPod: 120, ledger.KindNode: 10, ledger.KindBudget: 130}
	if diff := cmp.Diff(hw, v.Floor().HW); diff != "" {
		t.Errorf("the floor (-want +got):\n%s", diff)
	}
	wantAdmission(t, v, "b", 20, replica.Admitted)
	first := v.Open("b", "name", 20)
	if first.HW[ledger.KindPod] != 120 || first.HW[ledger.KindNode] != 20 {
		t.Errorf("a first document starts at %v", first.HW)
	}
	if b := v.Budgets().Of("pdb"); b.HW[ledger.KindBudget] != 130 {
		t.Errorf("a budget that was collected starts at %v", b.HW)
	}
	if x := v.Exclusives().Of(ledger.KeyVolume("claim")); x.HW[ledger.KindPod] != 120 {
		t.Errorf("a claim that was collected starts at %v", x.HW)
	}
	mustCommit(t, h.Store, txnOf(t, s.batch(t, first)))
}

// absentBefore: a document is created and deleted while a member does not look. The member must not consider it one
// that has never existed.
func absentBefore(t *testing.T, h Harness) {
	s := newShard(t, h, "s")
	before := viewOf(t, h.Store)
	late := s.batch(t, before.Open("a", "name", 10))
	budget, err := txns.Change{Budgets: []ledger.BudgetDoc{before.Budgets().Of("pdb")}}.Txn()
	if err != nil {
		t.Fatal(err)
	}
	volume, err := txns.Change{Exclusives: []ledger.ExclusiveDoc{before.Exclusives().Of(ledger.KeyVolume("c"))}}.Txn()
	if err != nil {
		t.Fatal(err)
	}
	mustCommit(t, h.Store, txnOf(t, s.batch(t, before.Open("a", "name", 10))))
	mustCommit(t, h.Store, replace(t, emptied(doc(t, h.Store, "a"), 110)))
	mustCommit(t, h.Store, collect(t, viewOf(t, h.Store), ledger.KeyNode("a")))
	r := commit(t, h.Store, txnOf(t, late))
	if r.Succeeded {
		t.Fatal("a placement was committed on a document that had come and gone")
	}
	if lost := losers(t, late, r); len(lost.Docs) != 1 || lost.NamesAt == 0 {
		t.Errorf("lost %+v, want the absence of the document", lost)
	}
	for what, txn := range map[string]ledger.Txn{"budget": budget, "volume": volume} {
		if commit(t, h.Store, txn).Succeeded {
			t.Errorf("the absence of a %s from before a collection was relied on", what)
		}
	}
	if _, err := before.Learn(r.Current); err != nil {
		t.Fatal(err)
	}
	if commit(t, h.Store, txnOf(t, s.batch(t, before.Open("a", "name", 10)))).Succeeded {
		t.Error("the floor was learned from a lost compare, without what else was written up to it")
	}
	again := viewOf(t, h.Store).Open("a", "name", 10)
	if again.HW[ledger.KindPod] != 110 {
		t.Errorf("a first document starts at %v, want what the floor has", again.HW)
	}
	mustCommit(t, h.Store, txnOf(t, s.batch(t, again)))
}

func supersededIsCollected(t *testing.T, h Harness) {
	s := newShard(t, h, "s")
	mustCommit(t, h.Store, txnOf(t, s.batch(t, named("a", 10))))
	mustCommit(t, h.Store, admit(t, viewOf(t, h.Store), "b", 20))
	mustCommit(t, h.Store, replace(t, emptied(doc(t, h.Store, "a"), 99)))
	mustCommit(t, h.Store, collect(t, viewOf(t, h.Store), ledger.KeyNode("a")))
	v := viewOf(t, h.Store)
	if now, _ := v.Doc("b"); now.HW[ledger.KindPod] != 99 || now.Older != nil {
		t.Errorf("high-water %d beside older document %v, want 99 and none", now.HW[ledger.KindPod], now.Older)
	}
	wantAdmission(t, v, "b", 20, replica.Admitted)
	mustCommit(t, h.Store, collect(t, v, ledger.KeyNode("b")))
	wantAdmission(t, viewOf(t, h.Store), "c", 30, replica.Admitted)
}

// admittedFromTheFloor: a node's document is collected while that of an earlier node is left, and a member that
// believes the node to exist admits it again.
func admittedFromTheFloor(t *testing.T, h Harness) {
	s := newShard(t, h, "s")
	mustCommit(t, h.Store, txnOf(t, s.batch(t, named("a", 10))))
	mustCommit(t, h.Store, admit(t, viewOf(t, h.Store), "b", 20))
	mustCommit(t, h.Store, replace(t, emptied(doc(t, h.Store, "b"), 99)))
	mustCommit(t, h.Store, collect(t, viewOf(t, h.Store), ledger.KeyNode("b")))
	v := viewOf(t, h.Store)
	wantAdmission(t, v, "b", 20, replica.Unadmitted)
	late := admit(t, v, "b", 20)
	other := txns.Collection{Floor: v.Floor()}
	txn, err := other.Collect()
	if err != nil {
		t.Fatal(err)
	}
	mustCommit(t, h.Store, txn)
	if commit(t, h.Store, late).Succeeded {
		t.Error("a node without a document was admitted under a floor that has moved")
	}
	mustCommit(t, h.Store, admit(t, viewOf(t, h.Store), "b", 20))
	now, _ := viewOf(t, h.Store).Doc("b")
	if now.HW[ledger.KindPod] != 99 {
		t.Errorf("the admitted node starts at %v, want what its document had when it was collected", now.HW)
	}
}

func occupiedIsKept(t *testing.T, h Harness) {
	s := newShard(t, h, "s")
	mustCommit(t, h.Store, txnOf(t, s.batch(t, named("a", 10))))
	if _, err := txns.CollectionOf(viewOf(t, h.Store), []string{ledger.KeyNode("a")}).Collect(); err == nil {
		t.Error("a document with a reservation may be collected")
	}
	empty := emptied(doc(t, h.Store, "a"), 50)
	mustCommit(t, h.Store, replace(t, empty))
	txn := collect(t, viewOf(t, h.Store), ledger.KeyNode("a"))
	mustCommit(t, h.Store, txnOf(t, s.batch(t, doc(t, h.Store, "a"))))
	if commit(t, h.Store, txn).Succeeded {
		t.Error("a document was collected that a pod had been placed in meanwhile")
	}
}

// incarnationIsKept: without its incarnation, a name would seem new to a member that has not seen the documents of
// the earlier nodes.
func incarnationIsKept(t *testing.T, h Harness) {
	s := newShard(t, h, "s")
	mustCommit(t, h.Store, txnOf(t, s.batch(t, named("a", 10))))
	mustCommit(t, h.Store, admit(t, viewOf(t, h.Store), "b", 20))
	if got := emptyKeys(viewOf(t, h.Store)); len(got) != 0 {
		t.Errorf("%q may be collected while the node before has a reservation, want nothing", got)
	}
	mustCommit(t, h.Store, replace(t, emptied(doc(t, h.Store, "a"), 99)))
	if got := emptyKeys(viewOf(t, h.Store)); !slices.Equal(got, []string{ledger.KeyNode("a")}) {
		t.Errorf("%q may be collected, want the node before alone", got)
	}
	mustCommit(t, h.Store, collect(t, viewOf(t, h.Store), ledger.KeyNode("a")))
	if got := emptyKeys(viewOf(t, h.Store)); !slices.Equal(got, []string{ledger.KeyNode("b")}) {
		t.Errorf("%q may be collected, want the last node of the name", got)
	}
}

func emptyKeys(v *replica.View) (keys []string) {
	for key := range txns.Collectable(v) {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
