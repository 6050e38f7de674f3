package decide

import (
	"cmp"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/state"

	"github.com/berth-scheduler/berth/services/queue/internal/heap"
)

// moment is a time of this core, as the duration since its origin. An entry has many, and a moment is smaller than a
// time.Time. 0 is never.
type moment time.Duration

func (m moment) add(d time.Duration) moment { return m + moment(d) }

// window returns the start of the backoff window that a moment is in.
func (m moment) window() moment { return moment(time.Duration(m).Truncate(backoffWindow)) }

// backoffWindow is the granularity of early offers: pods whose backoffs end within one window leave it by priority
// (upstream's backoffQOrderingWindowDuration).
const backoffWindow = time.Second

// entry is one pod and all that the queue knows about it.
type entry struct {
	pod *state.Pod
	standing
	// serial breaks ties in the order; it is unique.
	serial uint64
	// queued orders pods of one priority: it is when the pod arrived, or when its last attempt was answered. entered
	// is when it entered its pool, and seen when the queue first knew it.
	queued, entered, seen moment
	// flushAt is when the pod leaves the parked pool at the latest.
	flushAt moment
	// partition is that of the pod, or of its group; see partitionOf.
	partition int32
	// sequence is the position in the facts that a shard must have applied to decide about this pod: that of the
	// pod's own version and of the event that woke it.
	sequence uint64
	// waits are the pod's places in groups of waiting pods while it is parked.
	waits []wait

	attempt attempt
	verdict verdict
	await   await
	hold    hold
}

// standing is a pod's membership in pools and in a lane.
type standing struct {
	// in is the bag of the entry; a single field ensures that it is in exactly one pool. index holds its position
	// there and, at slotEarly, in the heap early.
	in    *bag
	index [slots]int32
	early *heap.Heap[*entry]
	// lane is the lane of a pod whose last answer was a rejection; see lane.go.
	lane   *lane
	permit bool
	// covered means that the pod may not leave its backoff early after all, because a verdict of its lane covers it.
	covered bool
}

// attempt is the lease and the number of leases.
type attempt struct {
	// count is the number of the last attempt, and answered that of the last attempt whose answer is known.
	count, answered int32
	// lost counts the leases in a row that ended without an answer, and released the reservations that ended without
	// a bind.
	lost, released int16
	// flushed means that the periodic flush, and no event, led to this attempt. early means that the pod left its
	// backoff early for it. activated means that a plugin has since requested another attempt.
	flushed, early, activated bool
	firstOffer                moment
	deadline                  moment
	// cause is the event that led to this attempt, and since its time.
	cause string
	since moment
	// token is the token of the last lease; "" once it was answered. shard is the one that got the lease.
	token string
	shard string
}

// verdict is the last answer to an attempt.
type verdict struct {
	// kind is the kind of the answer; empty before the first one.
	kind events.DecisionKind
	// rejections counts the answers "unplaceable" and "held back", and errors the errors in a row.
	rejections, errors int32
	// counted means that the pod counts for its rejectors. remembered means that it was parked by a memory and has
	// not been tried since.
	counted, remembered bool
	token               string
	message             string
	plugins             []string
	// factSequence and ledgerRevision are the state that the verdict was computed from. factEpoch is the epoch of
	// factSequence, 0 if it is not known. With a known factEpoch, a factSequence of 0 means that the facts are lost.
	factSequence   uint64
	factEpoch      uint64
	ledgerRevision int64
	// backoffUntil is the earliest next attempt. retryAt is when a condition ends that kept the pod from being placed
	// and whose end no event reports; 0 for none.
	backoffUntil, retryAt moment
}

// await is the wait until the facts show the pod as the last verdict's condition left it.
type await struct {
	on    bool
	until moment
	// version is the resourceVersion to wait for; 0 until the binder has reported it.
	version uint64
}

// hold is what the ledger shows, and what must be seen before the absence of an entry counts.
type hold struct {
	live bool
	// revision is the ledger revision of a reservation that a message reported and the watch has not reached; the pod
	// waits for it until until. progress is what the facts must reach after the entry vanished at revision gone.
	revision, gone int64
	until          moment
	progress       uint64
	// withdrawn means that the entry that vanished could never have been bound.
	withdrawn bool
	// answered means that the attempt behind the hold has ended, and that the pod moves to where the answer puts it
	// once the entry has vanished.
	answered bool
}

// These index the positions that an entry can have at the same time.
const (
	slotPool = iota
	slotEarly
	slots
)

// inPool and inEarly return where an entry stores its positions.
func inPool(e *entry) *int32  { return &e.index[slotPool] }
func inEarly(e *entry) *int32 { return &e.index[slotEarly] }

// bag is one pool, or a part of one.
type bag struct {
	*heap.Heap[*entry]
	pool Pool
}

func newBag(pool Pool, less func(a, b *entry) bool) *bag {
	return &bag{pool: pool, Heap: heap.New(less, inPool)}
}

// before is the order in which pods are offered: priority, then time, then arrival (upstream's PrioritySort, with a
// tie-break that makes it total).
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

// earlyBefore is the order in which pods leave their backoff early: by the window in which the backoff ends, then by
// priority (upstream's lessBackoffCompletedWithPriority).
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

// partitionOf returns the partition of a pod: that of its group, if it has one. It never changes.
func partitionOf(p *state.Pod) int32 {
	if g := p.Group(); g != "" {
		return ledger.PartitionOf(g)
	}
	return ledger.PartitionOf(p.UID)
}

// bySerial orders pods by arrival.
func bySerial(a, b *entry) int { return cmp.Compare(a.serial, b.serial) }

// inOrder lists the pods of a bag by arrival.
func inOrder(b *bag) []*entry { return slices.SortedFunc(slices.Values(b.All()), bySerial) }

func podRef(p *state.Pod) events.PodRef {
	return events.PodRef{UID: p.UID, Namespace: p.Namespace, Name: p.Name}
}
