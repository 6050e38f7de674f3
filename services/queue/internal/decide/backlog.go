package decide

import (
	"github.com/berth-scheduler/berth/pkg/state"
)

// backlog decides what a fact, an answer or an occurrence means for the pods that wait to be placed, and moves them
// between the pools.
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
	b.pools.resume(e, now)
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
	shown := e.conditionShown()
	if p.Priority != old.Priority {
		b.pools.reorder(e)
	}
	if shown {
		b.awaited(e)
	}
	switch e.pool() {
	case PoolGated:
		if !p.Gated {
			b.pools.free(e, eventGatesGone, now)
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
	b.pools.free(e, eventQuarantine, now)
}

// leave forgets a pod that is bound, gone, or no longer one of the queue's.
func (b *backlog) leave(e *entry) {
	b.pools.remove(e)
	b.live.seen(e.pod)
	delete(b.pods, e.pod.UID)
}

// awaited ends the wait for the condition.
func (b *backlog) awaited(e *entry) {
	e.await = await{}
	b.pools.readyChanged(e)
}

// reservations holds the pods with a live reservation, whether the queue knows them or not, as last seen (nil: never
// seen).
type reservations map[string]*state.Pod

// seen records how the facts show a pod. It reports whether the pod has a live reservation.
func (r reservations) seen(p *state.Pod) bool {
	_, live := r[p.UID]
	if live {
		r[p.UID] = p
	}
	return live
}
