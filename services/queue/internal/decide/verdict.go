package decide

import (
	"github.com/berth-scheduler/berth/pkg/events"
)

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
		b.pools.placed(e, d, now)
	case events.DecisionUnplaceable:
		b.pools.rejected(e, now)
	case events.DecisionHeldBack:
		b.pools.park(e, now)
	case events.DecisionFailed:
		b.pools.failed(e, now)
	case events.DecisionReleased:
		b.pools.released(e, now)
	case events.DecisionQuarantined:
		b.pools.enter(e, b.pools.quarantine, eventQuarantine, now)
	}
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
