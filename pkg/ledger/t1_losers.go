package ledger

import (
	"maps"
	"slices"
)

// Lost says why a batch failed, from the values that came back with the failure.
type Lost struct {
	// Applied: it did not fail at all. An earlier copy of the identical transaction,
	// whose answer was lost, has applied: the documents show its tokens.
	Applied bool
	// AppliedAt is, if Applied, a revision at or past the one it applied at, and one at
	// which a document of the batch changed: a watcher of the ledger reaches it.
	AppliedAt int64
	// Partitions this shard does not own any more (in this epoch), sorted.
	Partitions []int32
	// Registry: t/reg moved, to RegistryRevision. No placement of the batch may be kept
	// before the shard knows the new terms.
	Registry         bool
	RegistryRevision int64
	// Docs are the documents that changed under the batch, as they are now.
	Docs []NodeDoc
}

// Losers classifies the failure of b from the current values in r. With a succeeded r it
// is Applied.
func Losers(b PlaceBatch, r TxnResult) (Lost, error) {
	if r.Succeeded {
		return Lost{Applied: true, AppliedAt: r.Revision}, nil
	}
	lost := Lost{RegistryRevision: r.current(KeyTermRegistry).ModRevision}
	lost.Registry = lost.RegistryRevision != b.TermRegistryRevision
	for _, p := range slices.Sorted(maps.Keys(b.Epochs)) {
		if r.current(KeyOwn(p)).CreateRevision != b.Epochs[p] {
			lost.Partitions = append(lost.Partitions, p)
		}
	}
	var err error
	if lost.Docs, err = Refreshed(b.Docs, r); err != nil {
		return Lost{}, err
	}
	placed := b.placed()
	for _, d := range lost.Docs {
		for _, e := range d.Entries {
			if _, ok := placed[e.Token]; ok {
				lost.Applied, lost.AppliedAt = true, max(lost.AppliedAt, d.Revision)
			}
		}
	}
	return lost, nil
}

// Winners is the part of b that lost nothing and can be resubmitted at once; false when
// nothing is left. Left out are the documents that changed, and every document that places
// a pod of a lost partition. A moved registry leaves nothing: those placements were decided
// without knowing a term.
func Winners(b PlaceBatch, lost Lost) (PlaceBatch, bool) {
	if lost.Applied || lost.Registry {
		return PlaceBatch{}, false
	}
	out := map[string]struct{}{}
	for _, d := range lost.Docs {
		out[d.NodeUID] = struct{}{}
	}
	placed := b.placed()
	var docs []NodeDoc
	for _, d := range b.Docs {
		_, changed := out[d.NodeUID]
		orphaned := slices.ContainsFunc(d.Entries, func(e Entry) bool {
			_, mine := placed[e.Token]
			return mine && slices.Contains(lost.Partitions, e.Partition())
		})
		if !changed && !orphaned {
			docs = append(docs, d)
		}
	}
	won := b.only(docs)
	return won, len(won.Placed) > 0
}
