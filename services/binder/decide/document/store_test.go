package document

import (
	"testing"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/services/binder/decide/basis"
)

// A document that a transaction has shown before the watch is kept until the ledger view has it, and outlives a
// deletion or a list of before.
func TestDocumentAheadOfTheWatch(t *testing.T) {
	base := basis.New("binder-0", basis.DefaultLimits(), nil)
	s := NewStore(base)
	shown := ledger.NodeDoc{NodeUID: "n", NodeName: "n", Revision: 5}
	if !s.Learn(shown) || s.Learn(shown) || s.Learn(ledger.NodeDoc{NodeUID: "n", Revision: 4}) {
		t.Fatal("learned other than once")
	}
	if d, ok := s.Get("n"); !ok || d.Revision != 5 {
		t.Fatalf("document %+v, want the one that was shown", d)
	}
	if s.Forget("n", 4) {
		t.Fatal("dropped by a deletion of before")
	}
	value, err := codec.EncodeNodeDoc(shown)
	if err != nil {
		t.Fatal(err)
	}
	kv := ledger.KV{Key: ledger.KeyNode("n"), Value: value, ModRevision: 5}
	if _, err := base.Ledger.Apply(ledger.EventBatch{Revision: 5, Events: []ledger.Event{{KV: kv}}}); err != nil {
		t.Fatal(err)
	}
	if s.Learn(shown) {
		t.Fatal("the watch has the same document, not a newer one")
	}
	if d, ok := s.Get("n"); !ok || d.Revision != 5 || s.docs["n"].ahead.Revision != 0 {
		t.Fatalf("document %+v, %+v ahead: want that of the view alone", d, s.docs["n"].ahead)
	}
	if !s.Forget("n", 6) {
		t.Fatal("kept in spite of a later deletion")
	}
	if _, ok := s.Get("n"); ok {
		t.Fatal("a dropped document is there")
	}
}
