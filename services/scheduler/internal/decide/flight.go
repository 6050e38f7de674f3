package decide

import (
	"fmt"
	"slices"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
)

// flight is one T1 transaction whose answer has not come yet.
type flight struct {
	id       uint64
	attempts []*attempt
	batch    ledger.PlaceBatch
	txn      ledger.Txn
	sent     int
}

// submit sends the staged batch if nothing is in flight.
func (c *Core) submit(out *Output) {
	if c.flight != nil || len(c.next) == 0 {
		return
	}
	attempts := c.next
	c.next = nil
	f := c.build(attempts, out)
	if len(f.attempts) == 0 {
		return
	}
	c.flights++
	f.id = c.flights
	c.flight = f
	c.send(out)
}

func (c *Core) send(out *Output) {
	f := c.flight
	out.Commit = &Commit{ID: f.id, Resubmitted: f.sent, Txn: f.txn}
	f.sent++
}

// build makes the transaction of a batch: the finished entries of each document are
// handed over on the way (T5). Attempts that cannot be part of it leave it, above all those
// whose document has moved since they were decided: what moved it is not in what they
// counted, and its high-water may be ahead of the facts they saw. (Committing on the newest
// known revision instead overcommits nodes: docs/bugs.md, 1.)
func (c *Core) build(attempts []*attempt, out *Output) *flight {
	f := &flight{batch: ledger.PlaceBatch{
		Epochs:               map[int32]int64{},
		TermRegistryRevision: c.ledger.TermRegistryRevision(),
	}}
	docs := map[string]*ledger.NodeDoc{}
	var order []string
	for _, a := range attempts {
		epoch, held := c.holds(a.offer.Partition)
		if !held {
			c.giveBack(a)
			continue
		}
		if !c.current(a.pick) {
			c.again(a)
			continue
		}
		entry, err := c.entryOf(a)
		if err != nil {
			c.fail(a, err.Error(), out)
			continue
		}
		doc, ok := docs[a.pick.nodeUID]
		if !ok {
			doc = c.openDoc(a.pick)
			docs[a.pick.nodeUID] = doc
			order = append(order, a.pick.nodeUID)
		}
		if len(doc.Entries) >= ledger.MaxEntries {
			c.again(a)
			continue
		}
		doc.Entries = append(doc.Entries, entry)
		f.batch.Epochs[a.offer.Partition] = epoch
		f.batch.Placed = append(f.batch.Placed, entry.Token)
		f.attempts = append(f.attempts, a)
	}
	if len(f.attempts) == 0 {
		return f
	}
	for _, uid := range order {
		f.batch.Docs = append(f.batch.Docs, *docs[uid])
	}
	return c.seal(f, out)
}

// current says whether the document of a pick is the one it was decided on, or that plus
// this shard's own last flight.
func (c *Core) current(p pick) bool {
	doc, _ := c.ledger.Doc(p.nodeUID)
	return doc.Revision == p.basis || c.written[p.nodeUID] == step{from: p.basis, to: doc.Revision}
}

// seal turns the batch into its transaction; documents that cannot be written fail the
// attempts on them.
func (c *Core) seal(f *flight, out *Output) *flight {
	txn, err := f.batch.Txn()
	if err != nil {
		for _, a := range f.attempts {
			c.fail(a, err.Error(), out)
		}
		return &flight{}
	}
	f.txn = txn
	return f
}

// openDoc is the node's document with its finished entries dropped, safe to change.
func (c *Core) openDoc(p pick) *ledger.NodeDoc {
	doc, ok := c.ledger.Doc(p.nodeUID)
	if !ok {
		return &ledger.NodeDoc{NodeUID: p.nodeUID, NodeName: p.nodeName}
	}
	finished, changed := ledger.Finish(doc, c.view)
	if !changed {
		finished = doc
		finished.Entries = slices.Clone(doc.Entries)
	}
	return &finished
}

// land takes in the answer to the transaction in flight.
func (c *Core) land(r Result, out *Output) error {
	f := c.flight
	if f == nil || f.id != r.ID {
		return fmt.Errorf("scheduler: result %d belongs to no transaction in flight", r.ID)
	}
	if r.Err != nil {
		c.send(out)
		return nil
	}
	c.flight = nil
	kvs := r.Txn.Current
	if r.Txn.Succeeded {
		kvs = f.txn.Committed(r.Txn)
	}
	changes, err := c.ledger.Learn(kvs)
	if err != nil {
		return fmt.Errorf("scheduler: transaction result: %w", err)
	}
	if r.Txn.Succeeded {
		c.written = make(map[string]step, len(f.batch.Docs))
		for _, d := range f.batch.Docs {
			c.written[d.NodeUID] = step{from: d.Revision, to: r.Txn.Revision}
		}
		c.placed(f.attempts, r.Txn.Revision, out)
		c.view.ApplyLedger(changes)
		return nil
	}
	c.view.ApplyLedger(changes)
	return c.lost(f, r.Txn, out)
}

// placed ends attempts whose reservation stands at revision.
func (c *Core) placed(attempts []*attempt, revision int64, out *Output) {
	for _, a := range attempts {
		d := c.decision(events.DecisionPlaced, a)
		d.FactSequence, d.LedgerRevision = a.pick.factSequence, revision
		d.NodeUID, d.NodeName = a.pick.nodeUID, a.pick.nodeName
		d.NodesTotal, d.NodesFeasible = int32(a.pick.total), int32(a.pick.feasible)
		d.Seed = a.pick.seed
		out.Decisions = append(out.Decisions, d)
		out.Attempts = append(out.Attempts, a.report(Scheduled))
		c.drop(a)
	}
}

// lost sorts a refused batch: attempts whose reservation stands after all (an earlier
// copy of the same transaction was carried out), attempts whose partition is gone,
// attempts that lost their node and are decided again, and the rest, which goes again at
// once.
func (c *Core) lost(f *flight, r ledger.TxnResult, out *Output) error {
	lost, err := ledger.Losers(f.batch, r)
	if err != nil {
		return fmt.Errorf("scheduler: transaction result: %w", err)
	}
	changed := map[string]bool{}
	for _, d := range lost.Docs {
		changed[d.NodeUID] = true
	}
	var again, winners []*attempt
	for _, a := range f.attempts {
		doc, entry, reserved := c.ledger.Entry(a.offer.Pod.UID)
		switch {
		case reserved && entry.Token.String() == a.offer.Token:
			c.placed([]*attempt{a}, doc.Revision, out)
		case slices.Contains(lost.Partitions, a.offer.Partition):
			c.giveBack(a)
		case changed[a.pick.nodeUID] || reserved || lost.Registry:
			again = append(again, a)
		default:
			winners = append(winners, a)
		}
	}
	c.retry(again, out)
	c.next = append(winners, c.next...)
	return nil
}

// retry sends attempts that lost a race back to be decided, in their order, unless they
// have lost too often.
func (c *Core) retry(attempts []*attempt, out *Output) {
	for _, a := range slices.Backward(attempts) {
		out.Attempts = append(out.Attempts, a.report(Conflict))
		a.losses++
		if a.losses >= MaxLosses {
			c.fail(a, fmt.Sprintf("lost %d races for a reservation", a.losses), out)
			continue
		}
		c.again(a)
	}
}

// again puts an attempt back at the head, unstaged, to be decided on fresh documents.
func (c *Core) again(a *attempt) {
	a.pick = pick{}
	c.view.Unstage(a.offer.Pod.UID)
	c.pending = append([]*attempt{a}, c.pending...)
}

// fail ends an attempt that cannot go on; the queue backs the pod off.
func (c *Core) fail(a *attempt, message string, out *Output) {
	d := c.decision(events.DecisionFailed, a)
	d.FactSequence, d.LedgerRevision = c.store.Position().Sequence, c.ledger.Revision()
	d.Message = message
	out.Decisions = append(out.Decisions, d)
	out.Attempts = append(out.Attempts, a.report(Failed))
	c.drop(a)
}

func (a *attempt) report(o Outcome) Attempt {
	return Attempt{
		Pod: a.offer.Pod, Received: a.received, Decided: a.pick.decided,
		Profile: a.pod.SchedulerName, Number: a.offer.Attempt, Outcome: o,
		NodeName: a.pick.nodeName, Feasible: a.pick.feasible, Nodes: a.pick.total,
	}
}
