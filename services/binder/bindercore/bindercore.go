package bindercore

import (
	"github.com/berth-scheduler/berth/pkg/state/feed"
	"github.com/berth-scheduler/berth/services/binder/internal/decide"
	"github.com/berth-scheduler/berth/services/binder/internal/intake"
)

type (
	// Core is decide.Core; the other types of this group configure it or produce its inputs.
	Core = decide.Core
	// Limits is decide.Limits.
	Limits = decide.Limits
	// Enforces is decide.Enforces.
	Enforces = decide.Enforces
	// Promises is intake.Promises.
	Promises = intake.Promises
)

type (
	// Input is an input of the core; the other types of this group are its kinds, or belong to them.
	Input = decide.Input
	// DecisionSeen is decide.DecisionSeen.
	DecisionSeen = decide.DecisionSeen
	// LedgerMoved is decide.LedgerMoved.
	LedgerMoved = decide.LedgerMoved
	// Tick is decide.Tick.
	Tick = decide.Tick
	// Drain is decide.Drain.
	Drain = decide.Drain
	// Answered is decide.Answered.
	Answered = decide.Answered
	// DocRead is decide.DocRead.
	DocRead = decide.DocRead
	// Transacted is decide.Transacted.
	Transacted = decide.Transacted
	// Amended is decide.Amended.
	Amended = decide.Amended
	// Result is decide.Result.
	Result = decide.Result
	// TxnOutcome is decide.TxnOutcome.
	TxnOutcome = decide.TxnOutcome
)

type (
	// Effect is an effect of the core; the other types of this group are its kinds, or belong to them.
	Effect = decide.Effect
	// OpID is decide.OpID.
	OpID = decide.OpID
	// Bind is decide.Bind.
	Bind = decide.Bind
	// ReadPod is decide.ReadPod.
	ReadPod = decide.ReadPod
	// ReadDoc is decide.ReadDoc.
	ReadDoc = decide.ReadDoc
	// Transact is decide.Transact.
	Transact = decide.Transact
	// Amend is decide.Amend.
	Amend = decide.Amend
	// Nominate is decide.Nominate.
	Nominate = decide.Nominate
	// ReadBudget is decide.ReadBudget.
	ReadBudget = decide.ReadBudget
	// FencePod is decide.FencePod.
	FencePod = decide.FencePod
	// PatchCondition is decide.PatchCondition.
	PatchCondition = decide.PatchCondition
	// RemoveGate is decide.RemoveGate.
	RemoveGate = decide.RemoveGate
	// Evict is decide.Evict.
	Evict = decide.Evict
	// Publish is decide.Publish.
	Publish = decide.Publish
	// Report is decide.Report.
	Report = decide.Report
	// Rejected is decide.Rejected.
	Rejected = decide.Rejected
	// Fault is decide.Fault.
	Fault = decide.Fault
	// Stop is decide.Stop.
	Stop = decide.Stop
)

// These are the outcomes of calls to the API server and of transactions.
const (
	Done        = decide.Done
	AlreadyHere = decide.AlreadyHere
	Elsewhere   = decide.Elsewhere
	Gone        = decide.Gone
	Moved       = decide.Moved
	Throttled   = decide.Throttled
	Refused     = decide.Refused
	Unknown     = decide.Unknown

	Applied    = decide.Applied
	Lost       = decide.Lost
	TxnRefused = decide.TxnRefused
	TxnUnknown = decide.TxnUnknown
)

// These are the annotations that the binder writes.
const (
	AnnotationAttempt = decide.AnnotationAttempt
	AnnotationFence   = decide.AnnotationFence
)

// These are the conditions that the binder writes where annotations have no room.
const (
	ConditionAttempt = decide.ConditionAttempt
	ConditionFence   = decide.ConditionFence
)

// NewCore returns a core that knows nothing yet; see decide.NewCore.
func NewCore(id string, limits Limits, enforces Enforces) *Core {
	return decide.NewCore(id, limits, enforces)
}

// DefaultLimits returns the protocol's limits.
func DefaultLimits() Limits { return decide.DefaultLimits() }

// FromFacts turns a step of the facts into an input.
func FromFacts(step feed.Step) decide.FactsMoved { return intake.FromFacts(step) }

// NewPromises returns the view of an empty ledger for one binder.
func NewPromises(binder string) *Promises { return intake.NewPromises(binder) }
