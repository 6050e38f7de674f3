package decide

import (
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Effect is something to carry out. The set is closed: SendOffers, Record, Complaint, MovePartitions, PodBound,
// PodWaited, Counted, NextTick. Effects are hints and reports. Losing any of them costs time, a number or an
// explanation, never correctness, so their order does not matter.
type Effect interface {
	effect()
}

// SendOffers sends one message of offers to one shard.
type SendOffers struct {
	Shard string
	Batch events.OfferBatch
}

// Record appends a decision made by the queue to the log.
type Record struct {
	Decision events.Decision
}

// Complaint is a problem that people must fix.
type Complaint struct {
	Text string
}

// MovePartitions records in the ledger which member should hold partitions, each at most once.
type MovePartitions struct {
	Moves []Move
}

// PodBound reports that a pod's bind was seen in the facts.
type PodBound struct {
	Pod *state.Pod
	// Attempts counts the offers made, to this replica's knowledge.
	Attempts int32
	// Seen is when the queue first knew the pod, FirstOffer when it first offered it (zero: never), and Bound the
	// time of the step that saw the bind.
	Seen, FirstOffer, Bound time.Time
}

// PodWaited reports that a pod has left a pool in which it waited: gated, backoff or parked.
type PodWaited struct {
	Pod  *state.Pod
	Pool Pool
	// Since is when the pod entered the pool, Until when it left, and Event what moved it out.
	Since, Until time.Time
	Event        string
	// Rejectors are the rules that had rejected it.
	Rejectors []string
}

// Incoming is one way into a pool: the label values of queue_incoming_pods_total.
type Incoming struct {
	Pool  Pool
	Event string
}

// Counted adds to counters.
type Counted struct {
	Incoming map[Incoming]int
	Hints    map[HintCount]int
	// Offered, Expired and Returned count leases granted, expired and returned. Quarantined counts the pods put into
	// quarantine.
	Offered, Expired, Returned, Quarantined int
	// Flushed counts pods that no event woke within the flush period. Caught counts those of them that were placed
	// afterwards: each is an event that a hint has missed, which is a bug.
	Flushed, Caught int
}

// NextTick requests a step no later than At. It replaces an earlier one.
type NextTick struct {
	At time.Time
}

func (SendOffers) effect()     {}
func (Record) effect()         {}
func (Complaint) effect()      {}
func (MovePartitions) effect() {}
func (PodBound) effect()       {}
func (PodWaited) effect()      {}
func (Counted) effect()        {}
func (NextTick) effect()       {}

// These are the events that bring pods into a pool. They have upstream's names where upstream has the event
// (pkg/scheduler/framework/events.go), so that dashboards keep working. Changes of the cluster are named by
// rule.Change.Label.
const (
	eventPodAdd          = "UnschedulablePodAdd"
	eventGatesGone       = "UnschedulablePodUpdatePodSchedulingGatesEliminated"
	eventAttemptFailure  = "ScheduleAttemptFailure"
	eventBackoffComplete = "BackoffComplete"
	eventPopFromBackoff  = "PopFromBackoffQ"
	eventTimeout         = "UnschedulableTimeout"
	eventTakeover        = "LeaderTakeover"
	eventLeaseExpired    = "OfferExpired"
	eventLeaseReturned   = "OfferReturned"
	eventReleased        = "ReservationReleased"
	eventWithdrawn       = "HoldWithdrawn"
	eventQuarantine      = "Quarantine"
	eventActivate        = "ForceActivate"
	eventOffer           = "Offer"
	eventPlaced          = "Placed"
	eventReserved        = "ReservationSeen"
	eventReset           = "FactsReset"
)

// output collects the effects of a step.
type output struct {
	offers  []SendOffers
	records []Record
	// complaints are emitted when they arise, whether or not this replica leads.
	complaints []Complaint
	moves      []Move
	bound      []PodBound
	waited     []PodWaited
	counts     Counted
	tick       time.Time
}

func (o *output) incoming(pool Pool, event string) {
	if o.counts.Incoming == nil {
		o.counts.Incoming = map[Incoming]int{}
	}
	o.counts.Incoming[Incoming{Pool: pool, Event: event}]++
}

func (o *output) hinted(hints map[HintCount]int) {
	if o.counts.Hints == nil {
		o.counts.Hints = hints
		return
	}
	for k, n := range hints {
		o.counts.Hints[k] += n
	}
}

func (o *output) effects() []Effect {
	var out []Effect
	for _, e := range o.offers {
		out = append(out, e)
	}
	for _, e := range o.records {
		out = append(out, e)
	}
	for _, e := range o.complaints {
		out = append(out, e)
	}
	if len(o.moves) > 0 {
		out = append(out, MovePartitions{Moves: o.moves})
	}
	for _, e := range o.bound {
		out = append(out, e)
	}
	for _, e := range o.waited {
		out = append(out, e)
	}
	if n := &o.counts; n.any() {
		out = append(out, *n)
	}
	if !o.tick.IsZero() {
		out = append(out, NextTick{At: o.tick})
	}
	return out
}

func (n *Counted) any() bool {
	return len(n.Incoming)+len(n.Hints)+n.Offered+n.Expired+n.Returned+n.Quarantined+n.Flushed+n.Caught > 0
}
