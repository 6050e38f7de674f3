package replica_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/pkg/ledger/identity"
	"github.com/berth-scheduler/berth/pkg/ledger/mem"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/ledger/roster"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
)

// newLedger returns a ledger with a document, a term and a member, and a view of it.
func newLedger(t *testing.T) (*mem.Store, *replica.View) {
	t.Helper()
	store := mem.New()
	doc := ledger.NodeDoc{NodeUID: "u", NodeName: "n", HW: map[string]uint64{ledger.KindPod: 900}}
	txn, err := txns.Replace(doc)
	if err != nil {
		t.Fatal(err)
	}
	carryOut(t, store, txn)
	member, err := roster.EncodeMember(roster.Member{ID: "s", Role: "scheduler"})
	if err != nil {
		t.Fatal(err)
	}
	carryOut(t, store, ledger.Txn{Puts: []ledger.Put{{Key: roster.KeyMember("scheduler", "s"), Value: member}}})
	return store, viewOf(t, store)
}

func carryOut(t *testing.T, store ledger.Store, txn ledger.Txn) {
	t.Helper()
	if r, err := store.Commit(t.Context(), txn); err != nil || !r.Succeeded {
		t.Fatalf("%+v: %v", r, err)
	}
}

func listing(t *testing.T, store ledger.Store) replica.Batch {
	t.Helper()
	kvs, revision, err := store.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	id, err := store.ID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return replica.Batch{Reset: true, KVs: kvs, Store: id, Events: ledger.EventBatch{Revision: revision}}
}

func viewOf(t *testing.T, store ledger.Store) *replica.View {
	t.Helper()
	v := replica.NewView()
	if _, err := v.Fold(listing(t, store)); err != nil {
		t.Fatal(err)
	}
	return v
}

// A generation from its beginning to its end: promises are deleted, live members stay, and the floor is how far
// Kubernetes has come.
func TestNextGenerationBegins(t *testing.T) {
	store, v := newLedger(t)
	if !v.IsOpen() || v.HighWater(ledger.KindPod) != 900 {
		t.Errorf("a ledger without generations: open %t, high-water %d", v.IsOpen(), v.HighWater(ledger.KindPod))
	}
	id, err := store.ID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	next, txn, err := v.Generation().Next(id, "restored", v.Floor(), 0)
	if err != nil {
		t.Fatal(err)
	}
	carryOut(t, store, txn)
	v = viewOf(t, store)
	next.Revision = v.Generation().Revision
	if diff := cmp.Diff(next, v.Generation()); diff != "" || v.IsOpen() || next.Number != 1 {
		t.Errorf("the next generation is open %t (-want +got):\n%s", v.IsOpen(), diff)
	}
	for keys := identity.Promises(listing(t, store).KVs); len(keys) > 0; {
		txn, keys = next.Clear(keys)
		carryOut(t, store, txn)
	}
	late, err := txns.Replace(ledger.NodeDoc{NodeUID: "late", NodeName: "late"}) // as it was before
	if err != nil {
		t.Fatal(err)
	}
	if r, err := store.Commit(t.Context(), late); err != nil || r.Succeeded {
		t.Errorf("a document was created on what was known before (%v)", err)
	}
	if txn, err = next.OpenAt(map[string]uint64{ledger.KindPod: 120}, v.Floor()); err != nil {
		t.Fatal(err)
	}
	carryOut(t, store, txn)
	v = viewOf(t, store)
	if d := v.Open("u", "n", 5); !v.IsOpen() || d.HW[ledger.KindPod] != 120 || v.HighWater(ledger.KindPod) != 120 {
		t.Errorf("open %t, a first document starts at %v, the highest high-water is %d",
			v.IsOpen(), d.HW, v.HighWater(ledger.KindPod))
	}
	if len(v.Roster().Members("scheduler")) != 1 {
		t.Error("the member is gone")
	}
}

// The steps of beginning one generation do not mix with those of another.
func TestGenerationsAreBegunOneByOne(t *testing.T) {
	store, v := newLedger(t)
	one, first, err := v.Generation().Next(1, "one", v.Floor(), 0)
	if err != nil {
		t.Fatal(err)
	}
	_, second, err := v.Generation().Next(1, "two", v.Floor(), 0)
	if err != nil {
		t.Fatal(err)
	}
	carryOut(t, store, first)
	if r, err := store.Commit(t.Context(), second); err != nil || r.Succeeded {
		t.Fatalf("two generations were begun at once (%v)", err)
	}
	one.Revision = viewOf(t, store).Generation().Revision
	uncertain, err := one.Doubt("again")
	if err != nil {
		t.Fatal(err)
	}
	carryOut(t, store, uncertain)
	open, err := one.OpenAt(nil, ledger.Floor{})
	if err != nil {
		t.Fatal(err)
	}
	clearing, _ := one.Clear([]string{ledger.KeyNode("u")})
	for what, txn := range map[string]ledger.Txn{"opened": open, "cleared": clearing} {
		if r, err := store.Commit(t.Context(), txn); err != nil || r.Succeeded {
			t.Errorf("a generation was %s that had been doubted since (%v)", what, err)
		}
	}
}

// High-waters of an ended generation make no member wait for resourceVersions that do not exist yet.
func TestHighWatersGoWithTheirGeneration(t *testing.T) {
	store, _ := newLedger(t)
	floor, err := codec.EncodeFloor(ledger.Floor{HW: map[string]uint64{ledger.KindPod: 900}})
	if err != nil {
		t.Fatal(err)
	}
	carryOut(t, store, ledger.Txn{Puts: []ledger.Put{{Key: ledger.KeyFloor, Value: floor}}})
	v := viewOf(t, store)
	next, txn, err := v.Generation().Next(1, "Kubernetes went back", v.Floor(), 0)
	if err != nil {
		t.Fatal(err)
	}
	watch := store.Watch(t.Context(), "", v.Revision()+1)
	carryOut(t, store, txn)
	next.Revision = viewOf(t, store).Generation().Revision
	clearing, _ := next.Clear([]string{ledger.KeyNode("u"), ledger.KeyIncarnation("n")})
	carryOut(t, store, clearing)
	open, err := next.OpenAt(map[string]uint64{ledger.KindPod: 7}, viewOf(t, store).Floor())
	if err != nil {
		t.Fatal(err)
	}
	carryOut(t, store, open)
	for !v.IsOpen() || v.Generation().Number == 0 {
		if _, err := v.Fold(replica.Batch{Events: <-watch.Batches()}); err != nil {
			t.Fatal(err)
		}
	}
	if got := v.HighWater(ledger.KindPod); got != 7 {
		t.Errorf("high-water %d, want that of the new floor, 7", got)
	}
}

// A reservation proves that Kubernetes had reached the version it was decided on, even if no fact and no high-water
// is left to show it. That is not a high-water: a member that uses the document need not have applied it. It ends
// with its generation.
func TestReservationsProveHowFarKubernetesWas(t *testing.T) {
	store, _ := newLedger(t)
	doc, err := txns.Place(ledger.NodeDoc{NodeUID: "v", NodeName: "m"}, ledger.Entry{
		PodUID: "p", Role: ledger.RoleReservation, State: ledger.Committed, PodRV: 2088, Token: 1,
		Devices: []ledger.DevicePick{{Claim: "c", ClaimUID: "c-uid", ClaimRV: 2090}},
	})
	if err != nil {
		t.Fatal(err)
	}
	txn, err := txns.Replace(doc)
	if err != nil {
		t.Fatal(err)
	}
	carryOut(t, store, txn)
	v := viewOf(t, store)
	if pods, claims := v.Reached(ledger.KindPod), v.Reached(ledger.KindClaim); pods != 2088 || claims != 2090 {
		t.Errorf("reached %d and %d, want what the reservation was decided on", pods, claims)
	}
	if hw := v.HighWater(ledger.KindPod); hw != 900 {
		t.Errorf("high-water %d, want that of the other document", hw)
	}
	first, err := identity.FirstGeneration(1)
	if err != nil {
		t.Fatal(err)
	}
	watch := store.Watch(t.Context(), "", v.Revision()+1)
	carryOut(t, store, ledger.Txn{Deletes: []string{ledger.KeyNode("u"), ledger.KeyNode("v")}})
	carryOut(t, store, first)
	for v.Generation().Revision == 0 {
		if _, err := v.Fold(replica.Batch{Events: <-watch.Batches()}); err != nil {
			t.Fatal(err)
		}
	}
	if pods, claims := v.Reached(ledger.KindPod), v.Reached(ledger.KindClaim); pods != 0 || claims != 0 {
		t.Errorf("reached %d and %d in another generation, want nothing", pods, claims)
	}
}

// Fold reports another generation when a listing replaces the events that began it. A first listing reports none.
func TestListingReportsAnotherGeneration(t *testing.T) {
	store, v := newLedger(t)
	if changes, err := v.Fold(listing(t, store)); err != nil || changes.Generation {
		t.Errorf("the same generation: %t, %v", changes.Generation, err)
	}
	_, txn, err := v.Generation().Next(1, "again", v.Floor(), 7)
	if err != nil {
		t.Fatal(err)
	}
	carryOut(t, store, txn)
	if changes, err := v.Fold(listing(t, store)); err != nil || !changes.Generation {
		t.Errorf("another generation: %t, %v", changes.Generation, err)
	}
	if changes, err := replica.NewView().Fold(listing(t, store)); err != nil || changes.Generation {
		t.Errorf("the first listing: %t, %v", changes.Generation, err)
	}
}

// A listing that cannot follow on the content of a view is detected, however the store went back.
func TestListingOfAnotherTime(t *testing.T) {
	store, v := newLedger(t)
	backup := store.Backup()
	doc, _ := v.Doc("u")
	txn, err := txns.Replace(doc.Cover(ledger.KindPod, 950))
	if err != nil {
		t.Fatal(err)
	}
	carryOut(t, store, txn)
	if _, err := v.Fold(listing(t, store)); err != nil {
		t.Fatalf("a listing after a compaction: %v", err)
	}
	restored := store.Restore(backup, false)
	var went *ledger.StoreReplacedError
	if _, _, err := store.List(t.Context(), ""); !errors.As(err, &went) {
		t.Errorf("the store of before: %v, want *ledger.StoreReplacedError", err)
	}
	fold := func(what string, b replica.Batch) {
		t.Helper()
		c := v.Clone()
		if _, err := c.Fold(b); !errors.As(err, &went) {
			t.Errorf("%s: %v, want *ledger.StoreReplacedError", what, err)
		}
	}
	fold("a lower revision", listing(t, restored))
	grown := listing(t, restored)
	grown.Events.Revision += 1000 // as etcdutl does with --bump-revision
	fold("a value of before", grown)
	fold("another store", listing(t, restored.Restore(backup, true)))
}

// Facts from before a restore of Kubernetes permit nothing, in the generation that begins then and in later ones.
func TestFactsOfBeforeARestoreAreNotActedOn(t *testing.T) {
	store, v := newLedger(t)
	if !v.Permits(0) || !v.Permits(7) {
		t.Error("a ledger without generations asks for facts of an epoch")
	}
	id, err := store.ID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, factsAfter := range []uint64{7, 0} {
		next, txn, err := v.Generation().Next(id, "again", v.Floor(), factsAfter)
		if err != nil {
			t.Fatal(err)
		}
		carryOut(t, store, txn)
		v = viewOf(t, store)
		if v.Permits(8) {
			t.Errorf("generation %d is closed, and permits facts of epoch 8", i)
		}
		next.Revision = v.Generation().Revision
		if txn, err = next.OpenAt(nil, v.Floor()); err != nil {
			t.Fatal(err)
		}
		carryOut(t, store, txn)
		v = viewOf(t, store)
		if v.Permits(6) || v.Permits(7) || !v.Permits(8) {
			t.Errorf("facts after epoch 7: permits 6: %t, 7: %t, 8: %t", v.Permits(6), v.Permits(7), v.Permits(8))
		}
	}
}
