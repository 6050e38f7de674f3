package waiting

import (
	"cmp"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/state"

	"github.com/berth-scheduler/berth/services/queue/decide/heap"
)

// Moment is a time of this core, as the duration since its origin. An entry has many, and a moment is smaller than a
// time.Time. 0 is never.
type Moment time.Duration

// Add returns the moment that is a duration later.
func (m Moment) Add(d time.Duration) Moment { return m + Moment(d) }

// window returns the start of the backoff window that a moment is in.
func (m Moment) window() Moment { return Moment(time.Duration(m).Truncate(backoffWindow)) }

// backoffWindow is the granularity of early offers: pods whose backoffs end within one window leave it by priority
// (upstream's backoffQOrderingWindowDuration).
const backoffWindow = time.Second

// Entry is one pod and all that the queue knows about it.
type Entry struct {
	Pod *state.Pod
	membership
	// Serial breaks ties in the order; it is unique.
	Serial uint64
	// Queued orders pods of one priority: it is when the pod arrived, or when its last attempt was answered. Entered
	// is when it entered its pool, and Seen when the queue first knew it.
	Queued, Entered, Seen Moment
	// FlushAt is when the pod leaves the parked pool at the latest.
	FlushAt Moment
	// Partition is that of the pod, or of its group; see PartitionOf.
	Partition int32
	// Sequence is the position in the facts that a shard must have applied to decide about this pod: that of the
	// pod's own version and of the event that woke it.
	Sequence uint64
	// unit is the group that the pod is a member of; nil for none.
	unit *unit
	// groups are the pod's places in groups of waiting pods while it is parked.
	groups []groupSlot

	Attempt Attempt
	Verdict Verdict
	Await   Await
	Hold    Hold
}

// membership is a pod's membership in pools and in a lane.
type membership struct {
	// In is the bag of the entry; a single field ensures that it is in exactly one pool. index holds its position
	// there and, at slotEarly, in the heap early.
	In    *Bag
	index [slots]int32
	early *heap.Heap[*Entry]
	// lane is the lane of a pod whose last answer was a rejection; see lane.go.
	lane   *lane
	permit bool
	// covered means that the pod may not leave its backoff early after all, because a verdict of its lane covers it.
	covered bool
}

// Pool returns the pool of a pod.
func (e *Entry) Pool() Pool {
	if e.In == nil {
		return PoolNone
	}
	return e.In.Pool
}

// Blocked reports whether an active pod waits for a permit of its lane.
func (e *Entry) Blocked() bool { return e.lane != nil && e.In == e.lane.blocked }

// Ready returns the earliest time of the next offer: the backoff has ended, and the last condition shows in the facts
// or has been awaited for long enough.
func (e *Entry) Ready() Moment {
	if e.Await.On {
		return max(e.Await.Until, e.Verdict.BackoffUntil)
	}
	return e.Verdict.BackoffUntil
}

// ShowsCondition reports whether the facts show the pod as the last verdict's condition left it.
func (e *Entry) ShowsCondition() bool {
	return e.Await.On && e.Await.Version != 0 && e.Pod.ResourceVersion >= e.Await.Version
}

// Attempt is the lease and the number of leases.
type Attempt struct {
	// Count is the number of the last attempt, and Answered that of the last attempt whose answer is known.
	Count, Answered int32
	// Lost counts the leases in a row that ended without an answer, and Released the reservations that ended without
	// a bind.
	Lost, Released int16
	// Flushed means that the periodic flush, and no event, led to this attempt. Early means that the pod left its
	// backoff early for it. Activated means that a plugin has since requested another attempt.
	Flushed, Early, Activated bool
	FirstOffer                Moment
	Deadline                  Moment
	// Cause is the event that led to this attempt, and Since its time.
	Cause string
	Since Moment
	// Token is the token of the last lease; "" once it was answered. Shard is the one that got the lease.
	Token string
	Shard string
}

// Verdict is the last answer to an attempt. It outlives the next attempts until one of them is answered: the backoff,
// the lane and what a pod waits for follow from it.
type Verdict struct {
	// Kind is the kind of the answer; empty before the first one.
	Kind events.DecisionKind
	// Rejections counts the answers "unplaceable" and "held back", and Errors the errors in a row.
	Rejections, Errors int32
	// counted means that the pod counts for its rejectors. Remembered means that it was parked by a memory and has
	// not been tried since.
	counted, Remembered bool
	token               string
	Message             string
	Plugins             []string
	// FactSequence and LedgerRevision are the state that the verdict was computed from. FactEpoch is the epoch of
	// FactSequence, 0 if it is not known. With a known FactEpoch, a FactSequence of 0 means that the facts are lost.
	FactSequence   uint64
	FactEpoch      uint64
	LedgerRevision int64
	// BackoffUntil is the earliest next attempt. retryAt is when a condition ends that kept the pod from being placed
	// and whose end no event reports; 0 for none.
	BackoffUntil, retryAt Moment
}

// Await is the wait until the facts show the pod as the last verdict's condition left it.
type Await struct {
	On    bool
	Until Moment
	// Version is the resourceVersion to wait for; 0 until the binder has reported it.
	Version uint64
}

// Hold is the state of a pod's entry in the ledger, and the conditions before the absence of an entry counts.
type Hold struct {
	Live bool
	// Revision is the ledger revision of a reservation that a message reported and the watch has not reached; the pod
	// waits for it until Until. Progress is the position that the facts must reach after the entry vanished at
	// revision Gone.
	Revision, Gone int64
	Until          Moment
	Progress       uint64
	// Withdrawn means that the entry that vanished could never have been bound.
	Withdrawn bool
	// Answered means that the attempt behind the hold has ended, and that the pod moves to where the answer puts it
	// once the entry has vanished.
	Answered bool
}

// These index the positions that an entry can have at the same time.
const (
	slotPool = iota
	slotEarly
	slots
)

// inPool and inEarly return where an entry stores its positions.
func inPool(e *Entry) *int32  { return &e.index[slotPool] }
func inEarly(e *Entry) *int32 { return &e.index[slotEarly] }

// Bag is one pool, or a part of one.
type Bag struct {
	*heap.Heap[*Entry]
	Pool Pool
}

func newBag(pool Pool, less func(a, b *Entry) bool) *Bag {
	return &Bag{Pool: pool, Heap: heap.New(less, inPool)}
}

// Before is the order in which pods are offered: priority, then time, then arrival (upstream's PrioritySort, with a
// tie-break that makes it total).
func Before(a, b *Entry) bool {
	if a.Pod.Priority != b.Pod.Priority {
		return a.Pod.Priority > b.Pod.Priority
	}
	if a.Queued != b.Queued {
		return a.Queued < b.Queued
	}
	return a.Serial < b.Serial
}

// These order the pools in which pods wait for a time or for an event, with arrival as the tie-break.

func enteredBefore(a, b *Entry) bool {
	if a.Entered != b.Entered {
		return a.Entered < b.Entered
	}
	return a.Serial < b.Serial
}

func flushedBefore(a, b *Entry) bool {
	if a.FlushAt != b.FlushAt {
		return a.FlushAt < b.FlushAt
	}
	return a.Serial < b.Serial
}

func readyBefore(a, b *Entry) bool {
	if ra, rb := a.Ready(), b.Ready(); ra != rb {
		return ra < rb
	}
	return Before(a, b)
}

// earlyBefore is the order in which pods leave their backoff early: by the window in which the backoff ends, then by
// priority (upstream's lessBackoffCompletedWithPriority).
func earlyBefore(a, b *Entry) bool {
	if wa, wb := a.Verdict.BackoffUntil.window(), b.Verdict.BackoffUntil.window(); wa != wb {
		return wa < wb
	}
	return Before(a, b)
}

func deadlineBefore(a, b *Entry) bool {
	if a.Attempt.Deadline != b.Attempt.Deadline {
		return a.Attempt.Deadline < b.Attempt.Deadline
	}
	return a.Serial < b.Serial
}

// PartitionOf returns the partition of a pod: that of its group, if it has one. It never changes.
func PartitionOf(p *state.Pod) int32 {
	if g := p.Group(); g != "" {
		return ledger.PartitionOf(g)
	}
	return ledger.PartitionOf(p.UID)
}

// BySerial orders pods by arrival.
func BySerial(a, b *Entry) int { return cmp.Compare(a.Serial, b.Serial) }

// InOrder lists the pods of a bag by arrival.
func InOrder(b *Bag) []*Entry { return slices.SortedFunc(slices.Values(b.All()), BySerial) }

// PodRef returns how events name a pod.
func PodRef(p *state.Pod) events.PodRef {
	return events.PodRef{UID: p.UID, Namespace: p.Namespace, Name: p.Name}
}
