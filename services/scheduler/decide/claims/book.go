package claims

import (
	"iter"
	"maps"
	"slices"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/ledger/view"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Book knows what is promised to claims: by the facts, by the ledger, and by the pods that a shard has staged.
// Staged and Wrote are set by the core before the first decision.
type Book struct {
	View   *view.View
	Ledger *replica.View
	// Staged are the pods that count on their nodes without a reservation yet.
	Staged func() iter.Seq[Staged]
	// Wrote reports whether the shard's own last transaction brought a document from one revision to another.
	Wrote func(key string, from, to int64) bool

	devices deviceBook
}

// Staged is a pod that counts on a node, with what its claims get there. The caller keeps the Supply, and passes the
// same pointer as long as the pod is staged.
type Staged struct {
	Pod    *state.Pod
	Node   string
	Supply *Supply
}

// Reset forgets what is known of devices. They are read again when the next pod names claims.
func (b *Book) Reset() { b.devices.close() }

// FollowFacts applies changes of objects.
func (b *Book) FollowFacts(changes []state.ObjectChange) {
	b.devices.followFacts(changes, b.View.Snapshot())
}

// FollowLedger applies changes of documents.
func (b *Book) FollowLedger(changes replica.Changes) {
	b.devices.followLedger(changes, b.View.Snapshot())
}

// Sorted returns documents by their keys.
func Sorted(docs map[string]ledger.ExclusiveDoc) (list []ledger.ExclusiveDoc) {
	for _, key := range slices.Sorted(maps.Keys(docs)) {
		list = append(list, docs[key])
	}
	return list
}
