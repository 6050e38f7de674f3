package decide

import (
	"iter"
	"maps"
	"slices"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/placement"

	"github.com/berth-scheduler/berth/services/queue/internal/quota"
)

// pools holds every pod that waits to be placed, each in one pool. It keeps the indexes of the pools consistent: the
// rules that parked pods wait for, the lanes of pods that were rejected alike, the pods that may be offered early, the
// leases of offered pods and the queues for quota of gated ones. Which pool a pod belongs into is the backlog's
// decision.
type pools struct {
	cfg     *Config
	out     *output
	leases  *leases
	budgets *quota.Budgets

	active                                            [ledger.Partitions]*bag
	activeCount                                       int
	gated, backoff, parked, quarantine, offered, held *bag
	// early holds pods in backoff that may be offered early.
	early earlyList
	lanes lanes
	// waiting indexes the parked pods by what could wake them.
	waiting waiting
	// settling holds the held pods without a live reservation; see holds.go.
	settling map[*entry]struct{}
	// tooLarge holds the gated pods whose owners must still be informed that they are too large.
	tooLarge map[*entry]struct{}
	// rejectors counts the pods that each rule holds back; a pod counts once for each of its rejectors.
	rejectors map[Rejector]int
}

func newPools(cfg *Config, out *output, l *leases, b *quota.Budgets, j *journal) *pools {
	p := &pools{
		cfg: cfg, out: out, leases: l, budgets: b,
		gated:      newBag(PoolGated, enteredBefore),
		backoff:    newBag(PoolBackoff, readyBefore),
		parked:     newBag(PoolParked, flushedBefore),
		quarantine: newBag(PoolParked, enteredBefore),
		offered:    newBag(PoolOffered, deadlineBefore),
		held:       newBag(PoolHeld, enteredBefore),
		early:      newEarlyList(), lanes: newLanes(j), waiting: newWaiting(),
		settling: map[*entry]struct{}{}, tooLarge: map[*entry]struct{}{}, rejectors: map[Rejector]int{},
	}
	for i := range p.active {
		p.active[i] = newBag(PoolActive, before)
	}
	return p
}

// enter moves a pod into a pool.
func (p *pools) enter(e *entry, to *bag, event string, now moment) {
	p.out.podWaited(e, event, now)
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
	p.out.incoming(to.pool, event)
}

// index adds a pod to the indexes of the pool that it has entered.
func (p *pools) index(e *entry) {
	switch {
	case e.in == p.parked:
		p.waiting.add(e, p.profile(e))
	case e.in == p.gated:
		p.countRejectors(e, []string{placement.SchedulingGates}, 1)
		p.budgets.Enter(e.pod, p.out.clock.timeOf(e.queued), e.serial)
		if e.pod.TooLarge() {
			p.tooLarge[e] = struct{}{}
		}
	case e.in == p.backoff:
		p.mayGoEarly(e)
	case e.in.pool == PoolActive:
		p.activeCount++
	}
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
		p.budgets.Leave(e.pod.UID)
		delete(p.tooLarge, e)
	case from == p.backoff:
		p.notEarly(e)
	case from == p.offered:
		p.leases.end(e)
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
	p.detach(e)
	p.unreject(e)
	p.lanes.leave(e)
}

// reorder restores the order of a pool after a pod's priority changed.
func (p *pools) reorder(e *entry) {
	e.in.Fix(e)
	if e.early != nil {
		e.early.Fix(e)
	}
	if e.in == p.gated {
		p.budgets.Reorder(e.pod)
	}
}

// gatedUpdated applies a change of a gated pod's gates or requests. grown means that the pod has become too large.
func (p *pools) gatedUpdated(e *entry, grown bool) {
	p.budgets.Update(e.pod)
	if grown {
		p.tooLarge[e] = struct{}{}
	}
}

// parkedUpdated applies a change of a parked pod that stays parked.
func (p *pools) parkedUpdated(e *entry) {
	p.waiting.remove(e)
	p.waiting.add(e, p.profile(e))
}

func (p *pools) profile(e *entry) *placement.Profile { return p.cfg.Profiles[e.pod.SchedulerName] }

// answered takes a pod out of its lane, and from its rejectors' counts, because an attempt at it has been answered.
func (p *pools) answered(e *entry, answer events.DecisionKind) {
	p.unreject(e)
	p.lanes.answered(e, answer)
}

// reject counts a pod for the rules that have rejected it.
func (p *pools) reject(e *entry) {
	p.countRejectors(e, e.verdict.plugins, 1)
	e.verdict.counted = true
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
		p.mayGoEarly(e)
	}
}

// mayGoEarly lists a pod in backoff among those that may be offered early, if it may.
func (p *pools) mayGoEarly(e *entry) {
	switch {
	case e.early != nil || !e.mayGoEarly():
	case e.lane != nil:
		e.early = e.lane.unlisted
		e.early.Put(e)
		p.lanes.visit(e)
	default:
		p.early.put(e)
	}
}

func (p *pools) notEarly(e *entry) {
	if e.early != nil && p.early.drop(e) {
		p.lanes.visit(e)
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
				p.early.put(e)
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
	e.backOff(p.cfg, now)
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

// firstEarly returns the first pod of some partitions that may leave its backoff early, is not covered by a verdict of
// its lane and whose lane is not full; nil for none.
func (p *pools) firstEarly(partitions []int32) *entry {
	for p.early.count > 0 {
		best := p.early.first(partitions)
		switch {
		case best == nil || best.lane == nil:
			return best
		case p.lanes.covers(best):
			p.notEarly(best)
			best.covered = true
		case best.lane.out >= best.lane.width:
			p.unlist(best)
		default:
			return best
		}
	}
	return nil
}

// unlist takes a pod off the list of those that may be offered early because its lane is full.
func (p *pools) unlist(e *entry) {
	p.notEarly(e)
	e.early = e.lane.unlisted
	e.early.Put(e)
}

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
