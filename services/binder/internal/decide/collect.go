package decide

import (
	"slices"
	"time"
)

// collectAtOnce is how many documents one transaction collects. Each takes a compare and a delete; a node's document
// takes one more of both for its name, and a compare and a put for its successor.
const collectAtOnce = 40

// collecting finds the documents of nodes, disruption budgets, volumes and pools that are gone, and deletes them
// (T16). Otherwise the ledger would grow with every node and budget that ever existed.
//
// Order: the only effect is the transaction. If the facts are wrong about an object being gone, nothing is lost: the
// high-waters of the document are in the floor.
type collecting struct {
	// looked is when all documents were last checked.
	looked time.Time
	// gone holds the empty documents whose object does not show in the facts, by key.
	gone map[string]goneDoc
	op   OpID
}

// goneDoc is such a document, at a revision, and the time since when.
type goneDoc struct {
	revision int64
	since    time.Time
}

// answered handles the outcome, which shows in the view of the ledger. A refused transaction is sent again later, in
// smaller parts.
func (g *collecting) answered(c *Core, in Input) {
	g.op = 0
	a, ok := in.(Amended)
	if !ok {
		return
	}
	c.atOnce.learn(a.Result)
	if a.Result == TxnRefused {
		g.looked = c.now
	}
}

// collect sends the next transaction, if there are documents to collect.
func (c *Core) collect() {
	g := &c.collecting
	if c.draining || g.op != 0 || c.facts.Exists == nil || !c.facts.PodProgressKnown ||
		c.now.Sub(g.looked) < c.limits.CollectEvery {
		return
	}
	due := c.goneFor(c.limits.Collect)
	if len(due) == 0 {
		g.looked = c.now
		return
	}
	n := min(len(due), c.atOnce.most(collectAtOnce))
	txn, err := c.ledger.Collection(due[:n]).Collect()
	for n > 1 && isTooLarge(err) { // nodes that still exist have to be written
		n /= 2
		txn, err = c.ledger.Collection(due[:n]).Collect()
	}
	if err != nil {
		g.looked = c.now
		c.fault("collection of documents", err)
		return
	}
	g.op = c.start(g)
	c.emit(Amend{Op: g.op, Txn: txn, Why: "collect"})
}

// goneFor records which documents are empty and belong to objects that are gone, and returns the sorted keys of those
// for which that has been so for the given time.
func (c *Core) goneFor(span time.Duration) (due []string) {
	gone := map[string]goneDoc{}
	note := func(key string, revision int64) {
		g, known := c.collecting.gone[key]
		if !known || g.revision != revision {
			g = goneDoc{revision, c.now}
		}
		gone[key] = g
		if c.now.Sub(g.since) >= span {
			due = append(due, key)
		}
	}
	for key, revision := range c.ledger.Empty() {
		if c.mayAct(key) && !c.facts.Exists(key) {
			note(key, revision)
		}
	}
	c.collecting.gone = gone
	slices.Sort(due)
	return due
}
