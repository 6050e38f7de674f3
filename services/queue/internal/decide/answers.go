package decide

import (
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
)

// isAnswer reports whether decisions of a kind end an attempt.
func isAnswer(k events.DecisionKind) bool {
	switch k {
	case events.DecisionPlaced, events.DecisionUnplaceable, events.DecisionFailed, events.DecisionReleased,
		events.DecisionQuarantined, events.DecisionHeldBack:
		return true
	}
	return false
}

// isNews reports whether a decision is the answer to the last offer that this replica made, late or not; or the
// answer to a later attempt, which another leader offered: later than the last known attempt while the pod is
// offered, else later than the last answered one. Repeated answers and answers to earlier attempts are not news.
func (e *entry) isNews(d *events.Decision) bool {
	if d.Token != "" && d.Token == e.attempt.token {
		return true
	}
	if e.pool() == PoolOffered {
		return d.Attempt > e.attempt.count
	}
	return d.Attempt > e.attempt.answered
}

// answered records an answer and ends its token, so that the answer is not believed again. condition is how long to
// wait for the condition of the answer to show.
func (e *entry) answered(d *events.Decision, epochs epochs, condition time.Duration, now moment) {
	e.attempt.count = max(e.attempt.count, d.Attempt)
	e.attempt.answered = max(e.attempt.answered, d.Attempt)
	e.attempt.token, e.attempt.lost = "", 0
	v := &e.verdict
	v.kind = d.Kind
	v.token = d.Token
	v.remembered = false
	v.retryAt = 0
	v.factSequence = epochs.valid(d.FactSequence, d.FactEpoch)
	v.factEpoch = d.FactEpoch
	v.ledgerRevision = d.LedgerRevision
	switch d.Kind {
	case events.DecisionUnplaceable:
		v.rejections++
		v.errors = 0
		v.message, v.plugins = d.Message, d.Plugins
		if d.RetryAfter > 0 {
			v.retryAt = now.add(d.RetryAfter)
		}
	case events.DecisionHeldBack:
		v.rejections++
		v.errors = 0
		v.message, v.plugins = d.Message, d.Plugins
		return // it has not been tried, and there is no condition to wait for
	case events.DecisionFailed:
		v.errors++
		v.message, v.plugins = d.Message, nil
	case events.DecisionQuarantined:
		v.message, v.plugins = d.Message, nil
	default:
		return
	}
	// The pod queues again from now, and waits for its condition.
	e.attempt.released, e.attempt.flushed = 0, false
	e.queued = now
	e.await = await{on: true, until: now.add(condition)}
}

// conditionWritten records which version of the pod carries the last verdict's condition. It reports whether the facts
// show that version.
func (e *entry) conditionWritten(d *events.Decision) bool {
	if !e.await.on || (d.Token != "" && e.verdict.token != "" && d.Token != e.verdict.token) {
		return false
	}
	e.await.version = d.PodResourceVersion
	return e.pod != nil && e.pod.ResourceVersion >= d.PodResourceVersion
}

// conditionShown reports whether the facts show the pod as the last verdict's condition left it.
func (e *entry) conditionShown() bool {
	return e.await.on && e.await.version != 0 && e.pod.ResourceVersion >= e.await.version
}
