package waiting

import (
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Rejector is a rule that holds pods of one profile back.
type Rejector struct{ Plugin, Profile string }

// rejectors counts the pods that each rule holds back; a pod counts once for each of its rejectors.
type rejectors map[Rejector]int

// reject counts a pod for the rules that have rejected it.
func (r rejectors) reject(e *Entry) {
	r.count(e, e.Verdict.Plugins, 1)
	e.Verdict.counted = true
}

// Unreject removes a pod from its rejectors' counts, because it is tried again or gone.
func (r rejectors) Unreject(e *Entry) {
	if e.Verdict.counted {
		r.count(e, e.Verdict.Plugins, -1)
		e.Verdict.counted = false
	}
}

func (r rejectors) count(e *Entry, plugins []string, change int) {
	for _, plugin := range plugins {
		by := Rejector{Plugin: plugin, Profile: e.Pod.SchedulerName}
		if r[by] += change; r[by] == 0 {
			delete(r, by)
		}
	}
}

// Settings are the part of package decide's Config that the pools use.
type Settings struct {
	// Profiles are the profiles whose pods are queued, by scheduler name.
	Profiles map[string]*placement.Profile
	// InitialBackoff and MaxBackoff bound the wait after a failed attempt. A MaxBackoff of 0 disables it.
	InitialBackoff, MaxBackoff time.Duration
	// FlushAfter is the longest time a pod stays parked.
	FlushAfter time.Duration
}

// Ports are the receivers of what happens in the pools. They are called in the middle of a move and must not call back.
type Ports struct {
	Report Report
	Gates  Gates
	Leases Leases
}

// Report receives the moves of pods between pools.
type Report interface {
	// Waited is called before a pod leaves a pool, with the event that moves it out.
	Waited(e *Entry, event string, now Moment)
	// Entered is called after a pod has entered a pool.
	Entered(pool Pool, event string)
}

// Gates receives the pods that wait for their gates.
type Gates interface {
	Enter(e *Entry)
	// Update applies a change of the pod, and Reorder one of its priority alone.
	Update(p *state.Pod)
	Reorder(p *state.Pod)
	Leave(uid string)
}

// Leases receives the pods whose lease ends because they leave the pool of offered pods.
type Leases interface {
	End(e *Entry)
}

// Pools holds every pod that waits to be placed, each in one pool. It keeps the indexes of the pools consistent: the
// rules that parked pods wait for, the lanes of pods that were rejected alike, the pods that may be offered early, the
// leases of offered pods and the queues for quota of gated ones. place.go decides which pool a pod belongs into.
type Pools struct {
	cfg     Settings
	report  Report
	gates   Gates
	leases  Leases
	world   *World
	journal *Journal

	// Active holds the active pods of each partition, in the order in which they are offered. ActiveCount counts all
	// active pods, those that wait for a permit of their lane included.
	Active      [ledger.Partitions]*Bag
	ActiveCount int
	// The other pools are one bag each: Gated and Held in the order of entry, Backoff by the end of the wait, Parked by
	// the flush, Offered by the deadline of the lease. Quarantine is a part of the parked pool, in the order of entry.
	Gated, Backoff, Parked, Quarantine, Offered, Held *Bag
	// Units holds the groups of pods that are tried together.
	Units *Units
	lanes lanes
	// byRule indexes the parked pods by what could wake them.
	byRule wakeIndex
	// Settling holds the held pods without a live reservation; see AwaitOutcome.
	Settling map[*Entry]struct{}
	// TooLarge holds the gated pods whose owners must still be informed that they are too large.
	TooLarge map[*Entry]struct{}
	// Rejectors counts the pods that each rule holds back, for metrics.
	Rejectors rejectors
}

// NewPools returns empty pools.
func NewPools(cfg Settings, ports Ports, w *World, j *Journal) *Pools {
	p := &Pools{
		cfg: cfg, report: ports.Report, gates: ports.Gates, leases: ports.Leases, world: w, journal: j,
		Gated:      newBag(PoolGated, enteredBefore),
		Backoff:    newBag(PoolBackoff, readyBefore),
		Parked:     newBag(PoolParked, flushedBefore),
		Quarantine: newBag(PoolParked, enteredBefore),
		Offered:    newBag(PoolOffered, deadlineBefore),
		Held:       newBag(PoolHeld, enteredBefore),
		lanes:      newLanes(j), byRule: newWakeIndex(),
		Settling: map[*Entry]struct{}{}, TooLarge: map[*Entry]struct{}{}, Rejectors: rejectors{},
	}
	p.Units = newUnits(p, w)
	for i := range p.Active {
		p.Active[i] = newBag(PoolActive, Before)
	}
	return p
}

// First returns the first active pod of some partitions; nil for none.
func (p *Pools) First(partitions []int32) *Entry {
	var best *Entry
	for _, part := range partitions {
		if e := p.Active[part].First(); e != nil && (best == nil || Before(e, best)) {
			best = e
		}
	}
	return best
}

// FirstEarly returns the first pod of some partitions that may be offered before its backoff ends; nil for none.
func (p *Pools) FirstEarly(partitions []int32) *Entry { return p.lanes.firstEarly(partitions) }

// Offerable counts the pods that may be offered, now or early.
func (p *Pools) Offerable() int { return p.ActiveCount + p.lanes.early.count }

// WakenBy returns the parked pods that an occurrence could help, and counts the hints that were evaluated.
func (p *Pools) WakenBy(o *Occurrence) (pods []*Entry, hints map[HintCount]int) {
	if p.byRule.pods == 0 {
		return nil, nil
	}
	found := p.byRule.lookup(o)
	return found.woken, found.hints
}

// NewEpoch voids the verdicts of lanes that were computed from facts which are lost.
func (p *Pools) NewEpoch(known Epochs) { p.lanes.newEpoch(known) }

// NextDeadline returns when the first pod must leave its pool, at the latest at the given moment.
func (p *Pools) NextDeadline(latest Moment) Moment {
	if e := p.Backoff.First(); e != nil {
		latest = min(latest, e.Ready())
	}
	if e := p.Offered.First(); e != nil {
		latest = min(latest, e.Attempt.Deadline)
	}
	if e := p.Parked.First(); e != nil {
		latest = min(latest, e.FlushAt)
	}
	return latest
}

// Pending counts the pods of each pool. Empty pools are included with 0.
func (p *Pools) Pending() map[Pool]int {
	return map[Pool]int{
		PoolGated: p.Gated.Len(), PoolActive: p.ActiveCount, PoolBackoff: p.Backoff.Len(),
		PoolParked:  p.Parked.Len() + p.Quarantine.Len(),
		PoolOffered: p.Offered.Len(), PoolHeld: p.Held.Len(), PoolGrouped: p.Units.Grouped.Len(),
	}
}

// Members returns the pods of a pool in the order in which they leave it.
func (p *Pools) Members(pool Pool) []*Entry {
	var all []*Entry
	less := Before
	for b := range p.Bags() {
		if b.Pool == pool {
			all, less = append(all, b.All()...), b.Less
		}
	}
	slices.SortFunc(all, func(a, b *Entry) int {
		if less(a, b) {
			return -1
		}
		return 1
	})
	return all
}

// Bags visits the bags of all pools.
func (p *Pools) Bags() iter.Seq[*Bag] {
	return func(yield func(*Bag) bool) {
		waiting := []*Bag{p.Gated, p.Backoff, p.Parked, p.Quarantine, p.Offered, p.Held, p.Units.Grouped}
		for _, key := range slices.Sorted(maps.Keys(p.lanes.all)) {
			waiting = append(waiting, p.lanes.all[key].blocked)
		}
		for _, bag := range slices.Concat(waiting, p.Active[:]) {
			if !yield(bag) {
				return
			}
		}
	}
}

// Sizes counts what the indexes of the pools hold.
type Sizes struct{ Settling, Lanes, MovedLanes int }

// Sizes counts what the indexes of the pools hold.
func (p *Pools) Sizes() Sizes { return Sizes{len(p.Settling), len(p.lanes.all), len(p.lanes.dirty)} }
