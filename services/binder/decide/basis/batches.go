package basis

import (
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// BatchBytes is the largest size of the documents that one transaction changes together; a single document always
// fits.
const BatchBytes = ledger.MaxTxnBytes / 2

// Batches limits the documents per transaction to what the store accepts. It remembers by how much batches are reduced
// because the store has refused larger transactions. The ledger's own limits stay below etcd's defaults, so a store
// with these refuses none.
type Batches struct{ halved int }

// Most returns how many documents may share a transaction now, where limit is the usual maximum.
func (b *Batches) Most(limit int) int { return max(1, limit>>b.halved) }

// Learn adjusts to the outcome of a transaction that changed several documents.
func (b *Batches) Learn(r effect.TxnOutcome) {
	const enough = 8
	switch {
	case r == effect.TxnRefused:
		b.halved = min(b.halved+1, enough)
	case r == effect.Applied && b.halved > 0:
		b.halved--
	}
}
