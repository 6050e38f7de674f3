package decide

import (
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Rejector is a rule that holds pods of one profile back.
type Rejector struct{ Plugin, Profile string }

// Settings are what the pools must know of the configuration.
type Settings struct {
	// Profiles are the profiles whose pods are queued, by scheduler name.
	Profiles map[string]*placement.Profile
	// InitialBackoff and MaxBackoff bound the wait after a failed attempt. A MaxBackoff of 0 disables it.
	InitialBackoff, MaxBackoff time.Duration
	// FlushAfter is the longest time a pod stays parked.
	FlushAfter time.Duration
}

// Ports are the receivers of what happens in the pools.
type Ports struct {
	Report Report
	Gates  Gates
	Leases Leases
}

// Report receives the moves of pods between pools.
type Report interface {
	// Waited is called before a pod leaves a pool, with the event that moves it out.
	Waited(e *entry, event string, now moment)
	// Entered is called after a pod has entered a pool.
	Entered(pool Pool, event string)
}

// Gates receives the pods that wait for their gates.
type Gates interface {
	Enter(e *entry)
	// Update applies a change of the pod, and Reorder one of its priority alone.
	Update(p *state.Pod)
	Reorder(p *state.Pod)
	Leave(uid string)
}

// Leases receives the pods whose lease ends because they leave the pool of offered pods.
type Leases interface {
	End(e *entry)
}

// pools holds every pod that waits to be placed, each in one pool. It keeps the indexes of the pools consistent: the
// rules that parked pods wait for, the lanes of pods that were rejected alike, the pods that may be offered early, the
// leases of offered pods and the queues for quota of gated ones. place.go decides which pool a pod belongs into.
type pools struct {
	cfg     Settings
	report  Report
	gates   Gates
	leases  Leases
	world   *world
	journal *journal

	active                                            [ledger.Partitions]*bag
	activeCount                                       int
	gated, backoff, parked, quarantine, offered, held *bag
	lanes                                             lanes
	// waiting indexes the parked pods by what could wake them.
	waiting waiting
	// settling holds the held pods without a live reservation; see holds.go.
	settling map[*entry]struct{}
	// tooLarge holds the gated pods whose owners must still be informed that they are too large.
	tooLarge map[*entry]struct{}
	// rejectors counts the pods that each rule holds back; a pod counts once for each of its rejectors.
	rejectors map[Rejector]int
}

func newPools(cfg Settings, ports Ports, w *world, j *journal) *pools {
	p := &pools{
		cfg: cfg, report: ports.Report, gates: ports.Gates, leases: ports.Leases, world: w, journal: j,
		gated:      newBag(PoolGated, enteredBefore),
		backoff:    newBag(PoolBackoff, readyBefore),
		parked:     newBag(PoolParked, flushedBefore),
		quarantine: newBag(PoolParked, enteredBefore),
		offered:    newBag(PoolOffered, deadlineBefore),
		held:       newBag(PoolHeld, enteredBefore),
		lanes:      newLanes(j), waiting: newWaiting(),
		settling: map[*entry]struct{}{}, tooLarge: map[*entry]struct{}{}, rejectors: map[Rejector]int{},
	}
	for i := range p.active {
		p.active[i] = newBag(PoolActive, before)
	}
	return p
}

// detach removes a pod from its pool and the indexes of the pool, if it is in one.
func (p *pools) detach(e *entry) {
	from := e.in
	if from == nil {
		return
	}
	switch {
	case from == p.parked:
		p.waiting.remove(e)
	case from == p.gated:
		p.countRejectors(e, []string{placement.SchedulingGates}, -1)
		p.gates.Leave(e.pod.UID)
		delete(p.tooLarge, e)
	case from == p.backoff:
		p.lanes.dropEarly(e)
	case from == p.offered:
		p.leases.End(e)
	case from == p.held:
		delete(p.settling, e)
	case from.pool == PoolActive:
		p.activeCount--
	}
	from.Drop(e)
	e.in = nil
}

// remove removes a pod that no longer waits to be placed.
func (p *pools) remove(e *entry) {
	p.unreject(e)
	p.detach(e)
	p.lanes.leave(e)
}

// reorder restores the order of a pool after a pod's priority changed.
func (p *pools) reorder(e *entry) {
	e.in.Fix(e)
	if e.early != nil {
		e.early.Fix(e)
	}
	if e.in == p.gated {
		p.gates.Reorder(e.pod)
	}
}

// gatedUpdated applies a change of a gated pod's gates or requests. grown means that the pod has become too large.
func (p *pools) gatedUpdated(e *entry, grown bool) {
	p.gates.Update(e.pod)
	if grown {
		p.tooLarge[e] = struct{}{}
	}
}

// parkedUpdated applies a change of a parked pod that stays parked.
func (p *pools) parkedUpdated(e *entry) {
	p.waiting.remove(e)
	p.waiting.add(e, p.profile(e))
}

// answered takes a pod out of its lane, and from its rejectors' counts, because an attempt at it has been answered.
func (p *pools) answered(e *entry, answer events.DecisionKind) {
	p.unreject(e)
	p.lanes.answered(e, answer)
}

// unreject removes a pod from its rejectors' counts, because it is tried again or gone.
func (p *pools) unreject(e *entry) {
	if e.verdict.counted {
		p.countRejectors(e, e.verdict.plugins, -1)
		e.verdict.counted = false
	}
}

func (p *pools) countRejectors(e *entry, plugins []string, change int) {
	for _, plugin := range plugins {
		r := Rejector{Plugin: plugin, Profile: e.pod.SchedulerName}
		if p.rejectors[r] += change; p.rejectors[r] == 0 {
			delete(p.rejectors, r)
		}
	}
}

// readyChanged applies a change of the time at which a pod's backoff ends, if it is in backoff.
func (p *pools) readyChanged(e *entry) {
	if e.in == p.backoff {
		p.backoff.Fix(e)
		p.lanes.listEarly(e)
	}
}

// openLanes visits the lanes in which something moved. Pods that a verdict covers are parked, or are not offered
// early; the next pods get the permits.
func (p *pools) openLanes(now moment) {
	for l := range p.lanes.moved {
		for e := l.blocked.First(); e != nil && (l.out < l.width || p.lanes.covers(e)); e = l.blocked.First() {
			if p.lanes.covers(e) {
				p.parkLike(e, now)
				continue
			}
			l.blocked.Drop(e)
			l.givePermit(e)
			e.in = p.active[e.partition]
			e.in.Put(e)
		}
		for e := l.unlisted.First(); e != nil && (l.out+l.listed < l.width || p.lanes.covers(e)); e = l.unlisted.First() {
			l.unlisted.Drop(e)
			e.early = nil
			if e.covered = p.lanes.covers(e); !e.covered {
				p.lanes.early.put(e)
			}
		}
	}
	clear(p.lanes.moved)
}

// parkLike parks a pod by its lane's newest verdict. It counts for the pod's backoff like a verdict of its own;
// otherwise ten thousand pods that every deletion wakes would be moved every second.
func (p *pools) parkLike(e *entry, now moment) {
	r := &e.lane.rejected
	e.verdict.rejections++
	e.verdict.factSequence, e.verdict.factEpoch = r.factSequence, r.factEpoch
	e.verdict.ledgerRevision = r.ledgerRevision
	e.verdict.message = r.message
	e.verdict.retryAt = r.retryAt
	e.backOff(&p.cfg, now)
	p.enter(e, p.parked, eventAttemptFailure, now)
}

// first returns the first active pod of some partitions; nil for none.
func (p *pools) first(partitions []int32) *entry {
	var best *entry
	for _, part := range partitions {
		if e := p.active[part].First(); e != nil && (best == nil || before(e, best)) {
			best = e
		}
	}
	return best
}

// settle makes a held pod wait until facts and ledger show what has become of its reservation.
func (p *pools) settle(e *entry) { p.settling[e] = struct{}{} }

// nextDeadline returns when the first pod must leave its pool, at the latest at the given moment.
func (p *pools) nextDeadline(latest moment) moment {
	if e := p.backoff.First(); e != nil {
		latest = min(latest, e.ready())
	}
	if e := p.offered.First(); e != nil {
		latest = min(latest, e.attempt.deadline)
	}
	if e := p.parked.First(); e != nil {
		latest = min(latest, e.flushAt)
	}
	return latest
}

// pending counts the pods of each pool. Empty pools are included with 0.
func (p *pools) pending() map[Pool]int {
	return map[Pool]int{
		PoolGated: p.gated.Len(), PoolActive: p.activeCount, PoolBackoff: p.backoff.Len(),
		PoolParked:  p.parked.Len() + p.quarantine.Len(),
		PoolOffered: p.offered.Len(), PoolHeld: p.held.Len(),
	}
}

// members returns the pods of a pool in the order in which they leave it.
func (p *pools) members(pool Pool) []*entry {
	var all []*entry
	less := before
	for b := range p.bags() {
		if b.pool == pool {
			all, less = append(all, b.All()...), b.Less
		}
	}
	slices.SortFunc(all, func(a, b *entry) int {
		if less(a, b) {
			return -1
		}
		return 1
	})
	return all
}

// bags visits the bags of all pools.
func (p *pools) bags() iter.Seq[*bag] {
	return func(yield func(*bag) bool) {
		waiting := []*bag{p.gated, p.backoff, p.parked, p.quarantine, p.offered, p.held}
		for _, key := range slices.Sorted(maps.Keys(p.lanes.all)) {
			waiting = append(waiting, p.lanes.all[key].blocked)
		}
		for _, bag := range slices.Concat(waiting, p.active[:]) {
			if !yield(bag) {
				return
			}
		}
	}
}
