package step

import (
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/evidence"
	"github.com/berth-scheduler/berth/pkg/events/work"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/state/feed"
	"github.com/berth-scheduler/berth/services/scheduler/internal/avoid"
)

// Input is everything that may have happened since the last step; any field may be zero.
type Input struct {
	Facts   []feed.Step
	Ledger  []replica.Batch
	Offers  []work.OfferBatch
	Results []Result
	// Turns is what shards have said to each other.
	Turns []work.Turn
	// Advice is what extenders have answered.
	Advice []Advice
	// Performed is what plugins have done.
	Performed []Performed
	// Activated are the pods that plugins want tried at once, by namespace and name as upstream has it: the UID
	// is not looked at.
	Activated []events.PodRef
	// Beat asks for a work request (heartbeat).
	Beat bool
	// Drain, once given, makes the core return what it has not sent and take nothing more.
	Drain bool
}

// Result is the answer to a Commit.
type Result struct {
	ID uint64
	// Err non-nil means the outcome is unknown; the identical transaction goes again.
	Err error
	// Refused is why the store does not take a transaction of this size; empty if that is not so. Nothing
	// of it has happened.
	Refused string
	Txn     ledger.TxnResult
}

// Output is what has to be done, in this order: Commit may start at once; Decisions must
// be appended in order; Request is a hint.
//
// A crash before Commit loses nothing (the offer's lease runs out); after Commit and
// before Decisions, the reservation is found by the binders' own watch.
type Output struct {
	Commit    *Commit
	Decisions []events.Decision
	// Lost records the races that attempts have lost and go on after, in order: for the log,
	// before Decisions. No component acts on it.
	Lost    []events.Decision
	Request *work.WorkRequest
	// Consults are questions to extenders. One that is lost keeps its attempt waiting for ever.
	Consults []Consult
	// Performs is what plugins are to do about chosen nodes, in order. One that is lost has its pod wait for ever, or
	// until its place is taken back.
	Performs []Perform
	// Turns goes to all other shards. Hints.
	Turns []work.Turn
	// Notices are for people, and for metrics.
	Notices []avoid.Notice
	// Plans is what has become of preemption, for people and metrics.
	Plans []PlanReport
	// Attempts lists the attempts that ended in this step, for metrics and spans.
	Attempts []Attempt
	// Behind counts the nodes that could not be used for their high-water when the last pod
	// of this step was decided.
	Behind int
	// More is true when another step has work to do even without input.
	More bool
	// Soon asks for another step within SoonAfter even without input: something waits for
	// time to pass that is shorter than a heartbeat.
	Soon bool
	// Idle is true when nothing is pending, staged or in flight.
	Idle bool
}

// SoonAfter is how finely time is looked at where heartbeats are too coarse.
const SoonAfter = 50 * time.Millisecond

// Commit is a transaction to carry out; its answer comes back as a Result with its ID.
type Commit struct {
	ID uint64
	// Kind is the transaction's name in the protocol: "T1", "T2", "T3", "T4", "T8", "T11" or "T15".
	Kind string
	// Pods is how many get a place by it.
	Pods int
	// Resubmitted counts how often this identical transaction has been sent before.
	Resubmitted int
	Txn         ledger.Txn
}

// Outcome of an attempt.
type Outcome string

// The outcomes of an attempt. The first three use upstream's values of the label
// "result".
const (
	Scheduled     Outcome = "scheduled"
	Unschedulable Outcome = "unschedulable"
	Failed        Outcome = "error"
	Conflict      Outcome = "conflict"
)

// Reason says what a race was about that an attempt lost.
type Reason string

// The reasons of a Conflict: the document of the node has changed, a guard of a rule about
// pods on other nodes has, the document of a pod that the placement follows has, the pod has
// a reservation already, the pod's partition is not this shard's any more, the document of
// a disruption budget has changed, and that of a claim which only one pod may use or of a pool of
// devices.
const (
	LostNode      Reason = "node"
	LostGuard     Reason = "guard"
	LostKeeper    Reason = "keeper"
	LostPod       Reason = "pod"
	LostPartition Reason = "partition"
	LostBudget    Reason = "budget"
	LostVolume    Reason = "volume"
)

// Abandoned stands in a record of a choice (events.DecisionLost) that was never sent: what it was
// decided on had moved by then. It is no Conflict.
const Abandoned Reason = events.LostAbandoned

// Attempt reports the end of one attempt, or of one try of it that lost a race.
type Attempt struct {
	Pod events.PodRef
	// Received is when the offer came in, Decided when a node was picked (zero if none was),
	// in the times given to Step.
	Received, Decided time.Time

	Profile string
	Number  int32
	Outcome Outcome
	// Reason is what a Conflict was about.
	Reason   Reason
	NodeName string
	Feasible int
	Nodes    int
	Plugins  []string
	// Held: it is the end of the time in which a place was held, not an attempt of its own.
	Held bool
	// Victims are the UIDs of pods that have to go for it.
	Victims []string
	// Replaces is the UID of the pod whose kept place it took over; empty for none.
	Replaces string
	// Evidence is that of the decision; nil for none. Shared, not to be changed.
	Evidence *evidence.Evidence
}
