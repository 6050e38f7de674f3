package replica_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/ledger/sampletest"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
)

// A document that the member's own transaction has put enters the view as it was built, without being decoded. When
// the watch delivers the same revision, nothing has changed.
func TestOwnDocumentsAreNotDecoded(t *testing.T) {
	v := replica.NewView()
	first := sampletest.DocOf(sampletest.Reservation("p1", ledger.Committed, 1))
	sampletest.Apply(t, v, 7, ledger.Event{KV: sampletest.KVOf(t, first)})
	before, _ := v.Doc("n1")
	built, err := txns.Place(before, sampletest.Reservation("p2", ledger.Committed, 2))
	if err != nil {
		t.Fatal(err)
	}
	txn, err := txns.Replace(built)
	if err != nil {
		t.Fatal(err)
	}
	result := ledger.TxnResult{Succeeded: true, Revision: 8}
	changes, err := v.LearnOwn(txn, result)
	if err != nil {
		t.Fatal(err)
	}
	learned, _ := v.Doc("n1")
	if &learned.Entries[0] != &built.Entries[0] {
		t.Error("the document was decoded")
	}
	if learned.Revision != 8 || !cmp.Equal(changes.PodUIDs, []string{"p2"}) {
		t.Errorf("revision %d, pods %v; want 8 and p2 alone", learned.Revision, changes.PodUIDs)
	}
	kvs := txn.Committed(result)
	kvs[0].Doc = nil // a store returns none
	changes = sampletest.Apply(t, v, 8, ledger.Event{KV: kvs[0]})
	if diff := cmp.Diff(replica.Changes{Docs: []replica.DocChange{}}, changes); diff != "" {
		t.Errorf("the watch has changed what was learned:\n%s", diff)
	}
	// The next revision, by another member, is decoded by difference from the one that was built.
	next := sampletest.At(withThird(t, learned), 9)
	changes = sampletest.Apply(t, v, 9, ledger.Event{KV: sampletest.KVOf(t, next)})
	if !cmp.Equal(changes.PodUIDs, []string{"p3"}) || len(changes.Docs[0].Removed) != 0 {
		t.Errorf("pods %v, %d entries removed; want p3 alone", changes.PodUIDs, len(changes.Docs[0].Removed))
	}
}

// withThird adds a third reservation to a document.
func withThird(t *testing.T, d ledger.NodeDoc) ledger.NodeDoc {
	t.Helper()
	d, err := txns.Place(d, sampletest.Reservation("p3", ledger.Committed, 3))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// A transaction whose value was changed on its way to the store is learned as it was stored.
func TestOwnDocumentOfAnotherValueIsDecoded(t *testing.T) {
	v := replica.NewView()
	txn, err := txns.Replace(sampletest.DocOf(sampletest.Reservation("p1", ledger.Committed, 1)))
	if err != nil {
		t.Fatal(err)
	}
	if txn.Puts[0].Value, err = codec.EncodeNodeDoc(sampletest.DocOf()); err != nil {
		t.Fatal(err)
	}
	if _, err := v.LearnOwn(txn, ledger.TxnResult{Succeeded: true, Revision: 8}); err != nil {
		t.Fatal(err)
	}
	if d, _ := v.Doc("n1"); len(d.Entries) != 0 {
		t.Errorf("%d entries, want those of the value, none", len(d.Entries))
	}
}
