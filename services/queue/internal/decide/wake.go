package decide

import (
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
)

// parkedUpdated evaluates what a parked pod's own change means to its rejectors, and reindexes the pod if it stays
// parked. old is the pod as it was.
func (b *backlog) parkedUpdated(e *entry, old *state.Pod, now moment) {
	if !specMoved(old, e.pod) {
		return
	}
	change := ownChange(old, e.pod, b.world.objects)
	switch {
	case e.in == b.pools.quarantine:
		e.attempt.lost = 0
		e.attempt.token = ""
		b.pools.requeue(e, change.Label(), now)
	case b.pools.profile(e).Wakes(e.pod, e.verdict.plugins, change):
		b.wake(e, change.Label(), now)
	default:
		b.pools.parkedUpdated(e)
	}
}

// wake tries a parked pod again, on a state of the facts that contains the event that woke it.
func (b *backlog) wake(e *entry, event string, now moment) {
	e.sequence = b.world.facts.Sequence
	b.pools.requeue(e, event, now)
}

// changed handles a change in the facts, after the pools have applied what it means for the changed pod itself.
func (b *backlog) changed(change placement.Change, now moment) {
	o := occurrence{change: change, sequence: b.world.facts.Sequence, at: now}
	switch {
	case !b.cfg.heeds(change):
		return
	case !concernsOthers(change):
		o.own = true
		if !b.ownMatters(change) {
			return
		}
	}
	b.occurred(&o, now)
}

// heeds reports whether any rule of any profile listens to changes of this sort. Most, such as heartbeats, can be
// dropped at once (upstream's isEventOfInterest).
func (c *Config) heeds(change placement.Change) bool {
	for _, p := range c.Profiles {
		if p.Heeds(change) {
			return true
		}
	}
	return false
}

// concernsOthers reports whether a change can matter to a pod other than the changed one. Of pods, only those count
// that hold a place, or held one (upstream: assigned, or nominated). A change to any other property of such a pod
// helps no other pod.
func concernsOthers(change placement.Change) bool {
	if change.Kind != events.KindPod {
		return true
	}
	return change.Actions != placement.UpdateOther && (holdsPlace(change.OldPod) || holdsPlace(change.NewPod))
}

func holdsPlace(p *state.Pod) bool {
	return p != nil && (p.NodeName != "" || p.Status().NominatedNodeName != "")
}

// ownChange returns the change of a pod that waits to be placed.
func ownChange(before, after *state.Pod, objects placement.Objects) placement.Change {
	change := placement.PodChange(state.PodChange{Before: before, After: after})
	change.Objects = objects
	return change
}

// ownMatters reports whether a change of a waiting pod can matter to itself.
func (b *backlog) ownMatters(change placement.Change) bool {
	if change.OldPod == nil || change.NewPod == nil {
		return false
	}
	_, known := b.pods[change.NewPod.UID]
	return known && specMoved(change.OldPod, change.NewPod)
}

// occurred records an occurrence and wakes the parked pods that it could help.
func (b *backlog) occurred(o *occurrence, now moment) {
	b.journal.add(*o)
	if !o.own {
		b.journal.hear(o, b.cfg.Profiles)
	}
	if o.own || b.pools.waiting.pods == 0 {
		return
	}
	o.change.Objects = b.world.objects
	call := b.pools.waiting.call(o)
	b.out.hinted(call.hints)
	event := eventReleased
	if !o.blind {
		event = o.change.Label()
	}
	for _, e := range call.woken {
		if news(o, &e.verdict) && o.concerns(e) {
			b.wake(e, event, now)
		}
	}
}

// wakeAll requeues every parked pod whose verdict is older than the facts: whatever it waited for may have happened.
func (b *backlog) wakeAll(now moment) {
	for _, e := range inOrder(b.pools.parked) {
		if e.verdict.factSequence < b.world.facts.Sequence {
			b.wake(e, eventReset, now)
		}
	}
}

// wakeVoid requeues the parked pods whose verdicts were computed from facts that are lost.
func (b *backlog) wakeVoid(now moment) {
	for _, e := range inOrder(b.pools.parked) {
		if e.verdict.void() {
			b.wake(e, eventReset, now)
		}
	}
}

// activate makes a pod that waits for an event or for the end of its backoff active at once, whatever its lane knows.
// A pod that is being tried goes into backoff where it would otherwise be parked. Everything else that is known of
// the pod stays in force: gates, quarantine, and the wait until the facts show its last condition. Source:
// PriorityQueue.Activate in pkg/scheduler/backend/queue/scheduling_queue.go.
func (b *backlog) activate(uid string, now moment) {
	e, ok := b.pods[uid]
	switch {
	case !ok || e.in == b.pools.quarantine:
	case e.pool() == PoolOffered || e.pool() == PoolHeld:
		e.attempt.activated = true
	case e.pool() == PoolParked || e.pool() == PoolBackoff:
		b.out.Waited(e, eventActivate, now)
		b.pools.detach(e)
		b.pools.lanes.leave(e)
		e.verdict.backoffUntil = 0
		b.wake(e, eventActivate, now)
	}
}

// flush requeues the pods that no event woke for too long, as a safety net for the hints (upstream's
// flushUnschedulablePodsLeftover). If such a pod is then placed, a hint has missed an event.
func (b *backlog) flush(now moment) {
	for e := b.pools.parked.First(); e != nil; e = b.pools.parked.First() {
		if e.flushAt > now {
			return
		}
		b.out.counts.Flushed++
		e.attempt.flushed = true
		b.pools.requeue(e, eventTimeout, now)
	}
}

// endBackoffs frees the pods whose backoff has ended.
func (b *backlog) endBackoffs(now moment) {
	for e := b.pools.backoff.First(); e != nil && e.ready() <= now; e = b.pools.backoff.First() {
		e.await = await{}
		b.pools.free(e, eventBackoffComplete, now)
	}
}

// specMoved reports whether an update of an unbound pod can change where it fits: anything but bookkeeping and its
// status, of which only the device claims made for it count (upstream's isPodUpdated).
func specMoved(before, after *state.Pod) bool {
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
