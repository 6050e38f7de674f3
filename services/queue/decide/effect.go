package decide

import (
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/work"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/queue/decide/balance"
	"github.com/berth-scheduler/berth/services/queue/decide/waiting"
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
	Batch work.OfferBatch
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
	Moves []balance.Move
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
	Pool waiting.Pool
	// Since is when the pod entered the pool, Until when it left, and Event what moved it out.
	Since, Until time.Time
	Event        string
	// Rejectors are the rules that had rejected it.
	Rejectors []string
}

// Incoming is one way into a pool: the label values of queue_incoming_pods_total.
type Incoming struct {
	Pool  waiting.Pool
	Event string
}

// Counted adds to counters.
type Counted struct {
	Incoming map[Incoming]int
	Hints    map[waiting.HintCount]int
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
