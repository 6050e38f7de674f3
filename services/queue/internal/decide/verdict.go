package decide

import (
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
)

// maxShift keeps the doubling of the backoff from overflowing: beyond it every duration
// is past any sensible maximum.
const maxShift = 32

func (in Decided) apply(c *Core, now time.Time) {
	if !c.leases.leading {
		return
	}
	for i := range in.Decisions {
		d := &in.Decisions[i].Decision
		e, ok := c.pods[d.Pod.UID]
		if !ok {
			continue
		}
		if d.Kind == events.DecisionCondition {
			c.conditionWritten(e, d)
			continue
		}
		if !answers(e, d) {
			continue
		}
		switch d.Kind {
		case events.DecisionPlaced:
			c.placed(e, d, now)
		case events.DecisionUnplaceable:
			c.rejected(e, d, now)
		case events.DecisionFailed:
			c.failed(e, d, now)
		case events.DecisionReleased:
			c.answered(e, d)
			c.free(e, eventReleased, now)
		}
	}
}

// answers says whether a decision is the answer to the pod's last offer. Late answers
// count until the pod is offered again or held; repeated ones and those of earlier offers
// do not, because the token ends with the first.
func answers(e *entry, d *events.Decision) bool {
	return d.Token != "" && d.Token == e.attempt.token
}

// placed believes the shard until the ledger's watch has reached the reservation's
// revision; from then on only the ledger counts.
func (c *Core) placed(e *entry, d *events.Decision, now time.Time) {
	if c.world.revision >= d.LedgerRevision {
		// The entry has come and gone between two looks at the ledger: the pod is bound,
		// which the facts will show, or it was taken back. A short wait tells.
		c.answered(e, d)
		e.verdict.backoffUntil = now.Add(c.cfg.InitialBackoff)
		c.enter(e, c.bags.backoff, eventReleased, now)
		return
	}
	c.answered(e, d)
	e.hold.revision = d.LedgerRevision
	c.enter(e, c.bags.held, eventPlaced, now)
	c.settling[e] = struct{}{}
}

// answered takes the pod out of its pool and ends its token, so that a repeated answer is
// not believed; the caller puts the pod into the next pool.
func (c *Core) answered(e *entry, d *events.Decision) {
	c.detach(e)
	e.attempt.token = ""
	e.verdict.token = d.Token
}

// rejected parks a pod by cause; if something its rejectors care about happened after
// what the verdict was computed from, it is tried again after its backoff instead.
func (c *Core) rejected(e *entry, d *events.Decision, now time.Time) {
	c.record(e, d, now)
	e.verdict.rejections++
	e.verdict.errors = 0
	e.verdict.message, e.verdict.plugins = d.Message, d.Plugins
	e.verdict.interest = interestOf(d.Plugins)
	c.backOff(e, now)
	if c.missed(e) {
		c.requeue(e, eventAttemptFailure, now)
		return
	}
	c.enter(e, c.bags.parked, eventAttemptFailure, now)
}

// failed backs a pod off after an error: there is no cause to wait for.
func (c *Core) failed(e *entry, d *events.Decision, now time.Time) {
	c.record(e, d, now)
	e.verdict.errors++
	e.verdict.message, e.verdict.plugins, e.verdict.interest = d.Message, nil, causeAny
	c.backOff(e, now)
	c.requeue(e, eventAttemptFailure, now)
}

// record is answered for a verdict: the pod queues anew, and waits for its condition.
func (c *Core) record(e *entry, d *events.Decision, now time.Time) {
	c.answered(e, d)
	e.queued = now
	e.verdict.factSequence, e.verdict.ledgerRevision = d.FactSequence, d.LedgerRevision
	e.await = await{on: true, until: now.Add(c.cfg.ConditionWait)}
}

// backOff sets the earliest next attempt, by upstream's formula (pkg/scheduler/backend/
// queue/backoff_queue.go): the initial backoff doubled for each further failure, where
// errors in a row count if there are any, else rejections; at most the maximum.
func (c *Core) backOff(e *entry, now time.Time) {
	count := e.verdict.rejections
	if e.verdict.errors > 0 {
		count = e.verdict.errors
	}
	e.verdict.backoffUntil = now.Add(backoff(c.cfg.InitialBackoff, c.cfg.MaxBackoff, count))
}

func backoff(initial, maximum time.Duration, count int) time.Duration {
	if count <= 0 || maximum <= 0 {
		return 0
	}
	shift := count - 1
	if shift > maxShift || initial > maximum>>shift {
		return maximum
	}
	return initial << shift
}

// requeue puts a pod into backoff, or into active if its time has come.
func (c *Core) requeue(e *entry, event string, now time.Time) {
	switch {
	case e.hold.live || e.pod.Gated || !e.ready().After(now):
		c.free(e, event, now)
	default:
		c.enter(e, c.bags.backoff, event, now)
	}
}

// endBackoffs activates the pods whose time has come.
func (c *Core) endBackoffs(now time.Time) {
	for e := c.bags.backoff.first(); e != nil && !e.ready().After(now); e = c.bags.backoff.first() {
		e.await = await{}
		c.free(e, eventBackoffComplete, now)
	}
}

// conditionWritten learns which version of the pod carries the last verdict's condition.
func (c *Core) conditionWritten(e *entry, d *events.Decision) {
	if !e.await.on || (d.Token != "" && e.verdict.token != "" && d.Token != e.verdict.token) {
		return
	}
	e.await.version = d.PodResourceVersion
	if e.pod.ResourceVersion >= d.PodResourceVersion {
		c.awaited(e)
	}
}

// awaited ends the wait for the condition.
func (c *Core) awaited(e *entry) {
	e.await = await{}
	if e.pool() == PoolBackoff {
		c.bags.backoff.fix(e)
	}
}
