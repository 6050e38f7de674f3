package reserve

import (
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/services/scheduler/internal/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/internal/lifecycle"
	"github.com/berth-scheduler/berth/services/scheduler/internal/record"
	"github.com/berth-scheduler/berth/services/scheduler/internal/shard"
	"github.com/berth-scheduler/berth/services/scheduler/internal/step"
	"github.com/berth-scheduler/berth/services/scheduler/internal/txn"
)

// Reserver makes reservations of the attempts that are staged: T1, for as many at once as one transaction takes.
type Reserver struct {
	Shard    *shard.State
	Attempts *attempt.Queues
	Record   *record.Recorder
	Effects  *step.Effects
	Life     *lifecycle.Attempts
	Slot     *txn.Slot
	// Settle goes on with what plugins have to do about a reservation; false if they have something left to do first.
	Settle func(a *attempt.Attempt, revision int64) bool
	// Missed notes the places kept for the pod that it did not take.
	Missed func(*attempt.Attempt)
	// AskTurn asks for a turn at the node that an attempt has just lost.
	AskTurn func(*attempt.Attempt)
}

// placing is a T1 in flight.
type placing struct {
	by       *Reserver
	attempts []*attempt.Attempt
	batch    txns.PlaceBatch
	txn      ledger.Txn
}

// Send sends a batch of the staged attempts, unless all leave it.
func (r *Reserver) Send() {
	p, rest := r.build(r.Attempts.TakeAll(attempt.Staged))
	r.Attempts.Append(attempt.Staged, rest...)
	if len(p.attempts) == 0 {
		return // all have left it, or it is built again of fewer
	}
	r.Slot.Send(txn.Request{
		Proposal: p, Txn: p.txn, Attempts: p.attempts, Pods: len(p.batch.Placed), Epochs: p.batch.Epochs,
		Losers: func(result ledger.TxnResult) (txns.Outcome, error) { return txns.Classify(p.batch, result) }, Each: true,
	})
}

// Kind implements txn.Proposal.
func (*placing) Kind() string { return "T1" }

// Done implements txn.Proposal.
func (p *placing) Done(revision int64) { p.by.placed(p.attempts, revision) }

// TooLarge implements txn.Proposal.
func (p *placing) TooLarge(why string) { p.by.split(p.attempts, why) }

// build makes the transaction of a batch: the finished entries of each document are
// handed over on the way (T5). Attempts that cannot be part of it leave it, above all those
// whose document or guards have moved since they were decided: what moved them is not in
// what they counted, and high-waters may be ahead of the facts they saw. (Committing on the
// newest known revision instead overcommits nodes: docs/bugs.md, 1.) The batch ends where
// the transaction is full; the rest keeps its order, because what is in it may have counted
// what comes before. An attempt that fits no transaction, or whose reservation fits no document, fails
// alone.
func (r *Reserver) build(attempts []*attempt.Attempt) (p *placing, rest []*attempt.Attempt) {
	b := r.newBatch()
	for i, a := range attempts {
		if !r.mayReserve(a) {
			r.Life.GiveBack(a)
			continue
		}
		if !r.current(a.Pick) || !r.stands(a) {
			r.Life.Again(a)
			continue
		}
		entry, err := a.Entry(r.Shard.ID)
		if err != nil {
			r.Life.Fail(a, err.Error())
			continue
		}
		if b.full(a) || b.holdsBack(a) {
			rest = attempts[i:]
			break
		}
		added := b.add(a, entry)
		if added == tooMuch {
			rest = attempts[i:]
			break
		}
		switch added {
		case joined, tooMuch:
		case crowded:
			r.crowdedOut(a, b.why)
		case stale:
			r.Life.Again(a)
		case impossible:
			r.Life.Fail(a, b.why.Error())
		}
	}
	return r.seal(b.placing()), rest
}

// mayReserve reports whether the decision of an attempt may still become a reservation: its
// partition is held in the epoch of the decision, its pod waits without a reservation, and the ledger
// is open. What the
// shard staged in an earlier epoch has not counted what others decided about the pod since, not
// even if the partition has come back (docs/bugs.md, 30).
func (r *Reserver) mayReserve(a *attempt.Attempt) bool {
	epoch, held := r.Shard.Holds(a.Offer.Partition)
	pod, known := r.Shard.View.Pod(a.Pod.UID)
	_, _, reserved := r.Shard.Ledger.Entry(a.Pod.UID)
	return held && epoch == a.Pick.Epoch && known && pod.NodeName == "" && !reserved && r.Shard.Usable()
}

// current reports whether the document of a pick is the one it was decided on, or that plus
// this shard's own last flight.
func (r *Reserver) current(p attempt.Pick) bool {
	now := r.Shard.Ledger.Version(p.NodeUID)
	return now == p.Basis || r.Slot.Wrote(ledger.KeyNode(p.NodeUID), p.Basis.Revision, now.Revision)
}

// stands reports whether what a pick needs is still what it was decided on, or that plus this
// shard's own last flight; the guards' revisions are brought up to that.
//
// When the registry has moved, every pick is decided again, also one that no term concerns:
// a term may have come and gone since, with carriers that the decision has not seen and
// that no guard stands for any more.
func (r *Reserver) stands(a *attempt.Attempt) bool {
	n := &a.Pick.Needs
	if n.Registry != r.Shard.Ledger.TermRegistryRevision() || n.CountsBatch && n.Withdrawn != r.Life.Withdrawn {
		return false
	}
	if r.Life.Overtaken(&a.Pick) {
		return false // it may have counted the room as free
	}
	if r.Shard.Claims.Moved(a.Pick.Volumes) {
		return false // another pod has been promised the claim since, and may use it
	}
	for i := range n.Guards {
		g := &n.Guards[i]
		if !g.Compare {
			continue
		}
		now, counted := r.Shard.Ledger.Guard(g.Key)
		if !counted || now != g.Revision && !r.Slot.Wrote(g.Key, g.Revision, now) {
			return false
		}
		g.Revision = now
	}
	return true
}

// seal turns the batch into its transaction. One that cannot be made is tried in parts, until the attempt
// is alone that is to blame.
func (r *Reserver) seal(p *placing) *placing {
	if len(p.attempts) == 0 {
		return p
	}
	txn, err := p.batch.Txn()
	if err != nil {
		r.split(p.attempts, err.Error())
		return &placing{}
	}
	p.txn = txn
	return p
}
