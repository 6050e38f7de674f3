package decide

import (
	"errors"
	"maps"
	"slices"

	"github.com/berth-scheduler/berth/pkg/ledger"
)

// batch is a T1 in the making.
type batch struct {
	core     *Core
	attempts []*attempt
	place    ledger.PlaceBatch
	docs     map[string]ledger.NodeDoc
	order    []string // of docs
	// exclusives are the documents of claims that only one pod may use, and of pools of devices.
	exclusives map[string]ledger.ExclusiveDoc
	// bytes is what it takes of the transaction, weights what each document does, by key.
	bytes   int
	weights map[string]int
	// why is what kept the last attempt out that did not join.
	why error
}

// joining is what has come of adding an attempt to a batch.
type joining uint8

const (
	joined joining = iota
	// stale: what it was decided on has changed.
	stale
	// crowded: a document has no room for it.
	crowded
	// impossible: its reservation can be made nowhere.
	impossible
	// tooMuch: the transaction has no room for it. One without others has, if any has.
	tooMuch
)

func (c *Core) newBatch() *batch {
	return &batch{
		core: c, docs: map[string]ledger.NodeDoc{}, exclusives: map[string]ledger.ExclusiveDoc{},
		weights: map[string]int{},
		place: ledger.PlaceBatch{
			Epochs: map[int32]int64{}, TermRegistryRevision: c.ledger.TermRegistryRevision(),
			Needs: map[ledger.Token]ledger.Needs{},
		},
	}
}

// full says whether the transaction may have no room for one more attempt. One alone is
// always tried: if it does not fit, it never will, and is told so.
func (b *batch) full(a *attempt) bool {
	if len(b.attempts) == 0 {
		return false
	}
	if b.core.limits.full(len(b.attempts)) {
		return true
	}
	// PlaceBatch.Ops counts documents as they will be, so ours are put in its place.
	// document and incarnation, epoch, pins, guards, claims and pools
	more := 3 + len(a.pick.needs.pins) + len(a.pick.needs.guards) + len(a.pick.volumes.holdings())
	return b.place.Ops()+len(b.docs)+b.firsts()+len(b.exclusives)+more > ledger.MaxTxnOps
}

// firsts is how many documents do not exist yet: each comes with the incarnation of its node's name.
func (b *batch) firsts() (n int) {
	for _, d := range b.docs {
		if d.Revision == 0 {
			n++
		}
	}
	return n
}

// holdsBack says whether an attempt cannot be in this transaction because one of the two is right only if all that is
// placed in it stays, and the other only holds a place.
func (b *batch) holdsBack(a *attempt) bool {
	held := func(a *attempt) bool { return a.deal != nil && a.deal.later }
	return slices.ContainsFunc(b.attempts, func(x *attempt) bool {
		return held(x) && a.pick.needs.countsBatch || held(a) && x.pick.needs.countsBatch
	})
}

// add makes an attempt part of the transaction, if it joins. Else nothing has changed.
func (b *batch) add(a *attempt, entry ledger.Entry) joining {
	n := a.pick.needs
	next := map[string]ledger.NodeDoc{a.pick.nodeUID: b.open(a.pick.nodeUID, a.pick.nodeName)}
	for _, p := range n.pins {
		doc, ok := next[p.nodeUID]
		if !ok {
			doc = b.open(p.nodeUID, p.nodeName)
		}
		var err error
		if next[p.nodeUID], err = ledger.Pin(doc, p.keeper, dependent(entry)); err != nil {
			return b.unfit(err)
		}
	}
	doc := ledger.Cover(next[a.pick.nodeUID], ledger.KindNode, a.pick.nodeRV)
	doc, err := a.pick.enter(doc, entry)
	if err != nil {
		return b.unfit(err)
	}
	next[a.pick.nodeUID] = doc
	held, err := b.hold(a, entry)
	if err != nil {
		return b.unfit(err)
	}
	if !b.weigh(a, next, held) {
		return tooMuch
	}
	maps.Copy(b.exclusives, held)
	for _, uid := range slices.Sorted(maps.Keys(next)) {
		if _, known := b.docs[uid]; !known {
			b.order = append(b.order, uid)
		}
		b.docs[uid] = next[uid]
	}
	b.place.Epochs[a.offer.Partition] = a.pick.epoch
	b.place.Placed = append(b.place.Placed, entry.Token)
	if len(n.guards)+len(n.pins) > 0 || n.countsBatch {
		b.place.Needs[entry.Token] = n.ledger()
	}
	b.attempts = append(b.attempts, a)
	return joined
}

// unfit is what an error of a step of the ledger says about an attempt.
func (b *batch) unfit(err error) joining {
	b.why = err
	var (
		large   *ledger.DocTooLargeError
		refused *ledger.RefusedError
		claimed *ledger.ClaimedError
		taken   *ledger.TakenError
	)
	switch {
	case errors.As(err, &large):
		return crowded
	case errors.As(err, &refused), errors.As(err, &claimed), errors.As(err, &taken), errors.Is(err, errMoved):
		return stale
	}
	return impossible
}

// weigh counts what an attempt adds to the transaction; false if that is more than it has room for. An
// attempt without others is always tried: if the transaction cannot be made, that one is to blame.
func (b *batch) weigh(
	a *attempt, docs map[string]ledger.NodeDoc, held map[string]ledger.ExclusiveDoc,
) bool {
	const epoch, registry = 128, 128
	bytes, weights := b.bytes+epoch, map[string]int{}
	for uid, d := range docs {
		weights[ledger.KeyNode(uid)] = d.Weight()
	}
	for key, x := range held {
		weights[key] = x.Weight()
	}
	for key, weight := range weights {
		bytes += weight - b.weights[key]
	}
	for _, g := range a.pick.needs.guards {
		bytes += g.Weight()
	}
	if len(b.attempts) > 0 && bytes+registry > b.core.limits.batchBytes(b.core.now) {
		return false
	}
	b.bytes = bytes
	maps.Copy(b.weights, weights)
	return true
}

// errMoved says that what something exclusive was decided on has moved, or that the facts do not show yet
// who has had it.
var errMoved = errors.New("a claim or a pool of devices has moved since the decision")

// hold makes an attempt the holder of the claims that only one pod may use, and of what it gets of
// pools of devices; an error if one has a holder or its document no room, the facts do not show yet who
// has had it, or the pool has moved since the decision.
func (b *batch) hold(a *attempt, entry ledger.Entry) (held map[string]ledger.ExclusiveDoc, err error) {
	return b.core.take(a.pick.volumes.holdings(), ledger.Holder{
		PodUID: entry.PodUID, Token: entry.Token, NodeUID: a.pick.nodeUID,
	}, b.exclusives)
}

// take makes a reservation the holder of something, on top of the documents that are changed already;
// an error as hold has it.
func (c *Core) take(
	holdings []holding, holder ledger.Holder, changed map[string]ledger.ExclusiveDoc,
) (held map[string]ledger.ExclusiveDoc, err error) {
	if len(holdings) == 0 {
		return nil, nil
	}
	held = map[string]ledger.ExclusiveDoc{}
	for _, h := range holdings {
		x, known := changed[h.key]
		if !known {
			x = c.exclusive(h.key)
		}
		if !c.caughtUp(x) || !c.sees(x, h) {
			return nil, errMoved
		}
		holder.Items = h.items
		if x, err = ledger.Hold(x, holder); err != nil {
			return nil, err
		}
		held[x.Key] = x
	}
	return held, nil
}

func dependent(e ledger.Entry) ledger.Dependent {
	return ledger.Dependent{PodUID: e.PodUID, PodRV: e.PodRV}
}

func (n needs) ledger() ledger.Needs {
	out := ledger.Needs{Guards: slices.Clone(n.guards), CountsBatch: n.countsBatch}
	for _, p := range n.pins {
		out.Pins = append(out.Pins, p.nodeUID)
	}
	return out
}

// open is the node's document as the batch has it, or with its finished entries dropped.
func (b *batch) open(nodeUID, nodeName string) ledger.NodeDoc {
	if doc, ok := b.docs[nodeUID]; ok {
		return doc
	}
	return b.core.openDoc(nodeUID, nodeName)
}

// openDoc is a node's document with what has finished dropped.
func (c *Core) openDoc(nodeUID, nodeName string) ledger.NodeDoc {
	var rv uint64
	if n, ok := c.view.Node(nodeUID); ok {
		rv = n.Node.ResourceVersion
	}
	doc, _ := ledger.Finish(c.ledger.Open(nodeUID, nodeName, rv), c.view)
	return doc
}

// flight is the transaction, not yet made.
func (b *batch) flight() *flight {
	for _, uid := range b.order {
		b.place.Docs = append(b.place.Docs, b.docs[uid])
	}
	b.place.Exclusives = sortedDocs(b.exclusives)
	return &flight{attempts: b.attempts, batch: b.place}
}
