package decide

import (
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
)

// ledgerWait bounds how long a pod waits for the ledger's watch to reach the reservation that a shard has reported. A
// ledger that was lost since then may never reach it. If the watch is merely late, the shard that is offered the pod
// again finds its reservation.
const ledgerWait = 30 * time.Second

// decided applies a decision about a pod: an answer to an attempt, or a condition that was written. gone reports
// whether the facts would show the pod, if they do not, had it not ended.
func (b *backlog) decided(d *events.Decision, gone bool, now moment) {
	e, ok := b.pods[d.Pod.UID]
	switch {
	case !ok:
		b.unseen.keep(d, gone, func(e *entry) { e.answered(d, b.world.epochs, b.cfg.ConditionWait, now) })
	case d.Kind == events.DecisionCondition:
		if e.conditionWritten(d) {
			b.awaited(e)
		}
	case isAnswer(d.Kind) && e.isNews(d):
		b.answered(e, d, now)
	}
}

// answered moves a pod to the pool where an answer leaves it.
func (b *backlog) answered(e *entry, d *events.Decision, now moment) {
	if !e.hold.live {
		b.pools.detach(e)
	}
	b.pools.answered(e, d.Kind)
	e.answered(d, b.world.epochs, b.cfg.ConditionWait, now)
	if e.hold.live {
		// The ledger outranks every message: the pod stays held.
		e.hold.answered = d.Kind == events.DecisionUnplaceable || d.Kind == events.DecisionFailed
		return
	}
	switch d.Kind {
	case events.DecisionPlaced:
		b.placed(e, d, now)
	case events.DecisionUnplaceable:
		b.rejected(e, now)
	case events.DecisionHeldBack:
		b.park(e, now)
	case events.DecisionFailed:
		b.failed(e, now)
	case events.DecisionReleased:
		b.released(e, now)
	case events.DecisionQuarantined:
		b.pools.enter(e, b.pools.quarantine, eventQuarantine, now)
	}
}

// rejected handles an attempt that found no node.
func (b *backlog) rejected(e *entry, now moment) {
	b.park(e, now)
	b.pools.lanes.rejected(e)
}

// failed handles an attempt that ended in an error.
func (b *backlog) failed(e *entry, now moment) {
	e.backOff(b.cfg, now)
	b.requeue(e, eventAttemptFailure, now)
}

// placed believes the shard until the ledger's watch has reached the reservation's revision. From then on only the
// ledger counts.
func (b *backlog) placed(e *entry, d *events.Decision, now moment) {
	if b.world.revision >= d.LedgerRevision {
		// The entry has come and gone between two looks at the ledger: either the pod is bound, which the facts will
		// show, or the reservation was taken back. A short wait decides which.
		e.verdict.backoffUntil = now.add(b.cfg.InitialBackoff)
		b.pools.enter(e, b.pools.backoff, eventReleased, now)
		return
	}
	e.hold.revision, e.hold.until = d.LedgerRevision, now.add(ledgerWait)
	b.pools.enter(e, b.pools.held, eventPlaced, now)
	b.pools.settling[e] = struct{}{}
}

// released requeues a pod whose reservation ended without a bind.
func (b *backlog) released(e *entry, now moment) {
	e.released(b.cfg, now)
	b.requeue(e, eventReleased, now)
}

// trustMemory moves the remembered verdicts forward to a ledger revision, because nothing in the ledger up to there
// can help the pods.
func (b *backlog) trustMemory(revision int64) {
	for _, all := range []map[string]*entry{b.unseen, b.pods} {
		for _, e := range all {
			if e.verdict.remembered {
				e.verdict.ledgerRevision = revision
			}
		}
	}
}
