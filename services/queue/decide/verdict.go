package decide

import (
	"github.com/berth-scheduler/berth/pkg/events"

	"github.com/berth-scheduler/berth/services/queue/decide/waiting"
)

// decided applies a decision about a pod: an answer to an attempt, or a condition that was written. gone reports
// whether the facts would show the pod, if they do not, had it not ended.
func (b *backlog) decided(d *events.Decision, gone bool, now waiting.Moment) {
	e, ok := b.pods[d.Pod.UID]
	switch {
	case !ok:
		b.unseen.record(d, gone, func(e *waiting.Entry) { e.Answered(d, b.world.Epochs, b.cfg.ConditionWait, now) })
	case d.Kind == events.DecisionCondition:
		if e.ConditionWritten(d) {
			b.pools.ConditionShown(e)
		}
	case waiting.IsAnswer(d.Kind) && e.IsNews(d):
		b.answered(e, d, now)
	}
}

// answered moves a pod to the pool where an answer leaves it.
func (b *backlog) answered(e *waiting.Entry, d *events.Decision, now waiting.Moment) {
	if !e.Hold.Live {
		b.pools.Detach(e)
	}
	b.pools.Answered(e, d.Kind)
	e.Answered(d, b.world.Epochs, b.cfg.ConditionWait, now)
	if e.Hold.Live {
		// The ledger outranks every message: the pod stays held.
		e.Hold.Answered = d.Kind == events.DecisionUnplaceable || d.Kind == events.DecisionFailed
		return
	}
	switch d.Kind {
	case events.DecisionPlaced:
		b.pools.Placed(e, d, now)
	case events.DecisionUnplaceable:
		b.pools.Rejected(e, now)
	case events.DecisionHeldBack:
		b.pools.Park(e, now)
	case events.DecisionFailed:
		b.pools.Failed(e, now)
	case events.DecisionReleased:
		b.pools.Released(e, now)
	case events.DecisionQuarantined:
		b.pools.Enter(e, b.pools.Quarantine, waiting.EventQuarantine, now)
	}
}

// advanceMemory moves the remembered verdicts forward to a ledger revision, because nothing in the ledger up to there
// can help the pods.
func (b *backlog) advanceMemory(revision int64) {
	for _, all := range []map[string]*waiting.Entry{b.unseen, b.pods} {
		for _, e := range all {
			if e.Verdict.Remembered {
				e.Verdict.LedgerRevision = revision
			}
		}
	}
}
