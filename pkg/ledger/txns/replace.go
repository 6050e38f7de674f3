package txns

import (
	"fmt"
	"slices"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
)

// compareFloor compares the floor for documents that do not exist. All of them must have been read under one floor;
// otherwise it returns a *RefusedError.
func compareFloor(t *ledger.Txn, revision, floor int64) error {
	if revision != 0 {
		return nil
	}
	for _, c := range t.Compares {
		if c.Key != ledger.KeyFloor {
			continue
		}
		if c.Revision != floor {
			return &RefusedError{Step: "compare of the floor", Reason: fmt.Sprintf(
				"documents that do not exist were read under its revisions %d and %d", c.Revision, floor)}
		}
		return nil
	}
	t.Compares = append(t.Compares, ledger.Compare{Key: ledger.KeyFloor, Target: ledger.ModRevision, Revision: floor})
	return nil
}

// Replace builds the transaction of T5, T6, T7 and MarkWanted: each document replaces the one that was read at its
// Revision, or none does.
//
// Compares: n/<uid>.ModRevision of each document; for those that do not exist also incarnation/<name> and floor.
// Puts: each document, and the incarnations of those that did not exist. A crash before it leaves everything as it
// was, a crash after it leaves the new documents. If it fails, Refreshed returns the documents that lost.
func Replace(docs ...ledger.NodeDoc) (ledger.Txn, error) {
	var t ledger.Txn
	if err := replaceDocs(&t, docs, nil); err != nil {
		return ledger.Txn{}, err
	}
	return t, t.Validate()
}

// replaceDocs puts documents. A node's first document makes the node the incarnation of its name, unless the
// transaction already admits the node.
func replaceDocs(t *ledger.Txn, docs []ledger.NodeDoc, admitted []ledger.Incarnation) error {
	for _, d := range docs {
		value, err := codec.EncodeNodeDoc(d)
		if err != nil {
			return err
		}
		key := ledger.KeyNode(d.NodeUID)
		t.Compares = append(t.Compares, ledger.Compare{Key: key, Target: ledger.ModRevision, Revision: d.Revision})
		built := &ledger.StoredDoc{Doc: d, Value: value}
		t.Puts = append(t.Puts, ledger.Put{Key: key, Value: value, Doc: built})
		admits := slices.ContainsFunc(admitted, func(i ledger.Incarnation) bool { return i.NodeUID == d.NodeUID })
		if d.Revision != 0 && !admits {
			continue
		}
		if err := compareFloor(t, 0, d.Floor); err != nil {
			return err
		}
		if admits {
			continue
		}
		first := ledger.Incarnation{NodeName: d.NodeName, NodeUID: d.NodeUID, NodeRV: d.HW[ledger.KindNode]}
		if err := replaceAll(t, []ledger.Incarnation{first}, codec.EncodeIncarnation); err != nil {
			return err
		}
	}
	return nil
}

// Refreshed returns the documents of a failed transaction whose keys are no longer at the Revision they were read
// at, as they are now. A document that does not exist (any more) comes back without entries, at Revision 0.
func Refreshed(docs []ledger.NodeDoc, r ledger.TxnResult) ([]ledger.NodeDoc, error) {
	if r.Succeeded {
		return nil, nil
	}
	return refreshed(docs, codec.DecodeNodeDoc, r)
}
