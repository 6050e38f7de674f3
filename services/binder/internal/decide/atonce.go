package decide

import (
	"errors"

	"github.com/berth-scheduler/berth/pkg/ledger"
)

// workBytes is how many bytes of documents one transaction changes at most where several share it; a
// document alone always fits.
const workBytes = ledger.MaxTxnBytes / 2

// atOnce is by how much transactions are smaller than they could be, because the store has refused
// larger ones: parts of what would come together. The ledger's own limits leave room below etcd's
// defaults, so that a store that is set up like that refuses none.
type atOnce struct{ halved int }

// most is how many of at most so many documents come together now.
func (a atOnce) most(limit int) int { return max(1, limit>>a.halved) }

// learn takes in how a transaction has ended that changed several documents.
func (a *atOnce) learn(r TxnOutcome) {
	const enough = 8
	switch {
	case r == TxnRefused:
		a.halved = min(a.halved+1, enough)
	case r == Applied && a.halved > 0:
		a.halved--
	}
}

// isTooLarge says whether a transaction has too many operations or bytes.
func isTooLarge(err error) bool {
	var txn *ledger.TxnError
	return errors.As(err, &txn) && txn.TooLarge
}
