package decide

import (
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
}

func (c *Core) newBatch() *batch {
	return &batch{
		core: c, docs: map[string]ledger.NodeDoc{}, exclusives: map[string]ledger.ExclusiveDoc{},
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
	// PlaceBatch.Ops counts documents as they will be, so ours are put in its place.
	// document, epoch, pins, guards, claims and pools
	more := 2 + len(a.pick.needs.pins) + len(a.pick.needs.guards) + len(a.pick.volumes.holdings())
	return b.place.Ops()+len(b.docs)+len(b.exclusives)+more > ledger.MaxTxnOps
}

// holdsBack says whether an attempt cannot be in this transaction because one of the two is right only if all that is
// placed in it stays, and the other only holds a place.
func (b *batch) holdsBack(a *attempt) bool {
	held := func(a *attempt) bool { return a.deal != nil && a.deal.later }
	return slices.ContainsFunc(b.attempts, func(x *attempt) bool {
		return held(x) && a.pick.needs.countsBatch || held(a) && x.pick.needs.countsBatch
	})
}

// add makes an attempt part of the transaction; false if a document has no room for it, or
// claims a pod that it relies on. Then nothing has changed.
func (b *batch) add(a *attempt, entry ledger.Entry) bool {
	n := a.pick.needs
	next := map[string]ledger.NodeDoc{a.pick.nodeUID: b.open(a.pick.nodeUID, a.pick.nodeName)}
	for _, p := range n.pins {
		doc, ok := next[p.nodeUID]
		if !ok {
			doc = b.open(p.nodeUID, p.nodeName)
		}
		var err error
		if next[p.nodeUID], err = ledger.Pin(doc, p.keeper, dependent(entry)); err != nil {
			return false
		}
	}
	doc := ledger.Cover(next[a.pick.nodeUID], ledger.KindNode, a.pick.nodeRV)
	if len(doc.Entries) >= ledger.MaxEntries && a.pick.room.token == 0 {
		return false
	}
	doc, ok := a.pick.enter(doc, entry)
	if !ok {
		return false
	}
	next[a.pick.nodeUID] = doc
	held, ok := b.hold(a, entry)
	if !ok {
		return false
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
	return true
}

// hold makes an attempt the holder of the claims that only one pod may use, and of what it gets of
// pools of devices; false if one has a holder, the facts do not show yet who has had it, or the
// pool has moved since the decision.
func (b *batch) hold(a *attempt, entry ledger.Entry) (held map[string]ledger.ExclusiveDoc, ok bool) {
	return b.core.take(a.pick.volumes.holdings(), ledger.Holder{
		PodUID: entry.PodUID, Token: entry.Token, NodeUID: a.pick.nodeUID,
	}, b.exclusives)
}

// take makes a reservation the holder of something, on top of the documents that are changed already;
// false as hold has it.
func (c *Core) take(
	holdings []holding, holder ledger.Holder, changed map[string]ledger.ExclusiveDoc,
) (held map[string]ledger.ExclusiveDoc, ok bool) {
	if len(holdings) == 0 {
		return nil, true
	}
	held = map[string]ledger.ExclusiveDoc{}
	for _, h := range holdings {
		x, known := changed[h.key]
		if !known {
			x = c.exclusive(h.key)
		}
		if !c.caughtUp(x) || !c.sees(x, h) {
			return nil, false
		}
		holder.Items = h.items
		x, err := ledger.Hold(x, holder)
		if err != nil {
			return nil, false
		}
		held[x.Key] = x
	}
	return held, true
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
	doc, ok := b.core.ledger.Doc(nodeUID)
	if !ok {
		doc = ledger.NodeDoc{NodeUID: nodeUID, NodeName: nodeName}
	}
	finished, _ := ledger.Finish(doc, b.core.view)
	return finished
}

// flight is the transaction, not yet made.
func (b *batch) flight() *flight {
	for _, uid := range b.order {
		b.place.Docs = append(b.place.Docs, b.docs[uid])
	}
	b.place.Exclusives = sortedDocs(b.exclusives)
	return &flight{attempts: b.attempts, batch: b.place}
}
