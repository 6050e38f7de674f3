package replica

import (
	"iter"
	"maps"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
)

// Exclusives is the part of a View about volumes and pools of devices: which reservations hold each.
type Exclusives struct {
	byKey map[string]ledger.ExclusiveDoc
	docs  *documents
}

func newExclusives(docs *documents) Exclusives {
	return Exclusives{byKey: map[string]ledger.ExclusiveDoc{}, docs: docs}
}

func (x *Exclusives) clone(docs *documents) Exclusives {
	return Exclusives{byKey: maps.Clone(x.byKey), docs: docs}
}

// Of returns the document of a volume or pool (KeyVolume, KeyPool); an empty one at revision 0 if it was never held.
func (x *Exclusives) Of(key string) ledger.ExclusiveDoc {
	if doc, ok := x.byKey[key]; ok {
		return doc
	}
	floor := &x.docs.floor
	return ledger.ExclusiveDoc{Key: key, HW: floor.Of(ledger.KindPod, ledger.KindClaim), Floor: floor.Revision}
}

// All iterates over the documents of all volumes and pools, in no order.
func (x *Exclusives) All() iter.Seq[ledger.ExclusiveDoc] { return maps.Values(x.byKey) }

// carryOver keeps what was learned later than the list, which was read at revision.
func (x *Exclusives) carryOver(was *Exclusives, revision int64) {
	keepLater(x.byKey, was.byKey, revision, ledger.ExclusiveDoc.ReadAt)
}

func (x *Exclusives) put(kv ledger.KV, set *changeSet) error {
	return putNewer(x.byKey, kv, codec.DecodeExclusive, kv.Key, &set.exclusives)
}

func (x *Exclusives) drop(key string, revision int64, set *changeSet) {
	dropOlder(x.byKey, key, revision, &set.exclusives)
}
