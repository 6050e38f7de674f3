package decide

import (
	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/queue/decide/waiting"
)

// wake tries a parked pod again, on a state of the facts that contains the event that woke it.
func (b *backlog) wake(e *waiting.Entry, event string, now waiting.Moment) {
	e.Sequence = b.world.Facts.Sequence
	b.pools.Requeue(e, event, now)
}

// changed handles a change in the facts, after the pools have applied what it means for the changed pod itself.
func (b *backlog) changed(change rule.Change, now waiting.Moment) {
	o := waiting.Occurrence{Change: change, Sequence: b.world.Facts.Sequence, At: now}
	switch {
	case !b.cfg.anyRuleListens(change):
		return
	case !concernsOthers(change):
		o.Own = true
		if !b.ownChangeMatters(change) {
			return
		}
	}
	b.occurred(&o, now)
}

// anyRuleListens reports whether any rule of any profile listens to changes of this sort. Most, such as heartbeats,
// can be dropped at once (upstream's isEventOfInterest).
func (c *Config) anyRuleListens(change rule.Change) bool {
	for _, p := range c.Profiles {
		if p.AnyListens(change) {
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

// holdsPlace reports whether a pod takes room on a node, or is about to.
func holdsPlace(p *state.Pod) bool {
	return p != nil && (p.NodeName != "" || p.Status().NominatedNodeName != "")
}

// ownChangeMatters reports whether a change of a waiting pod can matter to itself.
func (b *backlog) ownChangeMatters(change rule.Change) bool {
	if change.OldPod == nil || change.NewPod == nil {
		return false
	}
	_, known := b.pods[change.NewPod.UID]
	return known && waiting.SpecMoved(change.OldPod, change.NewPod)
}

// occurred records an occurrence and wakes the parked pods that it could help:
//
//  1. It is added to the journal, for the pods that are being tried now: their verdicts may not know of it.
//  2. The rules that have rejected pods are marked as concerned, so that verdicts of lanes from before no longer cover.
//  3. The index of parked pods finds those whose rules' hints ask for another attempt.
//  4. Of these, the ones whose verdict already knew of the occurrence stay parked: the shard may have been ahead.
//
// An occurrence that matters only to the changed pod ends after step 1: the pools have moved that pod already.
func (b *backlog) occurred(o *waiting.Occurrence, now waiting.Moment) {
	b.journal.Add(*o)
	if !o.Own {
		b.journal.RecordFor(o, b.cfg.Profiles)
	}
	if o.Own {
		return
	}
	o.Change.Objects = b.world.Objects
	pods, hints := b.pools.WakenBy(o)
	b.out.hinted(hints)
	if len(pods) == 0 {
		return
	}
	event := waiting.EventReleased
	if !o.Blind {
		event = o.Change.Label()
	}
	for _, e := range pods {
		if waiting.LaterThan(o, &e.Verdict) && o.Concerns(e) {
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
		b.pools.PullForRetry(e, waiting.EventActivate, now)
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
