package txn

import (
	"fmt"
	"time"

	"github.com/berth-scheduler/berth/pkg/ledger"
)

// refusalLasts is how long a store that has refused a transaction for its size is assumed to refuse others that are
// at least as large: an operator may raise its limit.
const refusalLasts = time.Minute

// Limits bounds transactions by what the store has refused. The ledger's own limits are below
// etcd's defaults, so that a store with these refuses none.
type Limits struct {
	// refused is the size of the smallest transaction that was refused, 0 for none; at is when that was.
	refused int
	at      time.Time
	// maxPods is the maximum number of pods in a batch after one was refused, 0 for no such bound.
	maxPods int
}

// BatchBytes returns how large a batch may become.
func (l *Limits) BatchBytes(now time.Time) int {
	l.expire(now)
	if l.refused == 0 {
		return ledger.MaxTxnBytes
	}
	return min(l.refused-1, ledger.MaxTxnBytes)
}

// Full reports whether a batch of so many pods may not grow.
func (l *Limits) Full(pods int) bool { return l.maxPods > 0 && pods >= l.maxPods }

// recordRefused notes a refusal.
func (l *Limits) recordRefused(txn ledger.Txn, now time.Time) {
	if bytes := txn.Bytes(); l.refused == 0 || bytes < l.refused {
		l.refused = bytes
	}
	l.at = now
}

// recordAccepted notes that the store has accepted a transaction.
func (l *Limits) recordAccepted(txn ledger.Txn) {
	if txn.Bytes() >= l.refused {
		l.refused = 0
	}
	if l.maxPods *= 2; l.maxPods >= BatchPods {
		l.maxPods = 0
	}
}

func (l *Limits) expire(now time.Time) {
	if l.refused > 0 && now.Sub(l.at) > refusalLasts {
		l.refused = 0
	}
}

// check refuses a transaction that is at least as large as one that the store has just refused.
func (l *Limits) check(txn ledger.Txn, now time.Time) error {
	l.expire(now)
	if bytes := txn.Bytes(); l.refused > 0 && bytes >= l.refused {
		return &ledger.TxnError{
			TooLarge: true, Reason: fmt.Sprintf("%d bytes, and the store has just refused %d", bytes, l.refused),
		}
	}
	return nil
}

// Halve bounds further batches after one of so many pods was refused.
func (l *Limits) Halve(pods int) { l.maxPods = max(1, pods/2) }

// BatchPods bounds the pods of one transaction: large enough to amortise the round trip
// (30,000 documents a second were measured at 12 a transaction), small enough that one
// conflict costs little and the first pod does not wait for the last.
const BatchPods = 24
