package decide

import (
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/queue/decide/waiting"
)

// parkedUpdated evaluates what a parked pod's own change means to its rejectors, and reindexes the pod if it stays
// parked. old is the pod as it was.
func (b *backlog) parkedUpdated(e *waiting.Entry, old *state.Pod, now waiting.Moment) {
	if !specMoved(old, e.Pod) {
		return
	}
	change := ownChange(old, e.Pod, b.world.Objects)
	switch {
	case e.In == b.pools.Quarantine:
		e.Attempt.Lost = 0
		e.Attempt.Token = ""
		b.pools.Requeue(e, change.Label(), now)
	case b.pools.Profile(e).Wakes(e.Pod, e.Verdict.Plugins, change):
		b.wake(e, change.Label(), now)
	default:
		b.pools.ParkedUpdated(e)
	}
}

// wake tries a parked pod again, on a state of the facts that contains the event that woke it.
func (b *backlog) wake(e *waiting.Entry, event string, now waiting.Moment) {
	e.Sequence = b.world.Facts.Sequence
	b.pools.Requeue(e, event, now)
}

// changed handles a change in the facts, after the pools have applied what it means for the changed pod itself.
func (b *backlog) changed(change rule.Change, now waiting.Moment) {
	o := waiting.Occurrence{Change: change, Sequence: b.world.Facts.Sequence, At: now}
	switch {
	case !b.cfg.heeds(change):
		return
	case !concernsOthers(change):
		o.Own = true
		if !b.ownMatters(change) {
			return
		}
	}
	b.occurred(&o, now)
}

// heeds reports whether any rule of any profile listens to changes of this sort. Most, such as heartbeats, can be
// dropped at once (upstream's isEventOfInterest).
func (c *Config) heeds(change rule.Change) bool {
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
func concernsOthers(change rule.Change) bool {
	if change.Kind != events.KindPod {
		return true
	}
	return change.Actions != rule.UpdateOther && (holdsPlace(change.OldPod) || holdsPlace(change.NewPod))
}

func holdsPlace(p *state.Pod) bool {
	return p != nil && (p.NodeName != "" || p.Status().NominatedNodeName != "")
}

// ownChange returns the change of a pod that waits to be placed.
func ownChange(before, after *state.Pod, objects rule.Objects) rule.Change {
	change := rule.PodChange(state.PodChange{Before: before, After: after})
	change.Objects = objects
	return change
}

// ownMatters reports whether a change of a waiting pod can matter to itself.
func (b *backlog) ownMatters(change rule.Change) bool {
	if change.OldPod == nil || change.NewPod == nil {
		return false
	}
	_, known := b.pods[change.NewPod.UID]
	return known && specMoved(change.OldPod, change.NewPod)
}

// occurred records an occurrence and wakes the parked pods that it could help.
func (b *backlog) occurred(o *waiting.Occurrence, now waiting.Moment) {
	b.journal.Add(*o)
	if !o.Own {
		b.journal.Hear(o, b.cfg.Profiles)
	}
	if o.Own {
		return
	}
	o.Change.Objects = b.world.Objects
	pods, hints := b.pools.Concerned(o)
	b.out.hinted(hints)
	if len(pods) == 0 {
		return
	}
	event := waiting.EventReleased
	if !o.Blind {
		event = o.Change.Label()
	}
	for _, e := range pods {
		if waiting.News(o, &e.Verdict) && o.Concerns(e) {
			b.wake(e, event, now)
		}
	}
}

// wakeAll requeues every parked pod whose verdict is older than the facts: whatever it waited for may have happened.
func (b *backlog) wakeAll(now waiting.Moment) {
	for _, e := range waiting.InOrder(b.pools.Parked) {
		if e.Verdict.FactSequence < b.world.Facts.Sequence {
			b.wake(e, waiting.EventReset, now)
		}
	}
}

// wakeVoid requeues the parked pods whose verdicts were computed from facts that are lost.
func (b *backlog) wakeVoid(now waiting.Moment) {
	for _, e := range waiting.InOrder(b.pools.Parked) {
		if e.Verdict.Void() {
			b.wake(e, waiting.EventReset, now)
		}
	}
}

// activate makes a pod that waits for an event or for the end of its backoff active at once, whatever its lane knows.
// A pod that is being tried goes into backoff where it would otherwise be parked. Everything else that is known of
// the pod stays in force: gates, quarantine, and the wait until the facts show its last condition. Source:
// PriorityQueue.Activate in pkg/scheduler/backend/queue/scheduling_queue.go.
func (b *backlog) activate(uid string, now waiting.Moment) {
	e, ok := b.pods[uid]
	switch {
	case !ok || e.In == b.pools.Quarantine:
	case e.Pool() == waiting.PoolOffered || e.Pool() == waiting.PoolHeld:
		e.Attempt.Activated = true
	case e.Pool() == waiting.PoolParked || e.Pool() == waiting.PoolBackoff:
		b.pools.Pull(e, waiting.EventActivate, now)
		b.wake(e, waiting.EventActivate, now)
	}
}

// flush requeues the pods that no event woke for too long, as a safety net for the hints (upstream's
// flushUnschedulablePodsLeftover). If such a pod is then placed, a hint has missed an event.
func (b *backlog) flush(now waiting.Moment) {
	for e := b.pools.Parked.First(); e != nil; e = b.pools.Parked.First() {
		if e.FlushAt > now {
			return
		}
		b.out.counts.Flushed++
		e.Attempt.Flushed = true
		b.pools.Requeue(e, waiting.EventTimeout, now)
	}
}

// endBackoffs frees the pods whose backoff has ended.
func (b *backlog) endBackoffs(now waiting.Moment) {
	for e := b.pools.Backoff.First(); e != nil && e.Ready() <= now; e = b.pools.Backoff.First() {
		e.Await = waiting.Await{}
		b.pools.Free(e, waiting.EventBackoffComplete, now)
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
