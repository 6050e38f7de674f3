package document

import (
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/services/binder/decide/basis"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// Plans reports on the plans that work with a document.
type Plans interface {
	// LongestGrace returns the longest time that holds of a document may take in addition to Leftovers.Overdue.
	LongestGrace(d ledger.NodeDoc) time.Duration
}

// Sweeper cleans up documents that no process works on.
type Sweeper struct {
	*basis.Base
	store *Store
	plans Plans
	// idleDocs holds budgets and plan records as last changed, by key.
	idleDocs   map[string]*idleDoc
	collecting collecting
}

// NewSweeper returns a sweeper of the documents in store.
func NewSweeper(base *basis.Base, store *Store, plans Plans) *Sweeper {
	return &Sweeper{Base: base, store: store, plans: plans, idleDocs: map[string]*idleDoc{}}
}

// machine is a piece of work of a sweeper.
type machine interface {
	answered(s *Sweeper, in effect.Input)
}

// work is a machine that waits for the answer to its effect.
type work struct {
	machine
	s *Sweeper
}

// Answered implements effect.Machine.
func (w work) Answered(in effect.Input) { w.answered(w.s, in) }

// tidy sends a transaction that nothing waits for; it returns 0 if the change is not a valid one.
func (s *Sweeper) tidy(m machine, change txns.Change, why string) effect.OpID {
	return s.Amend(work{m, s}, change, why, true)
}

// Sweep cleans up all documents that are due.
func (s *Sweeper) Sweep() {
	if s.Draining {
		return
	}
	s.sweepNodes()
	s.sweepLeftovers()
	s.collect()
}

// sweepNodes hands over entries of idle documents (T5) and drops what is left of plans in them (T8). Only the holder
// of the node's partition sweeps a document; if two binders do, one loses its compare.
//
// Order: the only effect is the transaction. A crash before it leaves the entries, which every reader ignores by the
// counting rule; a crash after it leaves nothing.
func (s *Sweeper) sweepNodes() {
	var due []string
	for uid, d := range s.store.docs {
		if d.op != 0 || s.Now.Sub(d.since) <= s.Limits.Idle || s.Now.Sub(d.sweptAt) < basis.RoundEvery || !s.MayAct(uid) {
			continue
		}
		if doc, _ := s.store.Get(uid); len(doc.Entries) > 0 {
			due = append(due, uid)
		}
	}
	slices.Sort(due)
	var batch handOver
	for _, uid := range due {
		d := s.store.docs[uid]
		d.sweptAt = s.Now
		change, changed := s.sweepOf(d)
		switch {
		case !changed:
		case len(change.Docs) != 1 || len(change.Budgets)+len(change.Exclusives)+len(change.Plans) > 0:
			d.op = s.tidy(d, change, "sweep")
		default:
			batch.add(s, d, change)
		}
	}
	batch.send(s)
}

func (d *document) answered(s *Sweeper, _ effect.Input) {
	// Applied or not, the view shows the result. A repeated transaction contains the same change or loses its
	// compare.
	d.op, d.since = 0, s.Now
}

// handOversAtOnce is how many documents share a transaction. They are idle, so it is rare that one of them has
// changed in the meantime, which makes the whole transaction fail.
const handOversAtOnce = 16

// handOver is T5 for several documents, all of which are changed, or none.
type handOver struct {
	docs   []*document
	change txns.Change
	bytes  int
}

// add adds one document to the hand-over. It first sends the collected documents if the transaction has no room for
// one more, and afterwards if there are enough.
func (h *handOver) add(s *Sweeper, d *document, change txns.Change) {
	weight := 0
	for _, doc := range change.Docs {
		weight += doc.Weight()
	}
	if h.bytes+weight > basis.BatchBytes {
		h.send(s)
	}
	h.docs = append(h.docs, d)
	h.change.Docs = append(h.change.Docs, change.Docs...)
	h.bytes += weight
	if len(h.docs) >= s.Batches.Most(handOversAtOnce) {
		h.send(s)
	}
}

// send sends the collected documents, if there are any, and begins a new collection.
func (h *handOver) send(s *Sweeper) {
	if len(h.docs) == 0 {
		return
	}
	sent := *h
	*h = handOver{}
	op := s.tidy(&sent, sent.change, "hand-over")
	for _, d := range sent.docs {
		d.op = op
	}
}

// answered ends the hand-over. If it has lost a compare, its documents are due again at the next sweep, without another
// Limits.Idle: all but one are probably unchanged.
func (h *handOver) answered(s *Sweeper, in effect.Input) {
	a, ok := in.(effect.Amended)
	if ok {
		s.Batches.Learn(a.Result)
	}
	for _, d := range h.docs {
		d.op = 0
		if !ok || a.Result != effect.Lost {
			d.since = s.Now // the view shows the result
		}
	}
}
