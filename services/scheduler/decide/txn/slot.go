package txn

import (
	"fmt"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/services/scheduler/decide/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/decide/record"
	"github.com/berth-scheduler/berth/services/scheduler/decide/shard"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

// Proposal is the origin of a transaction. Exactly one of Done, Undone and TooLarge is called with its outcome.
type Proposal interface {
	// Kind is the transaction's name in the protocol.
	Kind() string
	// Done applies that the transaction has been committed, at a revision.
	Done(revision int64)
	// Undone applies that the transaction has lost.
	Undone(lost txns.Outcome)
	// TooLarge applies that the store does not accept a transaction of its size: it has had no effect.
	TooLarge(why string)
}

// resupplier is a Proposal that may pick volumes or devices again: decisions made while it was in flight have
// counted the pod's earlier ones.
type resupplier interface{ Resupplies() bool }

// Request is a transaction to send. It has either a Proposal, or Answered if only the ledger's watch shows the
// outcome.
type Request struct {
	Proposal Proposal
	Txn      ledger.Txn
	// Attempts are the attempts whose pods it places. They are in flight until the answer.
	Attempts []*attempt.Attempt
	// Pods is how many pods get a reservation that can be bound.
	Pods int
	// Classify classifies its failure. Each: the proposal itself determines which of its pods an earlier copy has
	// placed.
	Classify func(ledger.TxnResult) (txns.Outcome, error)
	Each     bool
	// Epochs are the epochs that it compares, by partition.
	Epochs map[int32]int64
	// Answered is called with the answer, and with how many times the transaction was sent.
	Answered func(r ledger.TxnResult, sent int)
	// Kind is the transaction's name if it has no Proposal.
	Kind string

	// change: it changes a plan, and is no batch of reservations.
	change bool
}

// flight is a Request that has been sent.
type flight struct {
	Request
	id   uint64
	sent int
}

// Slot holds the transaction in flight, if any.
type Slot struct {
	Shard    *shard.State
	Attempts *attempt.Queues
	Record   *record.Recorder
	Effects  *step.Effects
	// Moved applies what an answer has shown of the ledger.
	Moved func(replica.Changes)

	Limits Limits
	flight *flight
	// flights counts transactions, for their IDs.
	flights uint64
	// written holds the changes of documents and guards by the last successful transaction, by key: decisions made while
	// it was in flight have counted its pods already, as staged.
	written map[string]revisions
	// minRevision is the revision that the ledger's watch must have reached before the next transaction: a transaction
	// that compares an older registry would fail.
	minRevision int64
}

// revisions is one change of the revision of a key.
type revisions struct{ from, to int64 }

// Busy reports whether a transaction is in flight.
func (s *Slot) Busy() bool { return s.flight != nil }

// InFlight returns the proposal in flight, nil for none.
func (s *Slot) InFlight() Proposal {
	if s.flight == nil {
		return nil
	}
	return s.flight.Proposal
}

// SeeksPlace reports whether the transaction in flight holds a place for a pod that already counts there.
func (s *Slot) SeeksPlace() bool {
	return s.flight != nil && s.flight.change && len(s.flight.Attempts) > 0
}

// WaitForRevision delays further transactions until the ledger's watch has reached a revision.
func (s *Slot) WaitForRevision(revision int64) { s.minRevision = max(s.minRevision, revision) }

// WaitsForRevision reports whether the next transaction has to wait for the ledger's watch.
func (s *Slot) WaitsForRevision() bool { return s.Shard.Ledger.Revision() < s.minRevision }

// Wrote reports whether the last transaction of this shard brought a document or guard from one revision to another.
func (s *Slot) Wrote(key string, from, to int64) bool { return s.written[key] == revisions{from, to} }

// Forget makes Wrote report false until the next transaction: decisions made in the meantime must be made again.
func (s *Slot) Forget() { s.written = nil }

// Launch sends a change of a plan; an error means that it cannot be made into a transaction. attempts are those
// whose pods it places.
func (s *Slot) Launch(p Proposal, change txns.Change, attempts ...*attempt.Attempt) error {
	txn, err := change.Txn()
	if err == nil {
		err = s.Limits.check(txn, s.Shard.Now)
	}
	if err != nil {
		return fmt.Errorf("scheduler: %s: %w", p.Kind(), err)
	}
	r := Request{Proposal: p, Txn: txn, Attempts: attempts, Classify: change.Classify}
	if change.Authority != nil {
		r.Epochs = change.Authority.Epochs
	}
	r.change = true
	s.Send(r)
	return nil
}

// Send sends a transaction.
func (s *Slot) Send(r Request) {
	s.flights++
	s.flight = &flight{Request: r, id: s.flights}
	if r.Proposal != nil {
		s.Attempts.Send(r.Attempts)
	}
	s.transmit()
}

// transmit emits the transaction in flight, for the first time or again.
func (s *Slot) transmit() {
	f := s.flight
	kind := f.Kind
	if f.Proposal != nil {
		kind = f.Proposal.Kind()
	}
	s.Effects.Commit(&step.Commit{ID: f.id, Kind: kind, Pods: f.Pods, Resubmitted: f.sent, Txn: f.Txn})
	f.sent++
}

// OnResult applies the answer to the transaction in flight.
func (s *Slot) OnResult(r step.Result) error {
	f := s.flight
	if f == nil || f.id != r.ID {
		return fmt.Errorf("scheduler: result %d belongs to no transaction in flight", r.ID)
	}
	if r.Err != nil {
		for _, a := range f.Attempts {
			a.Doubtful = true
		}
		s.transmit()
		return nil
	}
	s.flight = nil
	s.Attempts.TakeAll(attempt.InFlight)
	if r.Refused != "" {
		s.Limits.recordRefused(f.Txn, s.Shard.Now)
		if f.Proposal != nil {
			f.Proposal.TooLarge(r.Refused)
		}
		return nil
	}
	s.Limits.recordAccepted(f.Txn)
	switch {
	case f.Answered != nil:
		f.Answered(r.Txn, f.sent)
		return nil
	case r.Txn.Succeeded:
		return s.onCommitted(f, r.Txn)
	}
	return s.onLost(f, r.Txn)
}

func (s *Slot) onCommitted(f *flight, r ledger.TxnResult) error {
	s.Record.NoteOwnCommit(r.Revision)
	changes, err := s.Shard.Ledger.LearnOwn(f.Txn, r)
	if err != nil {
		return fmt.Errorf("scheduler: transaction result: %w", err)
	}
	s.recordWritten(f.Txn, r.Revision)
	if p, ok := f.Proposal.(resupplier); ok && p.Resupplies() {
		s.Forget()
	}
	f.Proposal.Done(r.Revision)
	s.Moved(changes)
	return nil
}

func (s *Slot) onLost(f *flight, r ledger.TxnResult) error {
	s.Record.NoteLearned(r.Current)
	changes, err := s.Shard.Ledger.Learn(r.Current)
	if err != nil {
		return fmt.Errorf("scheduler: transaction result: %w", err)
	}
	s.Moved(changes)
	lost, err := f.Classify(r)
	if err != nil {
		return fmt.Errorf("scheduler: transaction result: %w", err)
	}
	s.Shard.LoseEpochs(lost.Partitions, f.Epochs)
	if lost.Registry {
		s.WaitForRevision(lost.RegistryRevision)
	}
	if lost.Applied && !f.Each {
		f.Proposal.Done(lost.AppliedAt)
		return nil
	}
	f.Proposal.Undone(lost)
	return nil
}

// recordWritten records what the transaction that was just committed did to the documents and guards that it compared.
func (s *Slot) recordWritten(t ledger.Txn, revision int64) {
	compared := make(map[string]int64, len(t.Compares))
	for _, cmp := range t.Compares {
		compared[cmp.Key] = cmp.Revision
	}
	s.written = make(map[string]revisions, len(t.Puts))
	for _, p := range t.Puts {
		if from, ok := compared[p.Key]; ok {
			s.written[p.Key] = revisions{from: from, to: revision}
		}
	}
}
