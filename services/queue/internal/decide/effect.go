package decide

import (
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Effect is something to do. The set is closed: SendOffers, PodBound, Counted, NextTick.
// Effects are hints and reports: losing any of them costs time or a number, never
// correctness, so their order does not matter.
type Effect interface {
	effect()
}

// SendOffers sends one message of offers to one shard.
type SendOffers struct {
	Shard string
	Batch events.OfferBatch
}

// PodBound reports the end of a pod's path: its bind was seen in the facts.
type PodBound struct {
	Pod *state.Pod
	// Attempts counts the offers made; 0 when another leader made them.
	Attempts int32
	// Seen is when the queue first knew the pod, FirstOffer when it first offered it (zero:
	// never), Bound the time of the step that saw the bind.
	Seen, FirstOffer, Bound time.Time
}

// Incoming is a way into a pool: the label values of queue_incoming_pods_total.
type Incoming struct {
	Pool  Pool
	Event string
}

// Counted adds to counters.
type Counted struct {
	Incoming map[Incoming]int
	// Offered, Expired and Returned count leases given, run out and given back; Flushed
	// counts pods that no event woke within the flush period.
	Offered, Expired, Returned, Flushed int
}

// NextTick asks for a step no later than At; it replaces an earlier one.
type NextTick struct {
	At time.Time
}

func (SendOffers) effect() {}
func (PodBound) effect()   {}
func (Counted) effect()    {}
func (NextTick) effect()   {}

// Events that bring pods into a pool; upstream's names where upstream has the event
// (pkg/scheduler/framework/events.go), so that dashboards keep working.
const (
	eventPodAdd          = "UnscheduledPodAdd"
	eventPodUpdate       = "UnscheduledPodUpdate"
	eventAttemptFailure  = "ScheduleAttemptFailure"
	eventBackoffComplete = "BackoffComplete"
	eventTimeout         = "UnschedulableTimeout"
	eventTakeover        = "LeaderTakeover"
	eventLeaseExpired    = "OfferExpired"
	eventLeaseReturned   = "OfferReturned"
	eventReleased        = "ReservationReleased"
	eventGatesGone       = "UpdatePodSchedulingGatesEliminated"
	eventOffer           = "Offer"
	eventPlaced          = "Placed"
	eventReserved        = "ReservationSeen"
	eventReset           = "FactsReset"
)
