package decide

import (
	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

// backlog decides which pool each pod that waits to be placed belongs into, and moves it there. What it goes by is the
// pod itself, its reservation, the answers to attempts, and what has happened since.
type backlog struct {
	cfg     *Config
	world   *world
	journal *journal
	out     *output
	live    reservations
	// unseen holds what is known of attempts at pods that the facts have not shown.
	unseen unseenPods

	pods  map[string]*entry
	pools *pools
	// serial is that of the last pod that arrived.
	serial uint64
}

// queued reports whether a pod waits to be placed by one of the profiles.
func (b *backlog) queued(p *state.Pod) bool {
	return b.cfg.Profiles[p.SchedulerName] != nil && p.NodeName == "" && !p.Terminal && !p.Deleting
}

// podChanged applies a pod as the facts show it now.
func (b *backlog) podChanged(p *state.Pod, now moment) {
	e, known := b.pods[p.UID]
	ours := b.queued(p)
	switch {
	case known && !ours:
		if p.NodeName != "" {
			b.out.podBound(e, p)
		}
		e.pod = p
		b.leave(e)
	case known:
		b.podUpdated(e, p, now)
	case ours:
		b.podAdded(p, now)
	}
}

// podAdded puts a pod that has just become known into the pool where its last answer left it.
func (b *backlog) podAdded(p *state.Pod, now moment) {
	e := b.unseen.take(p.UID)
	b.serial++
	e.pod = p
	e.serial = b.serial
	e.queued = now
	e.seen = now
	e.partition, e.sequence = partitionOf(p), b.world.facts.Sequence
	b.pods[p.UID] = e
	e.hold.live = b.live.seen(p)
	if e.conditionShown() {
		e.await = await{}
	}
	b.resume(e, now)
}

// podUpdated applies a change of a pod that waits to be placed.
func (b *backlog) podUpdated(e *entry, p *state.Pod, now moment) {
	old := e.pod
	if p.ResourceVersion == old.ResourceVersion {
		return
	}
	e.pod = p
	e.sequence = b.world.facts.Sequence
	b.live.seen(p)
	if p.Priority != old.Priority {
		b.pools.reorder(e)
	}
	if e.conditionShown() {
		b.awaited(e)
	}
	switch e.pool() {
	case PoolGated:
		if !p.Gated {
			b.free(e, eventGatesGone, now)
		} else {
			b.pools.gatedUpdated(e, p.TooLarge() && !old.TooLarge())
		}
	case PoolActive, PoolBackoff, PoolParked:
		if p.Gated {
			b.gatedLate(e, now)
		} else if e.pool() == PoolParked {
			b.parkedUpdated(e, old, now)
		}
	}
}

// gatedLate moves back to gated a pod that waits to be tried and has gained a gate, which only happens to a pod that
// has grown too large.
func (b *backlog) gatedLate(e *entry, now moment) {
	b.pools.lanes.visit(e)
	b.pools.remove(e)
	b.free(e, eventQuarantine, now)
}

// leave forgets a pod that is bound, gone, or no longer one of the queue's.
func (b *backlog) leave(e *entry) {
	b.pools.remove(e)
	b.live.seen(e.pod)
	delete(b.pods, e.pod.UID)
}

// resume puts a pod into the pool where its last answer left it.
func (b *backlog) resume(e *entry, now moment) {
	switch {
	case e.hold.live || e.pod.Gated:
		b.free(e, eventPodAdd, now)
	case e.verdict.kind == events.DecisionUnplaceable, e.verdict.kind == events.DecisionHeldBack:
		b.park(e, now)
	case e.verdict.kind == events.DecisionFailed:
		e.backOff(b.cfg, now)
		b.requeue(e, eventPodAdd, now)
	case e.verdict.kind == events.DecisionQuarantined:
		b.pools.enter(e, b.pools.quarantine, eventPodAdd, now)
	default:
		b.free(e, eventPodAdd, now)
	}
}

// park makes a rejected pod wait for what could help it. If that has happened since the state from which the verdict
// was computed, or a plugin has requested another attempt, the pod is tried again after its backoff instead. The same
// holds for a pod that is held back, except that it joins no lane, because being held back implies nothing about
// other pods.
func (b *backlog) park(e *entry, now moment) {
	e.backOff(b.cfg, now)
	profile := b.pools.profile(e)
	if e.verdict.kind != events.DecisionHeldBack {
		b.pools.lanes.join(e, profile)
	}
	b.pools.reject(e)
	if b.journal.missed(e, profile) || e.attempt.activated {
		b.requeue(e, eventAttemptFailure, now)
		return
	}
	if e.pod.Gated {
		b.free(e, eventAttemptFailure, now)
		return
	}
	b.pools.enter(e, b.pools.parked, eventAttemptFailure, now)
}

// requeue puts a pod into backoff, or frees it at once if its backoff has ended.
func (b *backlog) requeue(e *entry, event string, now moment) {
	if e.hold.live || e.pod.Gated || e.ready() <= now {
		b.free(e, event, now)
		return
	}
	b.pools.enter(e, b.pools.backoff, event, now)
}

// free puts a pod that nothing detains any more into the pool where it belongs: held if it has a reservation, gated
// if it has gates, parked if an object that it needs does not exist yet, else active. It keeps its place in the
// order.
func (b *backlog) free(e *entry, event string, now moment) {
	switch {
	case e.hold.live:
		b.pools.enter(e, b.pools.held, event, now)
	case e.pod.Gated:
		b.pools.enter(e, b.pools.gated, event, now)
	default:
		if plugin, what := b.expects(e); what != "" {
			b.holdBack(e, plugin, what, event, now)
			return
		}
		b.pools.enter(e, b.pools.active[e.partition], event, now)
	}
}

// expects returns an object that must exist before a pod is tried and is still being created, and the rule that
// requires it: claims to devices made from a template appear after the pod. A pod that has waited for too long is
// tried all the same, so that its condition explains what is missing. Source: runPreEnqueuePlugins of
// pkg/scheduler/backend/queue/scheduling_queue.go.
func (b *backlog) expects(e *entry) (plugin, what string) {
	if b.world.objects == nil || e.attempt.flushed {
		return "", ""
	}
	return b.pools.profile(e).Expects(e.pod, b.world.objects)
}

// holdBack parks a pod until an event occurs that the rule listens to, without an attempt, a condition or a backoff.
func (b *backlog) holdBack(e *entry, plugin, what, event string, now moment) {
	b.out.podWaited(e, event, now)
	b.pools.remove(e)
	v := &e.verdict
	v.kind = events.DecisionHeldBack
	v.message = what
	v.plugins = []string{plugin}
	v.factSequence = b.world.facts.Sequence
	v.factEpoch = b.world.facts.Epoch
	v.ledgerRevision = b.world.revision
	b.pools.reject(e)
	b.pools.enter(e, b.pools.parked, event, now)
}

// awaited ends the wait for the condition.
func (b *backlog) awaited(e *entry) {
	e.await = await{}
	b.pools.readyChanged(e)
}

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
		b.requeue(e, change.Label(), now)
	case b.pools.profile(e).Wakes(e.pod, e.verdict.plugins, change):
		b.wake(e, change.Label(), now)
	default:
		b.pools.parkedUpdated(e)
	}
}

// wake tries a parked pod again, on a state of the facts that contains the event that woke it.
func (b *backlog) wake(e *entry, event string, now moment) {
	e.sequence = b.world.facts.Sequence
	b.requeue(e, event, now)
}
