package decide

import (
	"github.com/berth-scheduler/berth/pkg/state"

	"github.com/berth-scheduler/berth/services/queue/decide/waiting"
)

// backlog decides what a fact, an answer or an occurrence means for the pods that wait to be placed, and moves them
// between the pools.
//
// To follow a fact: podChanged decides whether the pod is new, changed or no longer the queue's. A new pod goes through
// podAdded and Pools.Resume, a changed one through podUpdated and Pools.Updated; from there on, package waiting chooses
// the pool (place.go). What the same fact means to other pods is decided afterwards, in changed (wake.go).
type backlog struct {
	cfg     *Config
	world   *waiting.World
	journal *waiting.Journal
	out     *output
	live    reservations
	// unseen holds what is known of attempts at pods that the facts have not shown.
	unseen unseenPods

	// pods holds the entry of each pod that is in a pool, by UID.
	pods  map[string]*waiting.Entry
	pools *waiting.Pools
	// serial is that of the last pod that arrived.
	serial uint64
}

// queued reports whether a pod waits to be placed by one of the profiles.
func (b *backlog) queued(p *state.Pod) bool {
	return b.cfg.Profiles[p.SchedulerName] != nil && p.NodeName == "" && !p.Terminal && !p.Deleting
}

// podChanged applies a pod as the facts show it now.
func (b *backlog) podChanged(p *state.Pod, now waiting.Moment) {
	e, known := b.pods[p.UID]
	ours := b.queued(p)
	switch {
	case known && !ours:
		if p.NodeName != "" {
			b.out.podBound(e, p)
		}
		e.Pod = p
		b.remove(e)
	case known:
		b.podUpdated(e, p, now)
	case ours:
		b.podAdded(p, now)
	}
}

// podAdded puts a pod that has just become known into the pool where its last answer left it. That answer may have been
// read before the pod itself (unseenPods), and so may its reservation (reservations): a replica that starts reads three
// logs at once.
func (b *backlog) podAdded(p *state.Pod, now waiting.Moment) {
	e := b.unseen.take(p.UID)
	b.serial++
	e.Pod = p
	e.Serial = b.serial
	e.Queued = now
	e.Seen = now
	e.Partition, e.Sequence = waiting.PartitionOf(p), b.world.Facts.Sequence
	b.pods[p.UID] = e
	e.Hold.Live = b.live.observe(p)
	if e.ShowsCondition() {
		e.Await = waiting.Await{}
	}
	b.pools.Units.Join(e, now)
	b.pools.Resume(e, now)
}

// podUpdated applies a change of a pod that waits to be placed. A fact that repeats the known version changes nothing.
func (b *backlog) podUpdated(e *waiting.Entry, p *state.Pod, now waiting.Moment) {
	old := e.Pod
	if p.ResourceVersion == old.ResourceVersion {
		return
	}
	e.Pod = p
	e.Sequence = b.world.Facts.Sequence
	b.live.observe(p)
	b.pools.Updated(e, old, now)
}

// remove forgets a pod that is bound, gone, or no longer one of the queue's.
func (b *backlog) remove(e *waiting.Entry) {
	b.pools.Remove(e)
	b.pools.Units.Leave(e)
	b.live.observe(e.Pod)
	delete(b.pods, e.Pod.UID)
}

// reservations holds the pods with a live reservation, whether the queue knows them or not, as last seen (nil: never
// seen).
type reservations map[string]*state.Pod

// observe records how the facts show a pod. It reports whether the pod has a live reservation.
func (r reservations) observe(p *state.Pod) bool {
	_, live := r[p.UID]
	if live {
		r[p.UID] = p
	}
	return live
}
