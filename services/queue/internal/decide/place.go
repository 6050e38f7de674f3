package decide

import (
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement"
)

// ledgerWait bounds how long a pod waits for the ledger's watch to reach the reservation that a shard has reported. A
// ledger that was lost since then may never reach it. If the watch is merely late, the shard that is offered the pod
// again finds its reservation.
const ledgerWait = 30 * time.Second

// maxShift keeps the doubling of the backoff from overflowing: beyond it every duration exceeds any sensible maximum.
const maxShift = 32

// resume puts a pod into the pool where its last answer left it.
func (p *pools) resume(e *entry, now moment) {
	switch {
	case e.hold.live || e.pod.Gated:
		p.free(e, eventPodAdd, now)
	case e.verdict.kind == events.DecisionUnplaceable, e.verdict.kind == events.DecisionHeldBack:
		p.park(e, now)
	case e.verdict.kind == events.DecisionFailed:
		e.backOff(&p.cfg, now)
		p.requeue(e, eventPodAdd, now)
	case e.verdict.kind == events.DecisionQuarantined:
		p.enter(e, p.quarantine, eventPodAdd, now)
	default:
		p.free(e, eventPodAdd, now)
	}
}

// park makes a rejected pod wait for what could help it. If that has happened since the state from which the verdict
// was computed, or a plugin has requested another attempt, the pod is tried again after its backoff instead. The same
// holds for a pod that is held back, except that it joins no lane, because being held back implies nothing about
// other pods.
func (p *pools) park(e *entry, now moment) {
	e.backOff(&p.cfg, now)
	profile := p.profile(e)
	if e.verdict.kind != events.DecisionHeldBack {
		p.lanes.join(e, profile)
	}
	p.reject(e)
	if p.journal.missed(e, profile) || e.attempt.activated {
		p.requeue(e, eventAttemptFailure, now)
		return
	}
	if e.pod.Gated {
		p.free(e, eventAttemptFailure, now)
		return
	}
	p.enter(e, p.parked, eventAttemptFailure, now)
}

// requeue puts a pod into backoff, or frees it at once if its backoff has ended.
func (p *pools) requeue(e *entry, event string, now moment) {
	if e.hold.live || e.pod.Gated || e.ready() <= now {
		p.free(e, event, now)
		return
	}
	p.enter(e, p.backoff, event, now)
}

// free puts a pod that nothing detains any more into the pool where it belongs: held if it has a reservation, gated
// if it has gates, parked if an object that it needs does not exist yet, else active. It keeps its place in the
// order.
func (p *pools) free(e *entry, event string, now moment) {
	switch {
	case e.hold.live:
		p.enter(e, p.held, event, now)
	case e.pod.Gated:
		p.enter(e, p.gated, event, now)
	default:
		if plugin, what := p.expects(e); what != "" {
			p.holdBack(e, plugin, what, event, now)
			return
		}
		p.enter(e, p.active[e.partition], event, now)
	}
}

// expects returns an object that must exist before a pod is tried and is still being created, and the rule that
// requires it: claims to devices made from a template appear after the pod. A pod that has waited for too long is
// tried all the same, so that its condition explains what is missing. Source: runPreEnqueuePlugins of
// pkg/scheduler/backend/queue/scheduling_queue.go.
func (p *pools) expects(e *entry) (plugin, what string) {
	if p.world.objects == nil || e.attempt.flushed {
		return "", ""
	}
	return p.profile(e).Expects(e.pod, p.world.objects)
}

// holdBack parks a pod until an event occurs that the rule listens to, without an attempt, a condition or a backoff.
func (p *pools) holdBack(e *entry, plugin, what, event string, now moment) {
	p.report.Waited(e, event, now)
	p.remove(e)
	v := &e.verdict
	v.kind = events.DecisionHeldBack
	v.message = what
	v.plugins = []string{plugin}
	v.factSequence = p.world.facts.Sequence
	v.factEpoch = p.world.facts.Epoch
	v.ledgerRevision = p.world.revision
	p.reject(e)
	p.enter(e, p.parked, event, now)
}

// rejected handles an attempt that found no node.
func (p *pools) rejected(e *entry, now moment) {
	p.park(e, now)
	p.lanes.rejected(e)
}

// failed handles an attempt that ended in an error.
func (p *pools) failed(e *entry, now moment) {
	e.backOff(&p.cfg, now)
	p.requeue(e, eventAttemptFailure, now)
}

// placed believes the shard until the ledger's watch has reached the reservation's revision. From then on only the
// ledger counts.
func (p *pools) placed(e *entry, d *events.Decision, now moment) {
	if p.world.revision >= d.LedgerRevision {
		// The entry has come and gone between two looks at the ledger: either the pod is bound, which the facts will
		// show, or the reservation was taken back. A short wait decides which.
		e.verdict.backoffUntil = now.add(p.cfg.InitialBackoff)
		p.enter(e, p.backoff, eventReleased, now)
		return
	}
	e.hold.revision, e.hold.until = d.LedgerRevision, now.add(ledgerWait)
	p.enter(e, p.held, eventPlaced, now)
	p.settle(e)
}

// released requeues a pod whose reservation ended without a bind.
func (p *pools) released(e *entry, now moment) {
	e.released(&p.cfg, now)
	p.requeue(e, eventReleased, now)
}

// enter moves a pod into a pool.
func (p *pools) enter(e *entry, to *bag, event string, now moment) {
	p.report.Waited(e, event, now)
	p.detach(e)
	if to.pool != PoolActive && to.pool != PoolOffered {
		p.lanes.giveBackPermit(e)
	}
	if to.pool == PoolActive && e.lane != nil && !e.permit {
		to = e.lane.blocked
		p.lanes.visit(e)
	}
	e.entered = now
	e.covered = false
	e.flushAt = e.flushTime(now, p.cfg.FlushAfter)
	e.causedBy(event, now)
	e.in = to
	to.Put(e)
	p.index(e)
	p.report.Entered(to.pool, event)
}

// index adds a pod to the indexes of the pool that it has entered.
func (p *pools) index(e *entry) {
	switch {
	case e.in == p.parked:
		p.waiting.add(e, p.profile(e))
	case e.in == p.gated:
		p.countRejectors(e, []string{placement.SchedulingGates}, 1)
		p.gates.Enter(e)
		if e.pod.TooLarge() {
			p.tooLarge[e] = struct{}{}
		}
	case e.in == p.backoff:
		p.lanes.listEarly(e)
	case e.in.pool == PoolActive:
		p.activeCount++
	}
}

// ready returns the earliest time of the next offer: the backoff has ended, and the last condition shows in the facts
// or has been awaited for long enough.
func (e *entry) ready() moment {
	if e.await.on {
		return max(e.await.until, e.verdict.backoffUntil)
	}
	return e.verdict.backoffUntil
}

// flushTime returns when a pod that is parked now leaves at the latest: after the given duration, or at its verdict's
// retryAt.
func (e *entry) flushTime(now moment, after time.Duration) moment {
	if e.verdict.retryAt > now {
		return min(now.add(after), e.verdict.retryAt)
	}
	return now.add(after)
}

// causedBy records the event that brings a pod to its next attempt. The end of its backoff, and the offer itself, are
// not causes.
func (e *entry) causedBy(event string, now moment) {
	if event != eventOffer && event != eventBackoffComplete && event != eventPopFromBackoff {
		e.attempt.cause, e.attempt.since = event, now
	}
}

// backOff sets the earliest next attempt, by upstream's formula (pkg/scheduler/backend/queue/backoff_queue.go): the
// initial backoff doubled for each further failure, up to the maximum. Errors in a row count if there are any, else
// rejections.
func (e *entry) backOff(cfg *Settings, now moment) {
	count := e.verdict.rejections
	if e.verdict.errors > 0 {
		count = e.verdict.errors
	}
	e.verdict.backoffUntil = now.add(backoff(cfg.InitialBackoff, cfg.MaxBackoff, count))
}

// released counts a reservation that ended without a bind. As upstream, a pod whose binds fail backs off like one
// whose attempts end in errors.
func (e *entry) released(cfg *Settings, now moment) {
	e.attempt.released = min(e.attempt.released, maxShift) + 1
	wait := backoff(cfg.InitialBackoff, cfg.MaxBackoff, int32(e.attempt.released))
	e.verdict.backoffUntil = max(e.verdict.backoffUntil, now.add(wait))
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

// reject counts a pod for the rules that have rejected it.
func (p *pools) reject(e *entry) {
	p.countRejectors(e, e.verdict.plugins, 1)
	e.verdict.counted = true
}

// profile returns the profile of a pod.
func (p *pools) profile(e *entry) *placement.Profile { return p.cfg.Profiles[e.pod.SchedulerName] }

// pool returns the pool of a pod.
func (e *entry) pool() Pool {
	if e.in == nil {
		return PoolNone
	}
	return e.in.pool
}
