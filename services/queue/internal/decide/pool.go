package decide

import (
	"container/heap"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
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
	// PoolBackoff: may be offered when its time comes, or earlier if there is nothing else
	// to do.
	PoolBackoff Pool = "backoff"
	// PoolParked: waits for an event that its rejectors care about ("unschedulable" in
	// upstream's metrics), or is in quarantine.
	PoolParked Pool = "parked"
	// PoolOffered: leased to a shard.
	PoolOffered Pool = "offered"
	// PoolHeld: has a reservation in the ledger.
	PoolHeld Pool = "held"
)

// Pools lists the pools in the order in which people read them.
var Pools = []Pool{PoolGated, PoolActive, PoolBackoff, PoolParked, PoolOffered, PoolHeld}

// moment is a time of this core's: how long after its origin. Moments are half as big as
// times, of which a pod has many. 0 is never.
type moment time.Duration

func (m moment) add(d time.Duration) moment { return m + moment(d) }

// window is the second a moment is in.
func (m moment) window() moment { return moment(time.Duration(m).Truncate(backoffWindow)) }

// backoffWindow: pods whose backoffs end within one are popped early by priority
// (upstream's backoffQOrderingWindowDuration).
const backoffWindow = time.Second

// entry is one pod and all the queue knows about it.
type entry struct {
	pod *state.Pod
	standing
	// serial breaks ties of the order; it is unique.
	serial uint64
	// queued is the time that orders pods of one priority: when the pod came, or when its
	// last attempt was answered. entered is when it came into its pool, seen when the queue
	// first knew it.
	queued, entered, seen moment
	// flushAt is when the pod leaves the parked ones at the latest.
	flushAt moment
	// partition of the pod, or of its group: see partitionOf.
	partition int32
	// sequence is what a shard must have applied to decide about this pod: the pod's own
	// version, and the event that woke it.
	sequence uint64
	// waits are the groups of waiting pods that the pod is in while it is parked.
	waits []wait

	attempt attempt
	verdict verdict
	await   await
	hold    hold
}

// standing is where a pod stands.
type standing struct {
	// in is the bag the entry is in: being in exactly one pool is a matter of
	// representation. index is its place there and, in slotEarly, in an early heap.
	in    *bag
	index [slots]int32
	early *heapOf
	// lane is that of a pod whose last answer was a rejection; see lane.go.
	lane   *lane
	permit bool
	// late: it may not leave its backoff early after all, a verdict of its lane covers it.
	late bool
}

// attempt is the lease and the count of leases.
type attempt struct {
	// count is the number of the last attempt, answered that of the last one whose answer is
	// known.
	count, answered int32
	// lost counts the leases in a row that ended without an answer; released the
	// reservations that ended without a bind.
	lost, released int16
	// flushed: the sweep, and no event, brought the pod to this attempt. early: it left its
	// backoff before its time for it. activated: a plugin has asked meanwhile for it to be tried again.
	flushed, early, activated bool
	firstOffer                moment
	deadline                  moment
	// cause is the event that brought the pod to this attempt, since when that was.
	cause string
	since moment
	// token is that of the last lease; "" once it was answered.
	token string
	shard *shard
}

// verdict is the last answer to an attempt.
type verdict struct {
	// kind is the answer's; empty before the first.
	kind events.DecisionKind
	// rejections counts answers "unplaceable", errors those in a row that were errors.
	rejections, errors int32
	// counted: the pod counts for its rejectors. remembered: it was parked by a memory, and
	// has not been tried since.
	counted, remembered bool
	token               string
	message             string
	plugins             []string
	// factSequence and ledgerRevision are what the verdict was computed from. factEpoch is
	// that of factSequence, 0 if it is not known. factSequence 0: the facts are lost.
	factSequence   uint64
	factEpoch      uint64
	ledgerRevision int64
	// backoffUntil is the earliest next attempt, retryAt when something ends that nobody tells of
	// and that kept the pod from being placed; 0 for nothing of that kind.
	backoffUntil, retryAt moment
}

// astray says that the verdict was computed from facts that are lost.
func (v *verdict) astray() bool { return v.factSequence == 0 && v.factEpoch != 0 }

// await is the wait until the facts show the pod as the last verdict's condition left it.
type await struct {
	on    bool
	until moment
	// version is the resourceVersion to wait for; 0 while the binder has not told it.
	version uint64
}

// hold is what the ledger says, and what must be seen before its silence counts.
type hold struct {
	live bool
	// revision: a message told of a reservation at this ledger revision, which the watch
	// has not reached, and is waited for until then. progress: the entry vanished, at revision gone, and the facts must
	// reach this.
	revision, gone int64
	until          moment
	progress       uint64
	// withdrawn: what vanished could never have been bound.
	withdrawn bool
	// answered: the attempt that has it is over, and the pod goes where the answer says when it has vanished.
	answered bool
}

// The places an entry can have at the same time.
const (
	slotPool = iota
	slotEarly
	slots
)

// heapOf is an indexed heap of entries.
type heapOf struct {
	slot int
	less func(a, b *entry) bool
	all  []*entry
}

// Len, Less, Swap, Push and Pop belong to container/heap; use put, drop and fix.
func (h *heapOf) Len() int           { return len(h.all) }
func (h *heapOf) Less(i, j int) bool { return h.less(h.all[i], h.all[j]) }
func (h *heapOf) Swap(i, j int) {
	h.all[i], h.all[j] = h.all[j], h.all[i]
	h.all[i].index[h.slot], h.all[j].index[h.slot] = int32(i), int32(j)
}

// Push belongs to container/heap.
func (h *heapOf) Push(x any) {
	e := x.(*entry)
	e.index[h.slot] = int32(len(h.all))
	h.all = append(h.all, e)
}

// Pop belongs to container/heap.
func (h *heapOf) Pop() any {
	last := len(h.all) - 1
	e := h.all[last]
	h.all[last] = nil
	h.all = h.all[:last]
	return e
}

func (h *heapOf) put(e *entry)  { heap.Push(h, e) }
func (h *heapOf) drop(e *entry) { heap.Remove(h, int(e.index[h.slot])) }

// fix restores the order after e's key changed.
func (h *heapOf) fix(e *entry) { heap.Fix(h, int(e.index[h.slot])) }

// first is the least entry, or nil.
func (h *heapOf) first() *entry {
	if len(h.all) == 0 {
		return nil
	}
	return h.all[0]
}

// bag is one pool, or a part of one.
type bag struct {
	heapOf
	pool Pool
}

func newBag(pool Pool, less func(a, b *entry) bool) *bag {
	return &bag{pool: pool, heapOf: heapOf{slot: slotPool, less: less}}
}

// before is the order in which pods are offered: priority, then time, then arrival
// (upstream's PrioritySort, with a tie-break that makes it total).
func before(a, b *entry) bool {
	if a.pod.Priority != b.pod.Priority {
		return a.pod.Priority > b.pod.Priority
	}
	if a.queued != b.queued {
		return a.queued < b.queued
	}
	return a.serial < b.serial
}

func enteredBefore(a, b *entry) bool {
	if a.entered != b.entered {
		return a.entered < b.entered
	}
	return a.serial < b.serial
}

func flushedBefore(a, b *entry) bool {
	if a.flushAt != b.flushAt {
		return a.flushAt < b.flushAt
	}
	return a.serial < b.serial
}

func readyBefore(a, b *entry) bool {
	if ra, rb := a.ready(), b.ready(); ra != rb {
		return ra < rb
	}
	return before(a, b)
}

// earlyBefore is the order in which pods are taken out of their backoff early: whose
// backoff ends first, by windows, and by priority within one (upstream's
// lessBackoffCompletedWithPriority).
func earlyBefore(a, b *entry) bool {
	if wa, wb := a.verdict.backoffUntil.window(), b.verdict.backoffUntil.window(); wa != wb {
		return wa < wb
	}
	return before(a, b)
}

func deadlineBefore(a, b *entry) bool {
	if a.attempt.deadline != b.attempt.deadline {
		return a.attempt.deadline < b.attempt.deadline
	}
	return a.serial < b.serial
}

// ready is the earliest time of the next offer: the backoff is over, and the last
// condition shows in the facts or has been waited for long enough.
func (e *entry) ready() moment {
	if e.await.on {
		return max(e.await.until, e.verdict.backoffUntil)
	}
	return e.verdict.backoffUntil
}

// flushTime is when a pod that is parked now leaves at the latest: after so long, or when something
// ends that its verdict names.
func (e *entry) flushTime(now moment, after time.Duration) moment {
	if e.verdict.retryAt > now {
		return min(now.add(after), e.verdict.retryAt)
	}
	return now.add(after)
}

// mayGoEarly says whether a pod in backoff may be offered before its time when there is
// nothing else to do: rejections may, errors may not (upstream's podErrorBackoffQ), and
// nobody before the facts show the last condition.
func (e *entry) mayGoEarly() bool {
	return e.verdict.errors == 0 && e.attempt.released == 0 && !e.await.on && !e.suspect() && !e.late
}

func (e *entry) pool() Pool {
	if e.in == nil {
		return PoolNone
	}
	return e.in.pool
}
