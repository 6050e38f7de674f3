package waiting

import (
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
)

// IsAnswer reports whether decisions of a kind end an attempt.
func IsAnswer(k events.DecisionKind) bool {
	switch k {
	case events.DecisionPlaced, events.DecisionUnplaceable, events.DecisionFailed, events.DecisionReleased,
		events.DecisionQuarantined, events.DecisionHeldBack:
		return true
	}
	return false
}

// IsNews reports whether a decision is the answer to the last offer that this replica made, late or not; or the
// answer to a later attempt, which another leader offered: later than the last known attempt while the pod is
// offered, else later than the last answered one. Repeated answers and answers to earlier attempts are not news.
func (e *Entry) IsNews(d *events.Decision) bool {
	if d.Token != "" && d.Token == e.Attempt.Token {
		return true
	}
	if e.Pool() == PoolOffered {
		return d.Attempt > e.Attempt.Count
	}
	return d.Attempt > e.Attempt.Answered
}

// Answered records an answer and ends its token, so that the answer is not believed again. condition is how long to
// wait for the condition of the answer to show.
func (e *Entry) Answered(d *events.Decision, epochs Epochs, condition time.Duration, now Moment) {
	e.Attempt.Count = max(e.Attempt.Count, d.Attempt)
	e.Attempt.Answered = max(e.Attempt.Answered, d.Attempt)
	e.Attempt.Token, e.Attempt.Lost = "", 0
	v := &e.Verdict
	v.Kind = d.Kind
	v.token = d.Token
	v.Remembered = false
	v.retryAt = 0
	v.FactSequence = epochs.Valid(d.FactSequence, d.FactEpoch)
	v.FactEpoch = d.FactEpoch
	v.LedgerRevision = d.LedgerRevision
	switch d.Kind {
	case events.DecisionUnplaceable:
		v.Rejections++
		v.Errors = 0
		v.Message, v.Plugins = d.Message, d.Plugins
		if d.RetryAfter > 0 {
			v.retryAt = now.Add(d.RetryAfter)
		}
	case events.DecisionHeldBack:
		v.Rejections++
		v.Errors = 0
		v.Message, v.Plugins = d.Message, d.Plugins
		return // it has not been tried, and there is no condition to wait for
	case events.DecisionFailed:
		v.Errors++
		v.Message, v.Plugins = d.Message, nil
	case events.DecisionQuarantined:
		v.Message, v.Plugins = d.Message, nil
	default:
		return
	}
	// The pod queues again from now, and waits for its condition.
	e.Attempt.Released, e.Attempt.Flushed = 0, false
	e.Queued = now
	e.Await = Await{On: true, Until: now.Add(condition)}
}

// ConditionWritten records which version of the pod carries the last verdict's condition. It reports whether the facts
// show that version.
func (e *Entry) ConditionWritten(d *events.Decision) bool {
	if !e.Await.On || (d.Token != "" && e.Verdict.token != "" && d.Token != e.Verdict.token) {
		return false
	}
	e.Await.Version = d.PodResourceVersion
	return e.Pod != nil && e.Pod.ResourceVersion >= d.PodResourceVersion
}
