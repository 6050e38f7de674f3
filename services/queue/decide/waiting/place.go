package waiting

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
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
	if e.Verdict.Kind != events.DecisionHeldBack && !e.Together() {
		p.lanes.join(e, profile)
	}
	p.Rejectors.reject(e)
	p.Units.takeLead(e, now)
	if p.journal.mayHaveHelp(e, profile) || e.Attempt.Activated || e.outdated() {
		p.Requeue(e, EventAttemptFailure, now)
		return
	}
	if e.Pod.Gated {
		p.Free(e, EventAttemptFailure, now)
		return
	}
	p.Enter(e, p.Parked, EventAttemptFailure, now)
}

// Requeue puts a pod into backoff, or frees it at once if its backoff has ended. Unlike Free it respects the backoff of
// the last answer: a pod that every event wakes is still not tried more often than its backoff allows.
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
	if p.world.Objects == nil || e.Attempt.Flushed || e.hasOtherLead() {
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

// Enter moves a pod into a pool: the only way into one. event names the reason in metrics and traces. The order
// matters: the report of the wait needs the old pool, the lane must be updated before the bag is chosen, and the key
// by which the new bag is sorted must be set before the pod is put into it.
func (p *Pools) Enter(e *Entry, to *Bag, event string, now Moment) {
	from := e.Pool()
	p.report.Waited(e, event, now)
	p.Detach(e)
	if e.Together() {
		p.lanes.leave(e) // from before its group was one
	}
	to = p.Units.route(e, p.lanes.route(e, to))
	e.Entered = now
	e.covered = false
	e.FlushAt = now.Add(p.cfg.FlushAfter)
	if at := e.Verdict.retryAt; at > now {
		e.FlushAt = min(e.FlushAt, at)
	}
	if event != EventOffer && event != EventBackoffComplete && event != EventPopFromBackoff {
		// The end of a backoff, and the offer itself, are not causes of an attempt.
		e.Attempt.Cause, e.Attempt.Since = event, now
	}
	e.In = to
	to.Put(e)
	p.index(e)
	p.report.Entered(to.Pool, event)
	p.Units.replaceLead(e)
	p.Units.memberFreed(e, from, event, now)
}

// index adds a pod to the indexes of the pool that it has entered.
func (p *Pools) index(e *Entry) {
	switch {
	case e.In == p.Parked:
		profile := p.Profile(e)
		p.byRule.add(e, profile)
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

// Detach removes a pod from its pool and the indexes of the pool, if it is in one. For an offered pod, the lease ends.
// Between Detach and Enter the pod is in no pool, which no caller may let last beyond a step.
func (p *Pools) Detach(e *Entry) {
	from := e.In
	if from == nil {
		return
	}
	switch {
	case from == p.Parked:
		p.byRule.remove(e)
	case from == p.Gated:
		p.Rejectors.count(e, []string{names.SchedulingGates}, -1)
		p.gates.Leave(e.Pod.UID)
		delete(p.TooLarge, e)
	case from == p.Backoff:
		p.lanes.dropEarly(e)
	case from == p.Offered:
		p.leases.End(e)
	case from == p.Held:
		delete(p.Settling, e)
	case from.Pool == PoolActive:
		p.ActiveCount--
	}
	from.Drop(e)
	e.In = nil
}

// Remove removes a pod that no longer waits to be placed.
func (p *Pools) Remove(e *Entry) {
	p.Rejectors.Unreject(e)
	p.Detach(e)
	p.lanes.leave(e)
}

// Updated applies a change of a pod that waits to be placed: e has the pod as it is, and old is the pod as it was. A
// pod that is offered or held stays where it is, whatever has changed.
func (p *Pools) Updated(e *Entry, old *state.Pod, now Moment) {
	shown := e.ShowsCondition()
	if e.Pod.Priority != old.Priority {
		e.In.Fix(e)
		if e.early != nil {
			e.early.Fix(e)
		}
		if e.In == p.Gated {
			p.gates.Reorder(e.Pod)
		}
	}
	if shown {
		p.ConditionShown(e)
	}
	switch pool := e.In.Pool; {
	case pool == PoolOffered || pool == PoolHeld:
	case pool == PoolGated && !e.Pod.Gated:
		p.Free(e, EventGatesGone, now)
	case pool == PoolGated:
		p.gates.Update(e.Pod)
		if e.Pod.TooLarge() && !old.TooLarge() {
			p.TooLarge[e] = struct{}{}
		}
	case e.Pod.Gated:
		// A pod that waits to be tried gains a gate only by growing too large.
		p.lanes.markDirty(e)
		p.Remove(e)
		p.Free(e, EventQuarantine, now)
	case pool == PoolParked:
		p.parkedUpdated(e, old, now)
	case pool == PoolGrouped && SpecMoved(old, e.Pod):
		p.Units.retryLead(e.unit, rule.PodChange(state.PodChange{Before: old, After: e.Pod}).Label(), now)
	}
}

// parkedUpdated evaluates what a parked pod's own change means to its rejectors, and reindexes the pod if it stays
// parked.
func (p *Pools) parkedUpdated(e *Entry, old *state.Pod, now Moment) {
	if !SpecMoved(old, e.Pod) {
		return
	}
	change := rule.PodChange(state.PodChange{Before: old, After: e.Pod})
	change.Objects = p.world.Objects
	switch profile := p.Profile(e); {
	case e.In == p.Quarantine:
		e.Attempt.Lost = 0
		e.Attempt.Token = ""
		p.Requeue(e, change.Label(), now)
	case profile.Wakes(e.Pod, e.Verdict.Plugins, change):
		p.Requeue(e, change.Label(), now)
	default:
		p.byRule.remove(e)
		p.byRule.add(e, profile)
	}
}

// SpecMoved reports whether an update of an unbound pod can change where it fits: anything but bookkeeping and its
// status, of which only the device claims made for it count (upstream's isPodUpdated).
func SpecMoved(before, after *state.Pod) bool {
	if len(after.Template.Spec.ResourceClaims) > 0 && !equality.Semantic.DeepEqual(
		before.Status().ResourceClaimStatuses, after.Status().ResourceClaimStatuses) {
		return true
	}
	if before.NodeName != after.NodeName || !maps.Equal(before.Annotations(), after.Annotations()) {
		return true
	}
	b, a := before.Template, after.Template
	return b != a && (!maps.Equal(b.Labels, a.Labels) || !equality.Semantic.DeepEqual(b.Spec, a.Spec))
}

// ConditionShown ends the wait for a condition.
func (p *Pools) ConditionShown(e *Entry) {
	e.Await = Await{}
	if e.In == p.Backoff {
		p.Backoff.Fix(e)
		p.lanes.listEarly(e)
	}
}

// Answered takes a pod out of its lane, and from its rejectors' counts, because an attempt at it has been answered.
func (p *Pools) Answered(e *Entry, answer events.DecisionKind) {
	p.Rejectors.Unreject(e)
	p.lanes.answered(e, answer)
}

// PullForRetry takes a parked pod, or one in backoff, out of its pool and its lane, so that it is tried whatever its
// lane knows.
func (p *Pools) PullForRetry(e *Entry, event string, now Moment) {
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

// Rejected handles an attempt that found no node.
func (p *Pools) Rejected(e *Entry, now Moment) {
	p.Park(e, now)
	if e.lane != nil {
		p.lanes.rejected(e)
	}
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
	p.AwaitOutcome(e)
}

// Released requeues a pod whose reservation ended without a bind.
func (p *Pools) Released(e *Entry, now Moment) {
	e.released(&p.cfg, now)
	p.Requeue(e, EventReleased, now)
}

// AwaitOutcome makes a held pod wait until facts and ledger show what has become of its reservation.
func (p *Pools) AwaitOutcome(e *Entry) { p.Settling[e] = struct{}{} }

// OpenLanes visits the lanes in which something moved. Visiting only these keeps a step cheap with any number of
// lanes. Pods that a verdict covers are parked, or are not offered early; the next pods get the permits.
func (p *Pools) OpenLanes(now Moment) {
	for l := range p.lanes.dirty {
		for e := l.blocked.First(); e != nil && (l.permits < l.width || p.lanes.covers(e)); e = l.blocked.First() {
			if p.lanes.covers(e) {
				p.parkLike(e, now)
				continue
			}
			l.blocked.Drop(e)
			l.givePermit(e)
			e.In = p.Active[e.Partition]
			e.In.Put(e)
		}
		for e := l.unlisted.First(); e != nil && (l.permits+l.listed < l.width || p.lanes.covers(e)); e = l.unlisted.First() {
			l.unlisted.Drop(e)
			e.early = nil
			if e.covered = p.lanes.covers(e); !e.covered {
				p.lanes.early.put(e)
			}
		}
	}
	clear(p.lanes.dirty)
}

// parkLike parks a pod by its lane's newest verdict. It counts for the pod's backoff like a verdict of its own;
// otherwise ten thousand pods that every deletion wakes would be moved every second.
func (p *Pools) parkLike(e *Entry, now Moment) {
	r := &e.lane.rejected
	e.Verdict.Rejections++
	e.Verdict.FactSequence, e.Verdict.FactEpoch = r.FactSequence, r.factEpoch
	e.Verdict.LedgerRevision = r.LedgerRevision
	e.Verdict.Message = r.message
	e.Verdict.retryAt = r.retryAt
	e.backOff(&p.cfg, now)
	p.Enter(e, p.Parked, EventAttemptFailure, now)
}

// Profile returns the profile of a pod.
func (p *Pools) Profile(e *Entry) *placement.Profile { return p.cfg.Profiles[e.Pod.SchedulerName] }

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
