package waiting

import (
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/names"
)

// ledgerWait bounds how long a pod waits for the ledger's watch to reach the reservation that a shard has reported. A
// ledger that was lost since then may never reach it. If the watch is merely late, the shard that is offered the pod
// again finds its reservation.
const ledgerWait = 30 * time.Second

// maxShift keeps the doubling of the backoff from overflowing: beyond it every duration exceeds any sensible maximum.
const maxShift = 32

// Resume puts a pod into the pool where its last answer left it.
func (p *Pools) Resume(e *Entry, now Moment) {
	switch {
	case e.Hold.Live || e.Pod.Gated:
		p.Free(e, EventPodAdd, now)
	case e.Verdict.Kind == events.DecisionUnplaceable, e.Verdict.Kind == events.DecisionHeldBack:
		p.Park(e, now)
	case e.Verdict.Kind == events.DecisionFailed:
		e.backOff(&p.cfg, now)
		p.Requeue(e, EventPodAdd, now)
	case e.Verdict.Kind == events.DecisionQuarantined:
		p.Enter(e, p.Quarantine, EventPodAdd, now)
	default:
		p.Free(e, EventPodAdd, now)
	}
}

// Park makes a rejected pod wait for what could help it. If that has happened since the state from which the verdict
// was computed, or a plugin has requested another attempt, the pod is tried again after its backoff instead. The same
// holds for a pod that is held back, except that it joins no lane, because being held back implies nothing about
// other pods.
func (p *Pools) Park(e *Entry, now Moment) {
	e.backOff(&p.cfg, now)
	profile := p.Profile(e)
	if e.Verdict.Kind != events.DecisionHeldBack {
		p.lanes.join(e, profile)
	}
	p.Rejectors.reject(e)
	if p.journal.missed(e, profile) || e.Attempt.Activated {
		p.Requeue(e, EventAttemptFailure, now)
		return
	}
	if e.Pod.Gated {
		p.Free(e, EventAttemptFailure, now)
		return
	}
	p.Enter(e, p.Parked, EventAttemptFailure, now)
}

// Requeue puts a pod into backoff, or frees it at once if its backoff has ended.
func (p *Pools) Requeue(e *Entry, event string, now Moment) {
	if e.Hold.Live || e.Pod.Gated || e.Ready() <= now {
		p.Free(e, event, now)
		return
	}
	p.Enter(e, p.Backoff, event, now)
}

// Free puts a pod that nothing detains any more into the pool where it belongs: held if it has a reservation, gated
// if it has gates, parked if an object that it needs does not exist yet, else active. It keeps its place in the
// order.
func (p *Pools) Free(e *Entry, event string, now Moment) {
	switch {
	case e.Hold.Live:
		p.Enter(e, p.Held, event, now)
	case e.Pod.Gated:
		p.Enter(e, p.Gated, event, now)
	default:
		if plugin, what := p.expects(e); what != "" {
			p.holdBack(e, plugin, what, event, now)
			return
		}
		p.Enter(e, p.Active[e.Partition], event, now)
	}
}

// expects returns an object that must exist before a pod is tried and is still being created, and the rule that
// requires it: claims to devices made from a template appear after the pod. A pod that has waited for too long is
// tried all the same, so that its condition explains what is missing. Source: runPreEnqueuePlugins of
// pkg/scheduler/backend/queue/scheduling_queue.go.
func (p *Pools) expects(e *Entry) (plugin, what string) {
	if p.world.Objects == nil || e.Attempt.Flushed {
		return "", ""
	}
	return p.Profile(e).Expects(e.Pod, p.world.Objects)
}

// holdBack parks a pod until an event occurs that the rule listens to, without an attempt, a condition or a backoff.
func (p *Pools) holdBack(e *Entry, plugin, what, event string, now Moment) {
	p.report.Waited(e, event, now)
	p.Remove(e)
	v := &e.Verdict
	v.Kind = events.DecisionHeldBack
	v.Message = what
	v.Plugins = []string{plugin}
	v.FactSequence = p.world.Facts.Sequence
	v.FactEpoch = p.world.Facts.Epoch
	v.LedgerRevision = p.world.Revision
	p.Rejectors.reject(e)
	p.Enter(e, p.Parked, event, now)
}

// GatedLate moves back to gated a pod that waits to be tried and has gained a gate, which only happens to a pod that
// has grown too large.
func (p *Pools) GatedLate(e *Entry, now Moment) {
	p.lanes.visit(e)
	p.Remove(e)
	p.Free(e, EventQuarantine, now)
}

// Pull takes a parked pod, or one in backoff, out of its pool and its lane, so that it is tried whatever its lane
// knows.
func (p *Pools) Pull(e *Entry, event string, now Moment) {
	p.report.Waited(e, event, now)
	p.Detach(e)
	p.lanes.leave(e)
	e.Verdict.BackoffUntil = 0
}

// PopEarly frees a pod whose backoff has not ended.
func (p *Pools) PopEarly(e *Entry, now Moment) {
	if e.lane != nil {
		e.lane.givePermit(e)
	}
	p.Free(e, EventPopFromBackoff, now)
}

// Blocked reports whether an active pod waits for a permit of its lane.
func (e *Entry) Blocked() bool { return e.lane != nil && e.In == e.lane.blocked }

// Rejected handles an attempt that found no node.
func (p *Pools) Rejected(e *Entry, now Moment) {
	p.Park(e, now)
	p.lanes.rejected(e)
}

// Failed handles an attempt that ended in an error.
func (p *Pools) Failed(e *Entry, now Moment) {
	e.backOff(&p.cfg, now)
	p.Requeue(e, EventAttemptFailure, now)
}

// Placed believes the shard until the ledger's watch has reached the reservation's revision. From then on only the
// ledger counts.
func (p *Pools) Placed(e *Entry, d *events.Decision, now Moment) {
	if p.world.Revision >= d.LedgerRevision {
		// The entry has come and gone between two looks at the ledger: either the pod is bound, which the facts will
		// show, or the reservation was taken back. A short wait decides which.
		e.Verdict.BackoffUntil = now.Add(p.cfg.InitialBackoff)
		p.Enter(e, p.Backoff, EventReleased, now)
		return
	}
	e.Hold.Revision, e.Hold.Until = d.LedgerRevision, now.Add(ledgerWait)
	p.Enter(e, p.Held, eventPlaced, now)
	p.Settle(e)
}

// Released requeues a pod whose reservation ended without a bind.
func (p *Pools) Released(e *Entry, now Moment) {
	e.released(&p.cfg, now)
	p.Requeue(e, EventReleased, now)
}

// Enter moves a pod into a pool.
func (p *Pools) Enter(e *Entry, to *Bag, event string, now Moment) {
	p.report.Waited(e, event, now)
	p.Detach(e)
	if to.Pool != PoolActive && to.Pool != PoolOffered {
		p.lanes.giveBackPermit(e)
	}
	if to.Pool == PoolActive && e.lane != nil && !e.permit {
		to = e.lane.blocked
		p.lanes.visit(e)
	}
	e.Entered = now
	e.covered = false
	e.FlushAt = e.flushTime(now, p.cfg.FlushAfter)
	e.causedBy(event, now)
	e.In = to
	to.Put(e)
	p.index(e)
	p.report.Entered(to.Pool, event)
}

// index adds a pod to the indexes of the pool that it has entered.
func (p *Pools) index(e *Entry) {
	switch {
	case e.In == p.Parked:
		profile := p.Profile(e)
		p.waiting.add(e, profile)
	case e.In == p.Gated:
		p.Rejectors.count(e, []string{names.SchedulingGates}, 1)
		p.gates.Enter(e)
		if e.Pod.TooLarge() {
			p.TooLarge[e] = struct{}{}
		}
	case e.In == p.Backoff:
		p.lanes.listEarly(e)
	case e.In.Pool == PoolActive:
		p.ActiveCount++
	}
}

// Ready returns the earliest time of the next offer: the backoff has ended, and the last condition shows in the facts
// or has been awaited for long enough.
func (e *Entry) Ready() Moment {
	if e.Await.On {
		return max(e.Await.Until, e.Verdict.BackoffUntil)
	}
	return e.Verdict.BackoffUntil
}

// flushTime returns when a pod that is parked now leaves at the latest: after the given duration, or at its verdict's
// retryAt.
func (e *Entry) flushTime(now Moment, after time.Duration) Moment {
	if e.Verdict.retryAt > now {
		return min(now.Add(after), e.Verdict.retryAt)
	}
	return now.Add(after)
}

// causedBy records the event that brings a pod to its next attempt. The end of its backoff, and the offer itself, are
// not causes.
func (e *Entry) causedBy(event string, now Moment) {
	if event != EventOffer && event != EventBackoffComplete && event != EventPopFromBackoff {
		e.Attempt.Cause, e.Attempt.Since = event, now
	}
}

// backOff sets the earliest next attempt, by upstream's formula (pkg/scheduler/backend/queue/backoff_queue.go): the
// initial backoff doubled for each further failure, up to the maximum. Errors in a row count if there are any, else
// rejections.
func (e *Entry) backOff(cfg *Settings, now Moment) {
	count := e.Verdict.Rejections
	if e.Verdict.Errors > 0 {
		count = e.Verdict.Errors
	}
	e.Verdict.BackoffUntil = now.Add(Backoff(cfg.InitialBackoff, cfg.MaxBackoff, count))
}

// released counts a reservation that ended without a bind. As upstream, a pod whose binds fail backs off like one
// whose attempts end in errors.
func (e *Entry) released(cfg *Settings, now Moment) {
	e.Attempt.Released = min(e.Attempt.Released, maxShift) + 1
	wait := Backoff(cfg.InitialBackoff, cfg.MaxBackoff, int32(e.Attempt.Released))
	e.Verdict.BackoffUntil = max(e.Verdict.BackoffUntil, now.Add(wait))
}

// Backoff returns the wait after a number of failures.
func Backoff(initial, maximum time.Duration, count int32) time.Duration {
	if count <= 0 || maximum <= 0 {
		return 0
	}
	shift := count - 1
	if shift > maxShift || initial > maximum>>shift {
		return maximum
	}
	return initial << shift
}

// GatedUpdated applies a change of a gated pod's gates or requests. grown means that the pod has become too large.
func (p *Pools) GatedUpdated(e *Entry, grown bool) {
	p.gates.Update(e.Pod)
	if grown {
		p.TooLarge[e] = struct{}{}
	}
}

// ParkedUpdated applies a change of a parked pod that stays parked.
func (p *Pools) ParkedUpdated(e *Entry) {
	p.waiting.remove(e)
	p.waiting.add(e, p.Profile(e))
}

// Profile returns the profile of a pod.
func (p *Pools) Profile(e *Entry) *placement.Profile { return p.cfg.Profiles[e.Pod.SchedulerName] }

// Pool returns the pool of a pod.
func (e *Entry) Pool() Pool {
	if e.In == nil {
		return PoolNone
	}
	return e.In.Pool
}
