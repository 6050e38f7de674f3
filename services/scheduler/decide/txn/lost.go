package txn

import (
	"errors"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
)

// IsTooLarge reports whether a change is too large for one transaction.
func IsTooLarge(err error) bool {
	var txn *ledger.TxnError
	return errors.As(err, &txn) && txn.TooLarge
}

// LostAt returns the highest revision of what a change has lost to: nothing is gained by deciding again before the
// watch has reached it.
func LostAt(lost txns.Outcome) int64 {
	at := max(lost.RegistryRevision, lost.NamesAt)
	for _, d := range lost.Docs {
		at = max(at, d.Revision)
	}
	for _, b := range lost.Budgets {
		at = max(at, b.Revision)
	}
	for _, p := range lost.Plans {
		at = max(at, p.Revision)
	}
	for _, x := range lost.Exclusives {
		at = max(at, x.Revision)
	}
	for _, revision := range lost.Guards {
		at = max(at, revision)
	}
	return at
}
