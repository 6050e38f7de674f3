package ledger

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func kvOf(t *testing.T, d NodeDoc) KV {
	t.Helper()
	value, err := EncodeNodeDoc(d)
	if err != nil {
		t.Fatal(err)
	}
	return stored(d, value)
}

func at(d NodeDoc, revision int64) NodeDoc {
	d.Revision = revision
	return d
}

func apply(t *testing.T, v *View, revision int64, events ...Event) ViewChanges {
	t.Helper()
	c, err := v.Apply(EventBatch{Revision: revision, Events: events})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestViewLearnsAheadOfTheWatch(t *testing.T) {
	v := NewView()
	apply(t, v, 10)
	mine := kvOf(t, at(docOf(reservation("p", Committed, 1)), 12))
	c, err := v.Learn([]KV{mine})
	if err != nil || !slices.Equal(c.PodUIDs, []string{"p"}) || v.Revision() != 10 {
		t.Fatalf("learned: %+v, %v at %d", c, err, v.Revision())
	}
	if c := apply(t, v, 12, Event{KV: kvOf(t, at(docOf(), 11))}, Event{KV: mine}); len(c.Docs) != 0 {
		t.Errorf("what was learned came again as %+v", c)
	}
	if _, e, ok := v.Entry("p"); !ok || e.Token != 1 {
		t.Errorf("entry %+v, %v", e, ok)
	}
	gone := Event{KV: KV{Key: KeyNode("n1"), ModRevision: 13}, Deleted: true}
	if c := apply(t, v, 13, gone); len(c.Docs) != 1 || c.Docs[0].After.NodeUID != "" {
		t.Errorf("deletion: %+v", c)
	}
	if c, err := v.Learn([]KV{mine}); err != nil || len(c.Docs) != 0 {
		t.Errorf("an old answer brought a deleted document back: %+v, %v", c, err)
	}
	if _, _, ok := v.Entry("p"); ok {
		t.Error("the entry outlived its document")
	}
}

func TestViewKeepsBothReservationsOfAPod(t *testing.T) {
	v := NewView()
	held, committed := docOf(reservation("p", Held, 1)), docOf(reservation("p", Committed, 2))
	held.NodeUID = "n0"
	apply(t, v, 2, Event{KV: kvOf(t, at(held, 1))}, Event{KV: kvOf(t, at(committed, 2))})
	if d, _, _ := v.Entry("p"); d.NodeUID != "n1" {
		t.Errorf("entry on %s, want the committed one on n1", d.NodeUID)
	}
	c := apply(t, v, 3, Event{KV: kvOf(t, at(docOf(), 3))})
	if d, _, ok := v.Entry("p"); !ok || d.NodeUID != "n0" || !slices.Equal(c.PodUIDs, []string{"p"}) {
		t.Errorf("after the committed one went: %s, %v, changes %+v", d.NodeUID, ok, c)
	}
	apply(t, v, 4, Event{KV: KV{Key: KeyNode("n0"), ModRevision: 4}, Deleted: true})
	if n := len(slices.Collect(v.Reserved())); n != 0 {
		t.Errorf("%d pods reserved in an empty ledger", n)
	}
}

func TestViewTellsOwnersAndMembers(t *testing.T) {
	v := NewView()
	owner, err := EncodeOwner(Owner{Member: "s1"})
	if err != nil {
		t.Fatal(err)
	}
	member, err := EncodeMember(Member{ID: "s1", Role: "scheduler"})
	if err != nil {
		t.Fatal(err)
	}
	registry, err := EncodeRegistry(Registry{PodRV: 5})
	if err != nil {
		t.Fatal(err)
	}
	own := KV{Key: KeyOwn(9), Value: owner, CreateRevision: 5, ModRevision: 5}
	c := apply(t, v, 6, Event{KV: own},
		Event{KV: KV{Key: KeyMember("scheduler", "s1"), Value: member, CreateRevision: 6, ModRevision: 6}},
		Event{KV: KV{Key: KeyTermRegistry, Value: registry, CreateRevision: 6, ModRevision: 6}},
		Event{KV: KV{Key: "map", Value: []byte("whatever"), ModRevision: 6}})
	if !slices.Equal(c.Partitions, []int32{9}) || !c.Members || !c.Registry || v.TermRegistryRevision() != 6 {
		t.Errorf("changes %+v, registry %d", c, v.TermRegistryRevision())
	}
	if o, epoch, ok := v.Owner(9); !ok || o.Member != "s1" || epoch != 5 {
		t.Errorf("owner %+v of epoch %d, %v", o, epoch, ok)
	}
	if m := v.Members("scheduler"); len(m) != 1 || len(v.Members("binder")) != 0 {
		t.Errorf("members %+v", m)
	}
	own.ModRevision = 7
	if moved := apply(t, v, 7, Event{KV: own}); len(moved.Partitions) != 0 {
		t.Errorf("a heartbeat of the owner changed %+v", moved)
	}
	own.CreateRevision, own.ModRevision = 9, 9
	c = apply(t, v, 9, Event{KV: KV{Key: own.Key, ModRevision: 8}, Deleted: true}, Event{KV: own},
		Event{KV: KV{Key: KeyMember("scheduler", "s1"), ModRevision: 9}, Deleted: true})
	if _, epoch, _ := v.Owner(9); epoch != 9 || !slices.Equal(c.Partitions, []int32{9}) || !c.Members {
		t.Errorf("owned anew: epoch %d, changes %+v", epoch, c)
	}
}

func TestViewStopsAtWhatItCannotRead(t *testing.T) {
	for _, key := range []string{
		"n/x", KeyOwn(1), "own/999", KeyWant(1), "want/999", "member/scheduler/x", KeyCluster, KeyTermRegistry, "t/x", "g/x",
	} {
		bad := KV{Key: key, Value: []byte{0xff}, ModRevision: 2}
		v := NewView()
		_, err := v.Apply(EventBatch{Revision: 2, Events: []Event{{KV: bad}}})
		if err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: error %v, want one that names the key", key, err)
		}
		if v.Revision() != 0 {
			t.Errorf("%s: the view claims revision %d", key, v.Revision())
		}
		if err := v.Reset([]KV{kvOf(t, at(docOf(), 1)), bad}, 2); err == nil || v.Revision() != 0 {
			t.Errorf("%s: reset: %v at %d", key, err, v.Revision())
		}
		if _, err := v.Learn([]KV{bad}); err == nil && !ofTerms(key) && !strings.HasPrefix(key, PrefixOwn) {
			t.Errorf("%s: learned", key)
		}
	}
}

// An owner learned ahead of the watch would be one without the documents of its epoch.
func TestOwnersAreNotLearned(t *testing.T) {
	owner, err := EncodeOwner(Owner{Member: "s1"})
	if err != nil {
		t.Fatal(err)
	}
	v := NewView()
	c, err := v.Learn([]KV{{Key: KeyOwn(9), Value: owner, CreateRevision: 5, ModRevision: 5}})
	if _, _, owned := v.Owner(9); err != nil || owned || len(c.Partitions) > 0 {
		t.Errorf("owned %t, changes %+v, error %v: want nothing before the watch has come so far", owned, c, err)
	}
}

// list folds in the result of a list that was read at revision.
func list(t *testing.T, v *View, revision int64, kvs ...KV) {
	t.Helper()
	if _, err := v.Fold(ViewBatch{Reset: true, Store: 1, KVs: kvs, Events: EventBatch{Revision: revision}}); err != nil {
		t.Fatalf("list at revision %d: %v", revision, err)
	}
}

// After a compaction the list is read at 8; a transaction of this member is carried out at 9, and its answer
// arrives first.
func TestListBehindAnOwnTransactionKeepsWhatThatHasPut(t *testing.T) {
	v := NewView()
	list(t, v, 5, kvOf(t, at(docOf(), 3)))
	if _, err := v.LearnPut([]KV{kvOf(t, at(docOf(reservation("p", Committed, 1)), 9))}); err != nil {
		t.Fatal(err)
	}
	list(t, v, 8, kvOf(t, at(docOf(), 3)))
	if _, e, ok := v.Entry("p"); !ok || e.Token != 1 || v.Revision() != 8 {
		t.Errorf("entry %+v, %v at revision %d: want that of the own transaction", e, ok, v.Revision())
	}
	if c := apply(t, v, 10, Event{KV: KV{Key: KeyNode("n1"), ModRevision: 10}, Deleted: true}); len(c.Docs) != 1 {
		t.Errorf("a deletion after that: %+v", c)
	}
	if _, _, ok := v.Entry("p"); ok {
		t.Error("the entry outlived its document")
	}
}

// A key that a list of a later revision lacks was deleted, whatever has been learned of it before.
func TestListPassesWhatWasLearnedBefore(t *testing.T) {
	v := NewView()
	list(t, v, 5)
	if _, err := v.Learn([]KV{kvOf(t, at(docOf(reservation("p", Committed, 1)), 7))}); err != nil {
		t.Fatal(err)
	}
	list(t, v, 8)
	if _, _, ok := v.Entry("p"); ok || v.AheadOfWatch() {
		t.Errorf("entry %t, ahead of the watch %t: the list at 8 has no document of revision 7", ok, v.AheadOfWatch())
	}
}

// A document that only a lost compare has shown does not become one shown by the watch through a list.
func TestListKeepsWhatIsAheadOfTheWatch(t *testing.T) {
	v := NewView()
	list(t, v, 5)
	created := kvOf(t, at(docOf(), 9))
	created.CreateRevision = 9
	if _, err := v.Learn([]KV{created}); err != nil {
		t.Fatal(err)
	}
	list(t, v, 8)
	if _, known := v.Doc("n1"); !known || !v.AheadOfWatch() {
		t.Errorf("known %t, ahead of the watch %t: want both until the watch has got to 9", known, v.AheadOfWatch())
	}
	apply(t, v, 9, Event{KV: created})
	if v.AheadOfWatch() {
		t.Error("ahead of a watch that has got there")
	}
}

// This applies not only to documents of nodes, but also to guards, claims and incarnations.
func TestListKeepsEveryKindThatIsLearned(t *testing.T) {
	budget, err := EncodeBudget(BudgetDoc{UID: "b", Namespace: "ns", Name: "b"})
	if err != nil {
		t.Fatal(err)
	}
	incarnation, err := EncodeIncarnation(Incarnation{NodeName: "n", NodeUID: "n1", NodeRV: 1})
	if err != nil {
		t.Fatal(err)
	}
	v := NewView()
	list(t, v, 5)
	guard := KeyGuard(TermID("t"), "zone", Carriers)
	txn := Txn{
		Compares: []Compare{{Key: guard, Target: ModRevision}},
		Puts:     []Put{{Key: guard}, {Key: KeyBudget("b"), Value: budget}, {Key: KeyIncarnation("n"), Value: incarnation}},
	}
	if _, err := v.LearnOwn(txn, TxnResult{Succeeded: true, Revision: 9}); err != nil {
		t.Fatal(err)
	}
	list(t, v, 8)
	if revision, ok := v.Guard(guard); revision != 9 || !ok {
		t.Errorf("guard at %d, %t: want 9, counted", revision, ok)
	}
	if b := v.Budget("b"); b.Revision != 9 {
		t.Errorf("budget %+v: want that of revision 9", b)
	}
	if i := v.Incarnation("n"); i.Revision != 9 || i.NodeUID != "n1" {
		t.Errorf("incarnation %+v: want that of revision 9", i)
	}
	list(t, v, 9)
	if revision, _ := v.Guard(guard); revision != 0 || v.Budget("b").Revision != 0 || v.Incarnation("n").Revision != 0 {
		t.Error("what the list at 9 lacks is still there")
	}
}

// A ledger that went back leaves nothing of the previous content: the learned values belonged to another ledger.
func TestListOfALedgerThatWentBackKeepsNothing(t *testing.T) {
	v := NewView()
	list(t, v, 5)
	if _, err := v.LearnPut([]KV{kvOf(t, at(docOf(), 9))}); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Fold(ViewBatch{Reset: true, Anew: true, Store: 2, Events: EventBatch{Revision: 3}}); err != nil {
		t.Fatal(err)
	}
	if _, known := v.Doc("n1"); known {
		t.Error("a document of the ledger before is still there")
	}
}

// A value that the member's own transaction has put is compared with a list later than it, and only with that.
func TestListIsComparedWithWhatWasLearned(t *testing.T) {
	for _, tc := range []struct {
		name               string
		learned, at, shows int64
		anew               bool
	}{
		{name: "a list from before the transaction", learned: 9, at: 8, shows: 3},
		{name: "a list from after it", learned: 9, at: 10, shows: 9},
		{name: "another change since", learned: 9, at: 10, shows: 10},
		{name: "a change before it that the watch has yet to show", learned: 9, at: 8, shows: 7},
		{name: "a later list without the transaction", learned: 9, at: 10, shows: 3, anew: true},
		{name: "a later list without the picture's value", at: 10, shows: 2, anew: true},
		{name: "a later list with a value that the picture should have", at: 10, shows: 4, anew: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := NewView()
			list(t, v, 5, kvOf(t, at(docOf(), 3)))
			if tc.learned > 0 {
				if _, err := v.LearnPut([]KV{kvOf(t, at(docOf(), tc.learned))}); err != nil {
					t.Fatal(err)
				}
			}
			_, err := v.Fold(ViewBatch{
				Reset: true, Store: 1, KVs: []KV{kvOf(t, at(docOf(), tc.shows))}, Events: EventBatch{Revision: tc.at},
			})
			var anew *AnewError
			if errors.As(err, &anew) != tc.anew {
				t.Errorf("%v, want that the store went back: %t", err, tc.anew)
			}
		})
	}
}
