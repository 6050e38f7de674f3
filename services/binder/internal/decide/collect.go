package decide

import (
	"slices"
	"time"
)

// collectAtOnce is how many documents one transaction collects: each takes a compare and a
// delete, a node's one more of both for its name, and a compare and a put for its successor.
const collectAtOnce = 40

// collecting finds the documents of nodes, disruption budgets, volumes and pools that are gone, and
// deletes them (T16): without that the ledger would grow with every node and budget there ever was.
//
// Order: there is only one effect, the transaction. Where the facts are wrong about an object being
// gone nothing is lost: what a document stood for is in the floor.
type collecting struct {
	// looked is when all documents were last looked at.
	looked time.Time
	// gone are the empty documents whose object does not show in the facts, by key.
	gone map[string]goneDoc
	op   OpID
}

// goneDoc is such a document, at a revision since a time.
type goneDoc struct {
	revision int64
	since    time.Time
}

// answered: the picture tells. What was refused goes again in smaller parts, after a while.
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

// collect sends the next transaction, if there is something to collect.
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
	for n > 1 && isTooLarge(err) { // nodes that live on have to be written
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

// goneFor notes which documents are empty and of objects that are gone, and returns the keys of those
// that have been so for a time, sorted.
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
