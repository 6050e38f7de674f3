package ledger

import (
	"fmt"
	"maps"
	"slices"
)

// PlaceBatch is T1 (place batch): new reservations of one shard on any number of nodes,
// with hand-overs (Finish) of the same documents riding along.
//
// Compares: own/<p>.CreateRevision = epoch of every partition the placed pods belong to;
// t/reg.ModRevision; n/<uid>.ModRevision of every document. Puts: every document.
//
// A crash before it leaves nothing: whoever owns the partitions next finds the pods still
// pending. After it the reservations stand on their own, bindable by any binder. With the
// answer lost, resubmit the identical Txn and ask Losers, which recognises that the first
// copy has applied.
type PlaceBatch struct {
	// Epochs are the create revisions of own/<partition> as this shard took them; at
	// least those of all partitions the placed pods belong to.
	Epochs map[int32]int64
	// TermRegistryRevision is the mod revision of t/reg the decisions used, 0 for none.
	TermRegistryRevision int64
	// Docs are the new documents, each with the Revision it was read at.
	Docs []NodeDoc
	// Placed are the tokens of the entries in Docs that are new with this batch.
	Placed []Token
}

// Txn makes the transaction. An error means that the batch contradicts itself (see
// PlaceBatch), that a document is over its limits (*DocTooLargeError), or that it is too
// large (*TxnError): then Split it.
func (b PlaceBatch) Txn() (Txn, error) {
	if err := b.check(); err != nil {
		return Txn{}, err
	}
	t, err := Replace(b.Docs...)
	if err != nil {
		return Txn{}, err
	}
	guards := make([]Compare, 0, len(b.Epochs)+1+len(t.Compares))
	for _, p := range slices.Sorted(maps.Keys(b.Epochs)) {
		guards = append(guards, Compare{Key: KeyOwn(p), Target: CreateRevision, Revision: b.Epochs[p]})
	}
	guards = append(guards, Compare{Key: KeyTermRegistry, Target: ModRevision, Revision: b.TermRegistryRevision})
	t.Compares = append(guards, t.Compares...)
	return t, t.Validate()
}

func (b PlaceBatch) check() error {
	for _, p := range slices.Sorted(maps.Keys(b.Epochs)) {
		if p < 0 || p >= Partitions || b.Epochs[p] <= 0 {
			return fmt.Errorf(
				"ledger: place batch: epoch %d of partition %d: want a revision above 0 and a partition below %d",
				b.Epochs[p], p, Partitions)
		}
	}
	if len(b.Placed) == 0 {
		return fmt.Errorf("ledger: place batch of %d documents places nothing; use Replace to hand over", len(b.Docs))
	}
	found := 0
	placed := b.placed()
	for _, d := range b.Docs {
		for _, e := range d.Entries {
			if _, ok := placed[e.Token]; !ok {
				continue
			}
			found++
			if _, ok := b.Epochs[e.Partition()]; !ok {
				return fmt.Errorf("ledger: place batch: pod %s belongs to partition %d, whose epoch is not given",
					e.PodUID, e.Partition())
			}
		}
	}
	if found != len(b.Placed) {
		return fmt.Errorf("ledger: place batch: %d tokens are placed, %d of them stand in its documents",
			len(b.Placed), found)
	}
	return nil
}

func (b PlaceBatch) placed() map[Token]struct{} {
	set := make(map[Token]struct{}, len(b.Placed))
	for _, t := range b.Placed {
		set[t] = struct{}{}
	}
	return set
}

// Split cuts a batch into batches that respect MaxTxnOps, in order; each document stays
// whole. A batch that fits comes back as it is. A single document that places pods of more
// partitions than one transaction can compare is an error naming the node.
func (b PlaceBatch) Split() ([]PlaceBatch, error) {
	if b.compares() <= MaxTxnOps {
		return []PlaceBatch{b}, nil
	}
	var out []PlaceBatch
	var part PlaceBatch
	for _, d := range b.Docs {
		next := b.only(append(slices.Clip(part.Docs), d))
		if next.compares() <= MaxTxnOps {
			part = next
			continue
		}
		if len(part.Docs) == 0 {
			return nil, tooManyPartitions(d, next)
		}
		out = append(out, part)
		if part = b.only([]NodeDoc{d}); part.compares() > MaxTxnOps {
			return nil, tooManyPartitions(d, part)
		}
	}
	return append(out, part), nil
}

func tooManyPartitions(d NodeDoc, b PlaceBatch) error {
	return fmt.Errorf("ledger: place batch: node %s (%s) takes pods of %d partitions, at most %d fit one transaction",
		d.NodeName, d.NodeUID, len(b.Epochs), MaxTxnOps-2)
}

func (b PlaceBatch) compares() int { return len(b.Epochs) + 1 + len(b.Docs) }

// only is the part of b about docs: their placed tokens, and the epochs those need.
func (b PlaceBatch) only(docs []NodeDoc) PlaceBatch {
	part := PlaceBatch{
		Epochs:               map[int32]int64{},
		TermRegistryRevision: b.TermRegistryRevision,
		Docs:                 docs,
	}
	placed := b.placed()
	for _, d := range docs {
		for _, e := range d.Entries {
			if _, ok := placed[e.Token]; !ok {
				continue
			}
			part.Placed = append(part.Placed, e.Token)
			if epoch, ok := b.Epochs[e.Partition()]; ok {
				part.Epochs[e.Partition()] = epoch
			}
		}
	}
	return part
}
