package bindercore

import (
	"github.com/berth-scheduler/berth/services/binder/internal/decide"
	"github.com/berth-scheduler/berth/services/binder/internal/intake"
)

// The core and the streams that feed it.
type (
	Core     = decide.Core
	Limits   = decide.Limits
	Enforces = decide.Enforces
	Facts    = intake.Facts
	Promises = intake.Promises
)

// Inputs.
type (
	Input        = decide.Input
	DecisionSeen = decide.DecisionSeen
	LedgerMoved  = decide.LedgerMoved
	Tick         = decide.Tick
	Drain        = decide.Drain
	Answered     = decide.Answered
	DocRead      = decide.DocRead
	Transacted   = decide.Transacted
	Result       = decide.Result
	TxnOutcome   = decide.TxnOutcome
)

// Effects.
type (
	Effect         = decide.Effect
	OpID           = decide.OpID
	Bind           = decide.Bind
	ReadPod        = decide.ReadPod
	ReadDoc        = decide.ReadDoc
	Transact       = decide.Transact
	FencePod       = decide.FencePod
	PatchCondition = decide.PatchCondition
	RemoveGate     = decide.RemoveGate
	Evict          = decide.Evict
	Publish        = decide.Publish
	Report         = decide.Report
	Fault          = decide.Fault
)

// How calls to the API server and transactions end.
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

// Annotations the binder writes.
const (
	AnnotationAttempt = decide.AnnotationAttempt
	AnnotationFence   = decide.AnnotationFence
)

// NewCore returns a core that knows nothing yet; see decide.NewCore.
func NewCore(id string, limits Limits, enforces Enforces) *Core {
	return decide.NewCore(id, limits, enforces)
}

// DefaultLimits are the protocol's figures.
func DefaultLimits() Limits { return decide.DefaultLimits() }

// NewFacts returns a picture of no facts.
func NewFacts() *Facts { return intake.NewFacts() }

// NewPromises returns a picture of an empty ledger for one binder.
func NewPromises(binder string) *Promises { return intake.NewPromises(binder) }
