package decide

import (
	"errors"

	"github.com/berth-scheduler/berth/pkg/ledger"
)

// workBytes is the largest size of the documents that one transaction changes together; a single document always
// fits.
const workBytes = ledger.MaxTxnBytes / 2

// atOnce is by how much batches of documents are reduced, because the store has refused larger transactions. The
// ledger's own limits stay below etcd's defaults, so a store with these refuses none.
type atOnce struct{ halved int }

// most returns how many documents may share a transaction now, where limit is the usual maximum.
func (a atOnce) most(limit int) int { return max(1, limit>>a.halved) }

// learn adjusts to the outcome of a transaction that changed several documents.
func (a *atOnce) learn(r TxnOutcome) {
	const enough = 8
	switch {
	case r == TxnRefused:
		a.halved = min(a.halved+1, enough)
	case r == Applied && a.halved > 0:
		a.halved--
	}
}

// isTooLarge reports whether a transaction has too many operations or bytes.
func isTooLarge(err error) bool {
	var txn *ledger.TxnError
	return errors.As(err, &txn) && txn.TooLarge
}
