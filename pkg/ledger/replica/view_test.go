package replica_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/pkg/ledger/identity"
	"github.com/berth-scheduler/berth/pkg/ledger/registry"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/ledger/roster"
	"github.com/berth-scheduler/berth/pkg/ledger/sampletest"
)

func TestViewLearnsAheadOfTheWatch(t *testing.T) {
	v := replica.NewView()
	sampletest.Apply(t, v, 10)
	mine := sampletest.KVOf(t, sampletest.At(sampletest.DocOf(sampletest.Reservation("p", ledger.Committed, 1)), 12))
	c, err := v.Learn([]ledger.KV{mine})
	if err != nil || !slices.Equal(c.PodUIDs, []string{"p"}) || v.Revision() != 10 {
		t.Fatalf("learned: %+v, %v at %d", c, err, v.Revision())
	}
	if c := sampletest.Apply(t, v, 12, ledger.Event{KV: sampletest.KVOf(t, sampletest.At(sampletest.DocOf(), 11))},
		ledger.Event{KV: mine}); len(c.Docs) != 0 {
		t.Errorf("what was learned came again as %+v", c)
	}
	if _, e, ok := v.Entry("p"); !ok || e.Token != 1 {
		t.Errorf("entry %+v, %v", e, ok)
	}
	gone := ledger.Event{KV: ledger.KV{Key: ledger.KeyNode("n1"), ModRevision: 13}, Deleted: true}
	if c := sampletest.Apply(t, v, 13, gone); len(c.Docs) != 1 || c.Docs[0].After.NodeUID != "" {
		t.Errorf("deletion: %+v", c)
	}
	if c, err := v.Learn([]ledger.KV{mine}); err != nil || len(c.Docs) != 0 {
		t.Errorf("an old answer brought a deleted document back: %+v, %v", c, err)
	}
	if _, _, ok := v.Entry("p"); ok {
		t.Error("the entry outlived its document")
	}
}

func TestViewKeepsBothReservationsOfAPod(t *testing.T) {
	v := replica.NewView()
	held, committed := sampletest.DocOf(sampletest.Reservation("p", ledger.Held, 1)),
		sampletest.DocOf(sampletest.Reservation("p", ledger.Committed, 2))
	held.NodeUID = "n0"
	sampletest.Apply(t, v, 2, ledger.Event{KV: sampletest.KVOf(t, sampletest.At(held, 1))},
		ledger.Event{KV: sampletest.KVOf(t, sampletest.At(committed, 2))})
	if d, _, _ := v.Entry("p"); d.NodeUID != "n1" {
		t.Errorf("entry on %s, want the committed one on n1", d.NodeUID)
	}
	c := sampletest.Apply(t, v, 3, ledger.Event{KV: sampletest.KVOf(t, sampletest.At(sampletest.DocOf(), 3))})
	if d, _, ok := v.Entry("p"); !ok || d.NodeUID != "n0" || !slices.Equal(c.PodUIDs, []string{"p"}) {
		t.Errorf("after the committed one went: %s, %v, changes %+v", d.NodeUID, ok, c)
	}
	sampletest.Apply(t, v, 4, ledger.Event{KV: ledger.KV{Key: ledger.KeyNode("n0"), ModRevision: 4}, Deleted: true})
	if n := len(slices.Collect(v.Reserved())); n != 0 {
		t.Errorf("%d pods reserved in an empty ledger", n)
	}
}

func TestViewNamesOwnersAndMembers(t *testing.T) {
	v := replica.NewView()
	owner, err := roster.EncodeOwner(roster.Owner{Member: "s1"})
	if err != nil {
		t.Fatal(err)
	}
	member, err := roster.EncodeMember(roster.Member{ID: "s1", Role: "scheduler"})
	if err != nil {
		t.Fatal(err)
	}
	stored, err := registry.EncodeRegistry(registry.Registry{PodRV: 5})
	if err != nil {
		t.Fatal(err)
	}
	own := ledger.KV{Key: roster.KeyOwn(9), Value: owner, CreateRevision: 5, ModRevision: 5}
	c := sampletest.Apply(t, v, 6, ledger.Event{KV: own},
		ledger.Event{KV: ledger.KV{Key: roster.KeyMember("scheduler", "s1"), Value: member, CreateRevision: 6,
			ModRevision: 6}},
		ledger.Event{KV: ledger.KV{Key: registry.KeyTermRegistry, Value: stored, CreateRevision: 6, ModRevision: 6}},
		ledger.Event{KV: ledger.KV{Key: "map", Value: []byte("whatever"), ModRevision: 6}})
	if !slices.Equal(c.Partitions, []int32{9}) || !c.Members || !c.Registry || v.Terms().RegistryRevision() != 6 {
		t.Errorf("changes %+v, registry %d", c, v.Terms().RegistryRevision())
	}
	if o, epoch, ok := v.Roster().Owner(9); !ok || o.Member != "s1" || epoch != 5 {
		t.Errorf("owner %+v of epoch %d, %v", o, epoch, ok)
	}
	if m := v.Roster().Members("scheduler"); len(m) != 1 || len(v.Roster().Members("binder")) != 0 {
		t.Errorf("members %+v", m)
	}
	own.ModRevision = 7
	if moved := sampletest.Apply(t, v, 7, ledger.Event{KV: own}); len(moved.Partitions) != 0 {
		t.Errorf("a heartbeat of the owner changed %+v", moved)
	}
	own.CreateRevision, own.ModRevision = 9, 9
	c = sampletest.Apply(t, v, 9, ledger.Event{KV: ledger.KV{Key: own.Key, ModRevision: 8}, Deleted: true},
		ledger.Event{KV: own},
		ledger.Event{KV: ledger.KV{Key: roster.KeyMember("scheduler", "s1"), ModRevision: 9}, Deleted: true})
	if _, epoch, _ := v.Roster().Owner(9); epoch != 9 || !slices.Equal(c.Partitions, []int32{9}) || !c.Members {
		t.Errorf("owned anew: epoch %d, changes %+v", epoch, c)
	}
}

func TestViewStopsAtWhatItCannotRead(t *testing.T) {
	for _, key := range []string{
		"n/x", roster.KeyOwn(1), "own/999", roster.KeyWant(1), "want/999", "member/scheduler/x", identity.KeyCluster,
		registry.KeyTermRegistry, "t/x", "g/x",
	} {
		bad := ledger.KV{Key: key, Value: []byte{0xff}, ModRevision: 2}
		v := replica.NewView()
		_, err := v.Apply(ledger.EventBatch{Revision: 2, Events: []ledger.Event{{KV: bad}}})
		if err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: error %v, want one that names the key", key, err)
		}
		if v.Revision() != 0 {
			t.Errorf("%s: the view claims revision %d", key, v.Revision())
		}
		if err := v.Reset([]ledger.KV{sampletest.KVOf(t, sampletest.At(sampletest.DocOf(), 1)), bad}, 2); err == nil ||
			v.Revision() != 0 {
			t.Errorf("%s: reset: %v at %d", key, err, v.Revision())
		}
		if _, err := v.Learn([]ledger.KV{bad}); err == nil && !strings.HasPrefix(key, registry.PrefixTerm) &&
			!strings.HasPrefix(key, registry.PrefixGuard) && !strings.HasPrefix(key, roster.PrefixOwn) {
			t.Errorf("%s: learned", key)
		}
	}
}

// An owner learned ahead of the watch would be one without the documents of its epoch.
func TestOwnersAreNotLearned(t *testing.T) {
	owner, err := roster.EncodeOwner(roster.Owner{Member: "s1"})
	if err != nil {
		t.Fatal(err)
	}
	v := replica.NewView()
	c, err := v.Learn([]ledger.KV{{Key: roster.KeyOwn(9), Value: owner, CreateRevision: 5, ModRevision: 5}})
	if _, _, owned := v.Roster().Owner(9); err != nil || owned || len(c.Partitions) > 0 {
		t.Errorf("owned %t, changes %+v, error %v: want nothing before the watch has come so far", owned, c, err)
	}
}

// list folds in the result of a list that was read at revision.
func list(t *testing.T, v *replica.View, revision int64, kvs ...ledger.KV) {
	t.Helper()
	if _, err := v.Fold(replica.Batch{Reset: true, Store: 1, KVs: kvs,
		Events: ledger.EventBatch{Revision: revision}}); err != nil {
		t.Fatalf("list at revision %d: %v", revision, err)
	}
}

// After a compaction the list is read at 8; a transaction of this member is carried out at 9, and its answer
// arrives first.
func TestListBehindAnOwnTransactionKeepsWhatThatHasPut(t *testing.T) {
	v := replica.NewView()
	list(t, v, 5, sampletest.KVOf(t, sampletest.At(sampletest.DocOf(), 3)))
	if _, err := v.LearnPut([]ledger.KV{sampletest.KVOf(t, sampletest.At(
		sampletest.DocOf(sampletest.Reservation("p", ledger.Committed, 1)), 9))}); err != nil {
		t.Fatal(err)
	}
	list(t, v, 8, sampletest.KVOf(t, sampletest.At(sampletest.DocOf(), 3)))
	if _, e, ok := v.Entry("p"); !ok || e.Token != 1 || v.Revision() != 8 {
		t.Errorf("entry %+v, %v at revision %d: want that of the own transaction", e, ok, v.Revision())
	}
	if c := sampletest.Apply(t, v, 10, ledger.Event{KV: ledger.KV{Key: ledger.KeyNode("n1"), ModRevision: 10},
		Deleted: true}); len(c.Docs) != 1 {
		t.Errorf("a deletion after that: %+v", c)
	}
	if _, _, ok := v.Entry("p"); ok {
		t.Error("the entry outlived its document")
	}
}

// A key that a list of a later revision lacks was deleted, whatever has been learned of it before.
func TestListPassesWhatWasLearnedBefore(t *testing.T) {
	v := replica.NewView()
	list(t, v, 5)
	if _, err := v.Learn([]ledger.KV{sampletest.KVOf(t, sampletest.At(
		sampletest.DocOf(sampletest.Reservation("p", ledger.Committed, 1)), 7))}); err != nil {
		t.Fatal(err)
	}
	list(t, v, 8)
	if _, _, ok := v.Entry("p"); ok || v.Names().AheadOfWatch() {
		t.Errorf("entry %t, ahead of the watch %t: the list at 8 has no document of revision 7", ok, v.Names().AheadOfWatch())
	}
}

// A document that only a lost compare has shown does not become one shown by the watch through a list.
func TestListKeepsWhatIsAheadOfTheWatch(t *testing.T) {
	v := replica.NewView()
	list(t, v, 5)
	created := sampletest.KVOf(t, sampletest.At(sampletest.DocOf(), 9))
	created.CreateRevision = 9
	if _, err := v.Learn([]ledger.KV{created}); err != nil {
		t.Fatal(err)
	}
	list(t, v, 8)
	if _, known := v.Doc("n1"); !known || !v.Names().AheadOfWatch() {
		t.Errorf("known %t, ahead of the watch %t: want both until the watch has got to 9", known, v.Names().AheadOfWatch())
	}
	sampletest.Apply(t, v, 9, ledger.Event{KV: created})
	if v.Names().AheadOfWatch() {
		t.Error("ahead of a watch that has got there")
	}
}

// This applies not only to documents of nodes, but also to guards, claims and incarnations.
func TestListKeepsEveryKindThatIsLearned(t *testing.T) {
	budget, err := codec.EncodeBudget(ledger.BudgetDoc{UID: "b", Namespace: "ns", Name: "b"})
	if err != nil {
		t.Fatal(err)
	}
	incarnation, err := codec.EncodeIncarnation(ledger.Incarnation{NodeName: "n", NodeUID: "n1", NodeRV: 1})
	if err != nil {
		t.Fatal(err)
	}
	v := replica.NewView()
	list(t, v, 5)
	guard := registry.KeyGuard(registry.TermID("t"), "zone", registry.Carriers)
	txn := ledger.Txn{
		Compares: []ledger.Compare{{Key: guard, Target: ledger.ModRevision}},
		Puts: []ledger.Put{{Key: guard}, {Key: ledger.KeyBudget("b"), Value: budget},
			{Key: ledger.KeyIncarnation("n"), Value: incarnation}},
	}
	if _, err := v.LearnOwn(txn, ledger.TxnResult{Succeeded: true, Revision: 9}); err != nil {
		t.Fatal(err)
	}
	list(t, v, 8)
	if revision, ok := v.Terms().Guard(guard); revision != 9 || !ok {
		t.Errorf("guard at %d, %t: want 9, counted", revision, ok)
	}
	if b := v.Budgets().Of("b"); b.Revision != 9 {
		t.Errorf("budget %+v: want that of revision 9", b)
	}
	if i := v.Names().Incarnation("n"); i.Revision != 9 || i.NodeUID != "n1" {
		t.Errorf("incarnation %+v: want that of revision 9", i)
	}
	list(t, v, 9)
	if revision, _ := v.Terms().Guard(guard); revision != 0 || v.Budgets().Of("b").Revision != 0 ||
		v.Names().Incarnation("n").Revision != 0 {
		t.Error("what the list at 9 lacks is still there")
	}
}

// A ledger that went back leaves nothing of the previous content: the learned values belonged to another ledger.
func TestListOfALedgerThatWentBackKeepsNothing(t *testing.T) {
	v := replica.NewView()
	list(t, v, 5)
	if _, err := v.LearnPut([]ledger.KV{sampletest.KVOf(t, sampletest.At(sampletest.DocOf(), 9))}); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Fold(replica.Batch{Reset: true, Restart: true, Store: 2,
		Events: ledger.EventBatch{Revision: 3}}); err != nil {
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
		replaced           bool
	}{
		{name: "a list from before the transaction", learned: 9, at: 8, shows: 3},
		{name: "a list from after it", learned: 9, at: 10, shows: 9},
		{name: "another change since", learned: 9, at: 10, shows: 10},
		{name: "a change before it that the watch has yet to show", learned: 9, at: 8, shows: 7},
		{name: "a later list without the transaction", learned: 9, at: 10, shows: 3, replaced: true},
		{name: "a later list without the picture's value", at: 10, shows: 2, replaced: true},
		{name: "a later list with a value that the picture should have", at: 10, shows: 4, replaced: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := replica.NewView()
			list(t, v, 5, sampletest.KVOf(t, sampletest.At(sampletest.DocOf(), 3)))
			if tc.learned > 0 {
				if _, err := v.LearnPut([]ledger.KV{sampletest.KVOf(t, sampletest.At(sampletest.DocOf(),
					tc.learned))}); err != nil {
					t.Fatal(err)
				}
			}
			_, err := v.Fold(replica.Batch{
				Reset: true, Store: 1, KVs: []ledger.KV{sampletest.KVOf(t, sampletest.At(sampletest.DocOf(), tc.shows))},
				Events: ledger.EventBatch{Revision: tc.at},
			})
			var replaced *ledger.StoreReplacedError
			if errors.As(err, &replaced) != tc.replaced {
				t.Errorf("%v, want that the store went back: %t", err, tc.replaced)
			}
		})
	}
}
