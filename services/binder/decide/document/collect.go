package document

import (
	"errors"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
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
	// checkedAt is when all documents were last checked.
	checkedAt time.Time
	// gone holds the empty documents whose object does not show in the facts, by key.
	gone map[string]goneDoc
	op   effect.OpID
}

// goneDoc is such a document, at a revision, and the time since when.
type goneDoc struct {
	revision int64
	since    time.Time
}

// answered handles the outcome, which shows in the view of the ledger. A refused transaction is sent again later, in
// smaller parts.
func (g *collecting) answered(s *Sweeper, in effect.Input) {
	g.op = 0
	a, ok := in.(effect.Amended)
	if !ok {
		return
	}
	s.Batches.Learn(a.Result)
	if a.Result == effect.TxnRefused {
		g.checkedAt = s.Now
	}
}

// collect sends the next transaction, if there are documents to collect.
func (s *Sweeper) collect() {
	g := &s.collecting
	if g.op != 0 || s.Facts.Exists == nil || !s.Facts.PodProgressKnown ||
		s.Now.Sub(g.checkedAt) < s.Limits.CollectEvery {
		return
	}
	due := s.GoneFor(s.Limits.Collect)
	if len(due) == 0 {
		g.checkedAt = s.Now
		return
	}
	n := min(len(due), s.Batches.Most(collectAtOnce))
	txn, err := txns.CollectionOf(s.Ledger, due[:n]).Collect()
	for n > 1 && isTooLarge(err) { // nodes that still exist have to be written
		n /= 2
		txn, err = txns.CollectionOf(s.Ledger, due[:n]).Collect()
	}
	if err != nil {
		g.checkedAt = s.Now
		s.Fault("collection of documents", err)
		return
	}
	g.op = s.Begin(work{g, s})
	s.Emit(effect.Amend{Op: g.op, Txn: txn, Why: "collect"})
}

// isTooLarge reports whether a transaction has too many operations or bytes.
func isTooLarge(err error) bool {
	var txn *ledger.TxnError
	return errors.As(err, &txn) && txn.TooLarge
}

// GoneFor records which documents are empty and belong to objects that are gone, and returns the sorted keys of those
// for which that has been so for the given time.
func (s *Sweeper) GoneFor(span time.Duration) (due []string) {
	gone := map[string]goneDoc{}
	record := func(key string, revision int64) {
		g, known := s.collecting.gone[key]
		if !known || g.revision != revision {
			g = goneDoc{revision, s.Now}
		}
		gone[key] = g
		if s.Now.Sub(g.since) >= span {
			due = append(due, key)
		}
	}
	for key, revision := range txns.Collectable(s.Ledger) {
		if s.MayAct(key) && !s.Facts.Exists(key) {
			record(key, revision)
		}
	}
	s.collecting.gone = gone
	slices.Sort(due)
	return due
}
