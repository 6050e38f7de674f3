package decide

import (
	"container/heap"
	"time"

	"github.com/berth-scheduler/berth/pkg/state"
)

// Pool is where a pod stands. The set is closed.
type Pool string

// The pools. Bound and gone pods are in none: the core forgets them.
const (
	// PoolNone: not a pod of this queue, or bound, or gone.
	PoolNone Pool = ""
	// PoolGated: waits until its scheduling gates are removed.
	PoolGated Pool = "gated"
	// PoolActive: may be offered at once.
	PoolActive Pool = "active"
	// PoolBackoff: may be offered when its time comes.
	PoolBackoff Pool = "backoff"
	// PoolParked: waits for an event that its rejectors care about ("unschedulable" in
	// upstream's metrics).
	PoolParked Pool = "parked"
	// PoolOffered: leased to a shard.
	PoolOffered Pool = "offered"
	// PoolHeld: has a reservation in the ledger.
	PoolHeld Pool = "held"
)

// Pools lists the pools in the order in which people read them.
var Pools = []Pool{PoolGated, PoolActive, PoolBackoff, PoolParked, PoolOffered, PoolHeld}

// entry is one pod and all the queue knows about it.
type entry struct {
	pod *state.Pod
	// in is the bag the entry is in and index its place there: being in exactly one pool
	// is a matter of representation.
	in    *bag
	index int
	// serial breaks ties of the order; it is unique.
	serial uint64
	// queued is the time that orders pods of one priority: when the pod came, or when its
	// last attempt was answered. entered is when it came into its pool.
	queued, entered time.Time
	seen            time.Time
	// partition of the pod: a function of its UID.
	partition int32
	// sequence is what a shard must have applied to decide about this pod: the pod's own
	// version, and the event that woke it.
	sequence uint64
	// movedAt is the sequence of the pod's own last change while it was out on an offer.
	movedAt uint64

	attempt attempt
	verdict verdict
	await   await
	hold    hold
}

// attempt is the lease and the count of leases.
type attempt struct {
	count      int32
	firstOffer time.Time
	// token is that of the last lease; "" once it was answered.
	token    string
	shard    string
	deadline time.Time
}

// verdict is the last answer to an attempt.
type verdict struct {
	// rejections counts answers "unplaceable", errors those in a row that were errors.
	rejections, errors int
	token              string
	message            string
	plugins            []string
	interest           Cause
	// factSequence and ledgerRevision are what the verdict was computed from.
	factSequence   uint64
	ledgerRevision int64
	// backoffUntil is the earliest next attempt.
	backoffUntil time.Time
}

// await is the wait until the facts show the pod as the last verdict's condition left it.
type await struct {
	on    bool
	until time.Time
	// version is the resourceVersion to wait for; 0 while the binder has not told it.
	version uint64
}

// hold is what the ledger says, and what must be seen before its silence counts.
type hold struct {
	live bool
	// revision: a message told of a reservation at this ledger revision, which the watch
	// has not reached. progress: the entry vanished, and the facts must reach this.
	revision int64
	progress uint64
}

// bag is one pool (or one partition of the active pool) as an indexed heap.
type bag struct {
	pool Pool
	less func(a, b *entry) bool
	all  []*entry
}

func (b *bag) Len() int           { return len(b.all) }
func (b *bag) Less(i, j int) bool { return b.less(b.all[i], b.all[j]) }
func (b *bag) Swap(i, j int) {
	b.all[i], b.all[j] = b.all[j], b.all[i]
	b.all[i].index, b.all[j].index = i, j
}

// Push and Pop belong to container/heap alone; use put and drop.
func (b *bag) Push(x any) {
	e := x.(*entry)
	e.index = len(b.all)
	b.all = append(b.all, e)
}

// Pop belongs to container/heap alone; use drop.
func (b *bag) Pop() any {
	last := len(b.all) - 1
	e := b.all[last]
	b.all[last] = nil
	b.all = b.all[:last]
	return e
}

func (b *bag) put(e *entry) {
	e.in = b
	heap.Push(b, e)
}

func (b *bag) drop(e *entry) {
	heap.Remove(b, e.index)
	e.in = nil
}

// fix restores the order after e's key changed.
func (b *bag) fix(e *entry) { heap.Fix(b, e.index) }

// first is the least entry, or nil.
func (b *bag) first() *entry {
	if len(b.all) == 0 {
		return nil
	}
	return b.all[0]
}

// before is the order in which pods are offered: priority, then time, then arrival
// (upstream's PrioritySort, with a tie-break that makes it total).
func before(a, b *entry) bool {
	if a.pod.Priority != b.pod.Priority {
		return a.pod.Priority > b.pod.Priority
	}
	if !a.queued.Equal(b.queued) {
		return a.queued.Before(b.queued)
	}
	return a.serial < b.serial
}

func enteredBefore(a, b *entry) bool {
	if !a.entered.Equal(b.entered) {
		return a.entered.Before(b.entered)
	}
	return a.serial < b.serial
}

func readyBefore(a, b *entry) bool {
	ra, rb := a.ready(), b.ready()
	if !ra.Equal(rb) {
		return ra.Before(rb)
	}
	return before(a, b)
}

func deadlineBefore(a, b *entry) bool {
	if !a.attempt.deadline.Equal(b.attempt.deadline) {
		return a.attempt.deadline.Before(b.attempt.deadline)
	}
	return a.serial < b.serial
}

// ready is the earliest time of the next offer: the backoff is over, and the last
// condition shows in the facts or has been waited for long enough.
func (e *entry) ready() time.Time {
	if e.await.on && e.await.until.After(e.verdict.backoffUntil) {
		return e.await.until
	}
	return e.verdict.backoffUntil
}

func (e *entry) pool() Pool {
	if e.in == nil {
		return PoolNone
	}
	return e.in.pool
}
