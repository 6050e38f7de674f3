package bindercore

import (
	"github.com/berth-scheduler/berth/pkg/state/feed"
	"github.com/berth-scheduler/berth/services/binder/internal/basis"
	"github.com/berth-scheduler/berth/services/binder/internal/decide"
	"github.com/berth-scheduler/berth/services/binder/internal/effect"
	"github.com/berth-scheduler/berth/services/binder/internal/intake"
)

type (
	// Core is decide.Core; the other types of this group configure it or produce its inputs.
	Core = decide.Core
	// Limits is basis.Limits.
	Limits = basis.Limits
	// Enforces is basis.Enforces.
	Enforces = basis.Enforces
	// Ledger is intake.Ledger.
	Ledger = intake.Ledger
)

type (
	// Input is an input of the core; the other types of this group are its kinds, or belong to them.
	Input = effect.Input
	// DecisionSeen is effect.DecisionSeen.
	DecisionSeen = effect.DecisionSeen
	// LedgerMoved is effect.LedgerMoved.
	LedgerMoved = effect.LedgerMoved
	// Tick is effect.Tick.
	Tick = effect.Tick
	// Drain is effect.Drain.
	Drain = effect.Drain
	// Answered is effect.Answered.
	Answered = effect.Answered
	// DocRead is effect.DocRead.
	DocRead = effect.DocRead
	// Transacted is effect.Transacted.
	Transacted = effect.Transacted
	// Amended is effect.Amended.
	Amended = effect.Amended
	// Result is effect.Result.
	Result = effect.Result
	// TxnOutcome is effect.TxnOutcome.
	TxnOutcome = effect.TxnOutcome
)

type (
	// Effect is an effect of the core; the other types of this group are its kinds, or belong to them.
	Effect = effect.Effect
	// OpID is effect.OpID.
	OpID = effect.OpID
	// Bind is effect.Bind.
	Bind = effect.Bind
	// ReadPod is effect.ReadPod.
	ReadPod = effect.ReadPod
	// ReadDoc is effect.ReadDoc.
	ReadDoc = effect.ReadDoc
	// Transact is effect.Transact.
	Transact = effect.Transact
	// Amend is effect.Amend.
	Amend = effect.Amend
	// Nominate is effect.Nominate.
	Nominate = effect.Nominate
	// ReadBudget is effect.ReadBudget.
	ReadBudget = effect.ReadBudget
	// FencePod is effect.FencePod.
	FencePod = effect.FencePod
	// PatchCondition is effect.PatchCondition.
	PatchCondition = effect.PatchCondition
	// RemoveGate is effect.RemoveGate.
	RemoveGate = effect.RemoveGate
	// Evict is effect.Evict.
	Evict = effect.Evict
	// Publish is effect.Publish.
	Publish = effect.Publish
	// Report is effect.Report.
	Report = effect.Report
	// Rejected is effect.Rejected.
	Rejected = effect.Rejected
	// Fault is effect.Fault.
	Fault = effect.Fault
	// Stop is effect.Stop.
	Stop = effect.Stop
)

// These are the outcomes of calls to the API server and of transactions.
const (
	Done        = effect.Done
	AlreadyHere = effect.AlreadyHere
	Elsewhere   = effect.Elsewhere
	Gone        = effect.Gone
	Moved       = effect.Moved
	Throttled   = effect.Throttled
	Refused     = effect.Refused
	Unknown     = effect.Unknown

	Applied    = effect.Applied
	Lost       = effect.Lost
	TxnRefused = effect.TxnRefused
	TxnUnknown = effect.TxnUnknown
)

// These are the annotations that the binder writes.
const (
	AnnotationAttempt = effect.AnnotationAttempt
	AnnotationFence   = effect.AnnotationFence
)

// These are the conditions that the binder writes where annotations have no room.
const (
	ConditionAttempt = effect.ConditionAttempt
	ConditionFence   = effect.ConditionFence
)

// NewCore returns a core that knows nothing yet; see decide.NewCore.
func NewCore(id string, limits Limits, enforces Enforces) *Core {
	return decide.NewCore(id, limits, enforces)
}

// DefaultLimits returns the protocol's limits.
func DefaultLimits() Limits { return basis.DefaultLimits() }

// FromFacts turns a step of the facts into an input.
func FromFacts(step feed.Step) effect.FactsMoved { return intake.FromFacts(step) }

// NewLedger returns the view of an empty ledger for one binder.
func NewLedger(binder string) *Ledger { return intake.NewLedger(binder) }
