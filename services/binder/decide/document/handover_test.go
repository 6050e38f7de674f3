package document

import (
	"fmt"
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/services/binder/decide/basis"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// large returns a document of about 50 KiB.
func large(t *testing.T, name string) ledger.NodeDoc {
	t.Helper()
	d, err := txns.Place(ledger.NodeDoc{NodeUID: name + "-uid", NodeName: name, Revision: 1}, ledger.Entry{
		PodUID: "pod-of-" + name, Role: ledger.RoleReservation, State: ledger.Committed, PodRV: 1, Token: 1,
		Volumes: []ledger.VolumePick{{Claim: strings.Repeat("c", 50<<10)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Documents that are handed over together fit into a transaction, however large they are; after a refusal fewer share
// one.
func TestHandOversOfLargeDocuments(t *testing.T) {
	s := NewSweeper(basis.New("binder-0", basis.DefaultLimits(), nil), nil, nil)
	send := func() (sizes []int) {
		s.Emitted()
		var together handOver
		for i := range 64 {
			d := large(t, fmt.Sprint("n", i))
			together.add(s, &document{nodeUID: d.NodeUID}, txns.Change{Docs: []ledger.NodeDoc{d}})
		}
		together.send(s)
		docs := 0
		for _, e := range s.Emitted() {
			amend, ok := e.(effect.Amend)
			if !ok || amend.Txn.Bytes() > ledger.MaxTxnBytes {
				t.Fatalf("effect %T of %d bytes", e, amend.Txn.Bytes())
			}
			sizes = append(sizes, len(amend.Txn.Puts))
			docs += len(amend.Txn.Puts)
		}
		if docs != 64 {
			t.Fatalf("%d of 64 documents are handed over: %v", docs, sizes)
		}
		return sizes
	}
	if sizes := send(); len(sizes) < 7 || sizes[0] < 5 {
		t.Errorf("transactions of %v documents", sizes)
	}
	for range 3 {
		(&handOver{}).answered(s, effect.Amended{Result: effect.TxnRefused})
	}
	if sizes := send(); sizes[0] != 2 {
		t.Errorf("after refusals transactions of %v documents, want 2", sizes)
	}
	for range 3 {
		(&handOver{}).answered(s, effect.Amended{Result: effect.Applied})
	}
	if sizes := send(); sizes[0] < 5 {
		t.Errorf("later transactions of %v documents", sizes)
	}
}
