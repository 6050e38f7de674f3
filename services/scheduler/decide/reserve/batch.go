package reserve

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/services/scheduler/decide/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/decide/claims"
)

// batch is a T1 that is being built. Documents are drafts, so that several attempts on one node, or one node and a
// keeper there, end up in one new version of its document.
type batch struct {
	by       *Reserver
	attempts []*attempt.Attempt
	place    txns.PlaceBatch
	// drafts are the documents of nodes, in the order in which they were added; at are their indexes by UID.
	drafts []draft
	at     map[string]int // in drafts, by UID
	// firsts is how many of the drafts do not exist yet: each of them needs the incarnation of its node's name.
	firsts int
	// exclusives are the documents of claims that only one pod may use, and of device pools.
	exclusives map[string]ledger.ExclusiveDoc
	// bytes is the size that the batch takes of the transaction.
	bytes int
	// why is the reason why the last attempt did not join.
	why error
}

// draft is a node's document in the form that the transaction will write, with the changes of all attempts that
// joined.
type draft struct {
	doc ledger.NodeDoc
	// weight is the size that it takes of the transaction.
	weight int
}

// joining is the result of adding an attempt to a batch. All but joined leave the batch as it was.
type joining uint8

const (
	joined joining = iota
	// stale: the state that it was decided on has changed.
	stale
	// crowded: a document has no room for it.
	crowded
	// impossible: its reservation cannot be made anywhere.
	impossible
	// tooMuch: the transaction has no room for it. An attempt alone in a transaction is always tried.
	tooMuch
)

// newBatch returns a batch without attempts, on the current registry of terms.
func (r *Reserver) newBatch() *batch {
	return &batch{
		by: r, at: map[string]int{}, exclusives: map[string]ledger.ExclusiveDoc{},
		place: txns.PlaceBatch{
			Epochs: map[int32]int64{}, TermRegistryRevision: r.Shard.Ledger.Terms().RegistryRevision(),
			Needs: map[ledger.Token]txns.Needs{},
		},
	}
}

// full reports whether the transaction may have no room for one more attempt. An attempt alone is always tried: if
// it does not fit by itself, it never will, and fails.
func (b *batch) full(a *attempt.Attempt) bool {
	if len(b.attempts) == 0 {
		return false
	}
	if b.by.Slot.Limits.Full(len(b.attempts)) {
		return true
	}
	// PlaceBatch.Ops counts documents as they will be, so our drafts are counted instead. more counts document and
	// incarnation, epoch, pins, guards, claims and pools.
	more := 3 + len(a.Pick.Needs.Pins) + len(a.Pick.Needs.Guards) + len(a.Pick.Volumes.Holdings())
	return b.place.Ops()+len(b.drafts)+b.firsts+len(b.exclusives)+more > ledger.MaxTxnOps
}

// excludes reports whether an attempt cannot be in this transaction because one attempt is valid only if every pod
// placed in the transaction stays, and another one only holds a place.
func (b *batch) excludes(a *attempt.Attempt) bool {
	held := func(a *attempt.Attempt) bool { return a.Plugins != nil && a.Plugins.WorkLeft }
	return slices.ContainsFunc(b.attempts, func(x *attempt.Attempt) bool {
		return held(x) && a.Pick.Needs.CountsBatch || held(a) && x.Pick.Needs.CountsBatch
	})
}

// add adds an attempt to the transaction. Unless it returns joined, nothing has changed: the new documents are built
// first, weighed, and only then put. In this order: pins on the pods that it relies on, its own entry (or its entry
// in place of a placeholder), its exclusive claims, the size.
func (b *batch) add(a *attempt.Attempt, entry ledger.Entry) joining {
	n := a.Pick.Needs
	next, err := b.pin(a, entry)
	if err != nil {
		return b.resultOf(err)
	}
	own := &next[0]
	own.doc = own.doc.Cover(ledger.KindNode, a.Pick.NodeRV)
	if own.doc, err = a.Pick.Enter(own.doc, entry); err != nil {
		return b.resultOf(err)
	}
	held, err := b.by.Shard.Claims.Take(a.Pick.Volumes.Holdings(), ledger.Holder{
		PodUID: entry.PodUID, Token: entry.Token, NodeUID: a.Pick.NodeUID,
	}, b.exclusives)
	if err != nil {
		return b.resultOf(err)
	}
	if !b.weigh(a, next, held) {
		return tooMuch
	}
	maps.Copy(b.exclusives, held)
	slices.SortFunc(next, func(x, y draft) int { return cmp.Compare(x.doc.NodeUID, y.doc.NodeUID) })
	for _, d := range next {
		b.put(d)
	}
	b.place.Epochs[a.Offer.Partition] = a.Pick.Epoch
	b.place.Placed = append(b.place.Placed, entry.Token)
	if len(n.Guards)+len(n.Pins) > 0 || n.CountsBatch {
		b.place.Needs[entry.Token] = n.Ledger()
	}
	b.attempts = append(b.attempts, a)
	return joined
}

// pin returns the document of an attempt's node, which comes first, and the documents of the pods that it relies on,
// with pins on these pods.
func (b *batch) pin(a *attempt.Attempt, entry ledger.Entry) (next []draft, err error) {
	follower := ledger.Dependent{PodUID: entry.PodUID, PodRV: entry.PodRV}
	next = append(make([]draft, 0, 1+len(a.Pick.Needs.Pins)), draft{doc: b.open(a.Pick.NodeUID, a.Pick.NodeName)})
	for _, p := range a.Pick.Needs.Pins {
		at := slices.IndexFunc(next, func(d draft) bool { return d.doc.NodeUID == p.NodeUID })
		if at < 0 {
			at = len(next)
			next = append(next, draft{doc: b.open(p.NodeUID, p.NodeName)})
		}
		if next[at].doc, err = txns.Pin(next[at].doc, p.Keeper, follower); err != nil {
			return nil, err
		}
	}
	return next, nil
}

// put replaces the draft of a node, or adds it.
func (b *batch) put(d draft) {
	if at, known := b.at[d.doc.NodeUID]; known {
		b.drafts[at] = d
		return
	}
	b.at[d.doc.NodeUID] = len(b.drafts)
	b.drafts = append(b.drafts, d)
	if d.doc.Revision == 0 {
		b.firsts++
	}
}

// draft returns the batch's draft of a node's document.
func (b *batch) draft(nodeUID string) (draft, bool) {
	if at, ok := b.at[nodeUID]; ok {
		return b.drafts[at], true
	}
	return draft{}, false
}

// resultOf maps an error of a ledger step to a result of joining.
func (b *batch) resultOf(err error) joining {
	b.why = err
	var (
		large   *ledger.DocTooLargeError
		refused *txns.RefusedError
		claimed *txns.ClaimedError
		taken   *ledger.TakenError
	)
	switch {
	case errors.As(err, &large):
		return crowded
	case errors.As(err, &refused), errors.As(err, &claimed), errors.As(err, &taken), errors.Is(err, claims.ErrMoved):
		return stale
	}
	return impossible
}

// weigh adds up the size that an attempt adds to the transaction, and sets the weight of each of its documents;
// false if the transaction has no room for it. An attempt alone is always tried: if its transaction cannot be made,
// that attempt is the cause.
func (b *batch) weigh(a *attempt.Attempt, next []draft, held map[string]ledger.ExclusiveDoc) bool {
	const epoch, registry = 128, 128
	bytes := b.bytes + epoch
	for i := range next {
		before, _ := b.draft(next[i].doc.NodeUID)
		next[i].weight = next[i].doc.Weight()
		bytes += next[i].weight - before.weight
	}
	for key, x := range held {
		bytes += x.Weight()
		if before, known := b.exclusives[key]; known {
			bytes -= before.Weight()
		}
	}
	for _, g := range a.Pick.Needs.Guards {
		bytes += g.Weight()
	}
	if len(b.attempts) > 0 && bytes+registry > b.by.Slot.Limits.BatchBytes(b.by.Shard.Now) {
		return false
	}
	b.bytes = bytes
	return true
}

// open returns the batch's draft of the node's document, or the document without its finished entries.
func (b *batch) open(nodeUID, nodeName string) ledger.NodeDoc {
	if d, ok := b.draft(nodeUID); ok {
		return d.doc
	}
	return b.by.Shard.OpenDoc(nodeUID, nodeName)
}

// seal makes the batch into its transaction, not yet sent.
func (b *batch) seal() (*placing, error) {
	if len(b.attempts) == 0 {
		return &placing{}, nil
	}
	b.place.Docs = make([]ledger.NodeDoc, len(b.drafts))
	for i := range b.drafts {
		b.place.Docs[i] = b.drafts[i].doc
	}
	b.place.Exclusives = claims.Sorted(b.exclusives)
	txn, err := b.place.Txn()
	if err != nil {
		return nil, err
	}
	return &placing{by: b.by, attempts: b.attempts, batch: b.place, txn: txn}, nil
}
