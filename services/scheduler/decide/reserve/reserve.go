package reserve

import (
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/services/scheduler/decide/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/decide/contention"
	"github.com/berth-scheduler/berth/services/scheduler/decide/lifecycle"
	"github.com/berth-scheduler/berth/services/scheduler/decide/record"
	"github.com/berth-scheduler/berth/services/scheduler/decide/shard"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
	"github.com/berth-scheduler/berth/services/scheduler/decide/txn"
)

// Reserver reserves places for the staged attempts: T1, for as many at once as fit in one transaction. It keeps
// nothing between transactions: the attempts are in the queues, and the T1 in flight is in the slot.
type Reserver struct {
	Shard    *shard.State
	Attempts *attempt.Queues
	Record   *record.Recorder
	Effects  *step.Effects
	Life     *lifecycle.Attempts
	Slot     *txn.Slot
	// OnCommitted continues with the plugins of a reservation; false if they have work left before the bind.
	OnCommitted func(a *attempt.Attempt, revision int64) bool
	// ReleaseUnfit notes the places kept for the pod that the attempt did not take.
	ReleaseUnfit func(*attempt.Attempt)
	// RequestTurn asks for a turn at the node that an attempt has just lost.
	RequestTurn func(*attempt.Attempt)
	// Contention learns how transactions end.
	Contention *contention.Meter
}

// placing is a T1 in flight.
type placing struct {
	by       *Reserver
	attempts []*attempt.Attempt
	batch    txns.PlaceBatch
	txn      ledger.Txn
	// gang is the gang whose members the attempts are; nil for pods that are placed alone.
	gang *attempt.Gang
}

// Send sends a batch of the staged attempts, unless all of them leave the batch. The slot must be free. Attempts
// that do not fit stay staged, in their order, before those that are staged later.
func (r *Reserver) Send() {
	p, rest := r.build(r.Attempts.TakeAll(attempt.Staged))
	r.Attempts.Append(attempt.Staged, rest...)
	if len(p.attempts) == 0 {
		return // all have left it, or it is built again from fewer attempts
	}
	r.Contention.Sent()
	r.Slot.Send(txn.Request{
		Proposal: p, Txn: p.txn, Attempts: p.attempts, Pods: len(p.batch.Placed), Epochs: p.batch.Epochs,
		Classify: func(result ledger.TxnResult) (txns.Outcome, error) { return txns.Classify(p.batch, result) }, Each: true,
	})
}

// Kind implements txn.Proposal.
func (*placing) Kind() string { return "T1" }

// Done implements txn.Proposal.
func (p *placing) Done(revision int64) {
	p.by.Contention.Answered(p.by.Shard.Now)
	p.by.placed(p.attempts, revision)
}

// TooLarge implements txn.Proposal.
func (p *placing) TooLarge(why string) {
	if p.gang != nil {
		p.by.failGang(p.attempts, why)
		return
	}
	p.by.split(p.attempts, why)
}

// build builds the transaction of a batch; it also hands over the finished entries of each document (T5). Attempts
// that cannot be part of it leave the batch, above all those whose document or guards have changed since they were
// decided: they have not counted that change, and high-water marks may be ahead of the facts that they saw.
// (Committing on the newest known revision instead overcommits nodes: docs/bugs.md, 1.) The batch ends where the
// transaction is full. The rest keeps its order, because an attempt may have counted those before it. An attempt
// that fits no transaction, or whose reservation fits no document, fails alone.
func (r *Reserver) build(attempts []*attempt.Attempt) (p *placing, rest []*attempt.Attempt) {
	if len(attempts) > 0 && attempts[0].Gang != nil {
		return r.buildGang(attempts)
	}
	b := r.newBatch()
	for i, a := range attempts {
		if a.Gang != nil {
			rest = attempts[i:] // in a transaction of its own
			break
		}
		if !r.mayReserve(a) {
			r.Life.GiveBack(a)
			continue
		}
		if !r.docUnchanged(a.Pick) || !r.needsUnchanged(a) {
			r.Life.Requeue(a)
			continue
		}
		// The entry is built here and not when the pod was staged: plugins have decided since whether the place is
		// only held.
		entry, err := a.Entry(r.Shard.ID)
		if err != nil {
			r.Life.Fail(a, err.Error())
			continue
		}
		if b.full(a) || b.excludes(a) {
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
			r.Life.Requeue(a)
		case impossible:
			r.Life.Fail(a, b.why.Error())
		}
	}
	p, err := b.seal()
	if err != nil {
		// It is tried in smaller parts, until the attempt that causes the failure is alone.
		r.split(b.attempts, err.Error())
		return &placing{}, rest
	}
	return p, rest
}

// mayReserve reports whether the decision of an attempt may still become a reservation: its partition is held in the
// epoch of the decision, its pod waits without a reservation, and the ledger is open. Attempts that the shard staged
// in an earlier epoch have not counted what other shards decided about the pod since, even if the partition has come
// back (docs/bugs.md, 30).
func (r *Reserver) mayReserve(a *attempt.Attempt) bool {
	epoch, held := r.Shard.Holds(a.Offer.Partition)
	pod, known := r.Shard.View.Pod(a.Pod.UID)
	_, _, reserved := r.Shard.Ledger.Entry(a.Pod.UID)
	return held && epoch == a.Pick.Epoch && known && pod.NodeName == "" && !reserved && r.Shard.Usable()
}

// docUnchanged reports whether the document of a pick is still the version that it was decided on, or that version plus
// this shard's own last transaction.
func (r *Reserver) docUnchanged(p attempt.Pick) bool {
	now := r.Shard.Ledger.Version(p.NodeUID)
	return now == p.Basis || r.Slot.Wrote(ledger.KeyNode(p.NodeUID), p.Basis.Revision, now.Revision)
}

// needsUnchanged reports whether the needs of a pick are unchanged since the decision, except by this shard's own last
// transaction; it updates the revisions of the guards to that.
//
// When the registry has changed, every pick is decided again, even one that no term concerns: a term may have been
// added and removed since, with carriers that the decision has not seen and that no guard covers any more.
func (r *Reserver) needsUnchanged(a *attempt.Attempt) bool {
	n := &a.Pick.Needs
	if n.Registry != r.Shard.Ledger.Terms().RegistryRevision() || n.CountsBatch && n.Withdrawn != r.Life.Withdrawn {
		return false
	}
	if r.Life.PlaceReturnedSince(&a.Pick) {
		return false // it may have counted the room as free
	}
	if r.Shard.Claims.Changed(a.Pick.Volumes) {
		return false // the claim has been promised to another pod since, which may use it
	}
	for i := range n.Guards {
		g := &n.Guards[i]
		if !g.Compare {
			continue
		}
		now, counted := r.Shard.Ledger.Terms().Guard(g.Key)
		if !counted || now != g.Revision && !r.Slot.Wrote(g.Key, g.Revision, now) {
			return false
		}
		g.Revision = now
	}
	return true
}
