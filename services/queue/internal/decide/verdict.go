package decide

import (
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
)

// maxShift keeps the doubling of the backoff from overflowing: beyond it every duration exceeds any sensible maximum.
const maxShift = 32

func (in Decided) apply(c *Core, now moment) {
	if in.Shortened != nil {
		c.shortened(in.Through, *in.Shortened, now)
		return
	}
	for i := range in.Decisions {
		d := &in.Decisions[i]
		if c.history.recalled != 0 && d.Sequence <= c.history.recalled && d.Kind != events.DecisionUngate {
			continue
		}
		c.history.sequence = max(c.history.sequence, d.Sequence)
		c.decided(&d.Decision, now)
	}
	if in.Through >= c.history.sequence {
		c.history.sequence, c.history.stored = in.Through, in.Stored
	}
	c.readAgain(now)
	if in.CaughtUp {
		c.history.caughtUp, c.history.recalled = true, 0
	}
}

func (c *Core) decided(d *events.Decision, now moment) {
	e, ok := c.pods[d.Pod.UID]
	switch {
	case d.Kind == events.DecisionUngate:
		c.ungateSeen(d, now)
	case !ok:
		c.haunt(d, now)
	case d.Kind == events.DecisionCondition:
		c.conditionWritten(e, d)
	case isAnswer(d.Kind) && c.isNews(e, d):
		c.answered(e, d, now)
	}
}

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
func (c *Core) isNews(e *entry, d *events.Decision) bool {
	if d.Token != "" && d.Token == e.attempt.token {
		return true
	}
	if e.in == c.bags.offered {
		return d.Attempt > e.attempt.count
	}
	return d.Attempt > e.attempt.answered
}

// answered moves a pod to the pool where an answer leaves it.
func (c *Core) answered(e *entry, d *events.Decision, now moment) {
	if e.hold.live {
		// The ledger outranks every message: the pod stays held.
		c.tally(e, d, now)
		e.hold.answered = d.Kind == events.DecisionUnplaceable || d.Kind == events.DecisionFailed
		return
	}
	c.detach(e)
	c.tally(e, d, now)
	switch d.Kind {
	case events.DecisionPlaced:
		c.placed(e, d, now)
	case events.DecisionUnplaceable:
		c.turnedDown(e, now)
	case events.DecisionHeldBack:
		c.park(e, now)
	case events.DecisionFailed:
		c.erred(e, now)
	case events.DecisionReleased:
		c.released(e, now)
	case events.DecisionQuarantined:
		c.enter(e, c.bags.quarantine, eventQuarantine, now)
	}
}

// turnedDown handles an attempt that found no node.
func (c *Core) turnedDown(e *entry, now moment) {
	c.park(e, now)
	c.rejectedLike(e)
}

// erred handles an attempt that ended in an error.
func (c *Core) erred(e *entry, now moment) {
	c.backOff(e, now)
	c.requeue(e, eventAttemptFailure, now)
}

// tally counts an answer and ends its token, so that the answer is not believed again.
func (c *Core) tally(e *entry, d *events.Decision, now moment) {
	c.unreject(e)
	if e.lane != nil {
		c.lanes.moved[e.lane] = struct{}{}
		e.lane.learn(d.Kind)
		c.part(e)
	}
	e.attempt.count = max(e.attempt.count, d.Attempt)
	e.attempt.answered = max(e.attempt.answered, d.Attempt)
	e.attempt.token, e.attempt.lost = "", 0
	v := &e.verdict
	v.kind = d.Kind
	v.token = d.Token
	v.remembered = false
	v.retryAt = 0
	v.factSequence = d.FactSequence
	v.factEpoch = d.FactEpoch
	v.ledgerRevision = d.LedgerRevision
	v.factSequence = c.world.epochs.standing(v.factSequence, v.factEpoch)
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
	e.await = await{on: true, until: now.add(c.cfg.ConditionWait)}
}

// placed believes the shard until the ledger's watch has reached the reservation's revision. From then on only the
// ledger counts.
func (c *Core) placed(e *entry, d *events.Decision, now moment) {
	if c.world.revision >= d.LedgerRevision {
		// The entry has come and gone between two looks at the ledger: either the pod is bound, which the facts will
		// show, or the reservation was taken back. A short wait decides which.
		e.verdict.backoffUntil = now.add(c.cfg.InitialBackoff)
		c.enter(e, c.bags.backoff, eventReleased, now)
		return
	}
	e.hold.revision, e.hold.until = d.LedgerRevision, now.add(ledgerWait)
	c.enter(e, c.bags.held, eventPlaced, now)
	c.settling[e] = struct{}{}
}

// park makes a rejected pod wait for what could help it. If that has happened since the state from which the verdict
// was computed, or a plugin has requested another attempt, the pod is tried again after its backoff instead. The same
// holds for a pod that is held back, except that it joins no lane, because being held back implies nothing about
// other pods.
func (c *Core) park(e *entry, now moment) {
	c.backOff(e, now)
	if e.verdict.kind != events.DecisionHeldBack {
		c.join(e)
	}
	c.countRejectors(e, e.verdict.plugins, 1)
	e.verdict.counted = true
	if c.missed(e) || e.attempt.activated {
		c.requeue(e, eventAttemptFailure, now)
		return
	}
	if e.pod.Gated {
		c.free(e, eventAttemptFailure, now)
		return
	}
	c.enter(e, c.bags.parked, eventAttemptFailure, now)
}

// unreject removes a pod from its rejectors' counts, because it is tried again or gone.
func (c *Core) unreject(e *entry) {
	if e.verdict.counted {
		c.countRejectors(e, e.verdict.plugins, -1)
		e.verdict.counted = false
	}
}

// released requeues a pod whose reservation ended without a bind. As upstream, a pod whose binds fail backs off like
// one whose attempts end in errors.
func (c *Core) released(e *entry, now moment) {
	e.attempt.released = min(e.attempt.released, maxShift) + 1
	wait := backoff(c.cfg.InitialBackoff, c.cfg.MaxBackoff, int32(e.attempt.released))
	e.verdict.backoffUntil = max(e.verdict.backoffUntil, now.add(wait))
	c.requeue(e, eventReleased, now)
}

// backOff sets the earliest next attempt, by upstream's formula (pkg/scheduler/backend/queue/backoff_queue.go): the
// initial backoff doubled for each further failure, up to the maximum. Errors in a row count if there are any, else
// rejections.
func (c *Core) backOff(e *entry, now moment) {
	count := e.verdict.rejections
	if e.verdict.errors > 0 {
		count = e.verdict.errors
	}
	e.verdict.backoffUntil = now.add(backoff(c.cfg.InitialBackoff, c.cfg.MaxBackoff, count))
}

func backoff(initial, maximum time.Duration, count int32) time.Duration {
	if count <= 0 || maximum <= 0 {
		return 0
	}
	shift := count - 1
	if shift > maxShift || initial > maximum>>shift {
		return maximum
	}
	return initial << shift
}

// requeue puts a pod into backoff, or frees it at once if its backoff has ended.
func (c *Core) requeue(e *entry, event string, now moment) {
	if e.hold.live || e.pod.Gated || e.ready() <= now {
		c.free(e, event, now)
		return
	}
	c.enter(e, c.bags.backoff, event, now)
}

// endBackoffs frees the pods whose backoff has ended.
func (c *Core) endBackoffs(now moment) {
	for e := c.bags.backoff.First(); e != nil && e.ready() <= now; e = c.bags.backoff.First() {
		e.await = await{}
		c.free(e, eventBackoffComplete, now)
	}
}

// conditionWritten records which version of the pod carries the last verdict's condition.
func (c *Core) conditionWritten(e *entry, d *events.Decision) {
	if !e.await.on || (d.Token != "" && e.verdict.token != "" && d.Token != e.verdict.token) {
		return
	}
	e.await.version = d.PodResourceVersion
	if e.pod != nil && e.pod.ResourceVersion >= d.PodResourceVersion {
		c.awaited(e)
	}
}

// awaited ends the wait for the condition.
func (c *Core) awaited(e *entry) {
	e.await = await{}
	if e.in == c.bags.backoff {
		c.bags.backoff.Fix(e)
		c.mayGoEarly(e)
	}
}
