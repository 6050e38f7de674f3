package step

import (
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/evidence"
	"github.com/berth-scheduler/berth/pkg/events/work"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/state/feed"
	"github.com/berth-scheduler/berth/services/scheduler/decide/avoid"
)

// Input is everything that may have happened since the last step; any field may be empty.
type Input struct {
	Facts   []feed.Step
	Ledger  []replica.Batch
	Offers  []work.OfferBatch
	Results []Result
	// Turns are the messages of other shards about turns.
	Turns []work.Turn
	// Advice are the answers of extenders and custom plugins.
	Advice []Advice
	// Performed are the answers of plugins that act.
	Performed []PluginResult
	// Activated are the pods that plugins want tried at once, by namespace and name as upstream does it: the UID is
	// ignored.
	Activated []events.PodRef
	// Beat asks for a work request (heartbeat).
	Beat bool
	// Drain, once given, makes the core give back everything that it has not sent, and accept no more offers.
	Drain bool
}

// Result is the answer to a Commit.
type Result struct {
	ID uint64
	// Err non-nil means the outcome is unknown; the identical transaction is sent again.
	Err error
	// Refused is why the store does not accept a transaction of this size, empty otherwise. If set, the transaction
	// has had no effect.
	Refused string
	Txn     ledger.TxnResult
}

// Output holds the effects of one step, to be carried out in this order: Commit may start at once; Decisions must
// be appended in order; Request is a hint. It is one value rather than a list of effects (docs/decisions/0031). It
// belongs to the caller: the core keeps no reference to its slices.
//
// A crash before Commit loses nothing (the lease of the offer expires); after a crash between Commit and Decisions,
// the binders find the reservation through their own watch.
type Output struct {
	Commit    *Commit
	Decisions []events.Decision
	// Lost records the races that attempts have lost and continue after, in order. It is appended to the log before
	// Decisions. No component acts on it.
	Lost    []events.Decision
	Request *work.Request
	// Consults are questions to extenders and plugins. If one is lost, its attempt waits for ever.
	Consults []Consult
	// Performs are the acts that plugins must carry out on chosen nodes, in order. If one is lost, its pod waits for
	// ever, or until its place is taken back.
	Performs []PluginRequest
	// Turns are messages to all other shards. They are hints.
	Turns []work.Turn
	// Notices are for people, and for metrics.
	Notices []avoid.Notice
	// Plans reports changes of preemption plans, for people and metrics.
	Plans []PlanReport
	// Attempts lists the attempts that ended in this step, for metrics and spans.
	Attempts []Attempt
	// Gangs lists the attempts at whole gangs that ended in this step, and GangsTried counts the gangs that were decided
	// about.
	Gangs      []Gang
	GangsTried int
	// SearchesAll counts the searches for nodes in this step that evaluated all nodes, SearchesHome those that
	// evaluated the home nodes only.
	SearchesAll, SearchesHome int
	// Behind counts the nodes that could not be used because of their high-water marks when the last pod of this
	// step was decided.
	Behind int
	// More is true when another step has work to do even without input.
	More bool
	// Soon asks for another step within SoonAfter even without input: something waits for less than a heartbeat.
	Soon bool
	// Idle is true when nothing is pending, staged or in flight.
	Idle bool
	// Fatal ends the shard: the core's view of the ledger has a gap, or an attempt was moved against the rules, and
	// what it decides from now on might contradict a promise. Nothing else of this output is to be carried out.
	Fatal error
}

// SoonAfter is the interval of steps that wait for time to pass, where heartbeats are too coarse.
const SoonAfter = 50 * time.Millisecond

// Commit is a transaction to carry out; its answer comes back as a Result with its ID.
type Commit struct {
	ID uint64
	// Kind is the transaction's name in the protocol: "T1", "T2", "T3", "T4", "T8", "T11" or "T15".
	Kind string
	// Pods is how many pods get a place by it.
	Pods int
	// Resubmitted counts how often this identical transaction has been sent before.
	Resubmitted int
	Txn         ledger.Txn
}

// Outcome of an attempt.
type Outcome string

// The outcomes of an attempt. All but Conflict use upstream's values of the label
// "result".
const (
	Scheduled     Outcome = "scheduled"
	Unschedulable Outcome = "unschedulable"
	Failed        Outcome = "error"
	Conflict      Outcome = "conflict"
	// WaitingOnPreemption is for gangs only.
	WaitingOnPreemption Outcome = "waiting_on_preemption"
)

// Reason is the cause of a lost race.
type Reason string

// The reasons of a Conflict. LostNode: the document of the node has changed. LostGuard: a guard of a rule about pods
// on other nodes has changed. LostKeeper: the document of a pod that the placement follows has changed. LostPod: the
// pod already has a reservation. LostPartition: the pod's partition no longer belongs to this shard. LostBudget: the
// document of a disruption budget has changed. LostVolume: the document of a claim that only one pod may use, or of
// a device pool, has changed.
const (
	LostNode      Reason = "node"
	LostGuard     Reason = "guard"
	LostKeeper    Reason = "keeper"
	LostPod       Reason = "pod"
	LostPartition Reason = "partition"
	LostBudget    Reason = "budget"
	LostVolume    Reason = "volume"
)

// Abandoned is the reason in the record of a choice (events.DecisionLost) that was never sent, because the state
// that it was decided on had changed. It is no Conflict.
const Abandoned Reason = events.LostAbandoned

// Gang reports the end of one attempt at a whole gang.
type Gang struct {
	Profile  string
	Outcome  Outcome
	Received time.Time
}

// Attempt reports the end of one attempt, or of one try of it that lost a race.
type Attempt struct {
	Pod events.PodRef
	// Received is when the offer arrived, Decided when a node was picked (zero if none was); both are times passed
	// to Step.
	Received, Decided time.Time

	Profile string
	Number  int32
	Outcome Outcome
	// Reason is the cause of a Conflict.
	Reason   Reason
	NodeName string
	Feasible int
	Nodes    int
	Plugins  []string
	// Held: this is the end of the time for which a place was held, not an attempt of its own.
	Held bool
	// Victims are the UIDs of pods that must be evicted for it.
	Victims []string
	// Replaces is the UID of the pod whose kept place it took over; empty for none.
	Replaces string
	// Evidence is the evidence of the decision; nil for none. It is shared and must not be changed.
	Evidence *evidence.Evidence
}
