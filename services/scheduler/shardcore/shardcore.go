package shardcore

import (
	"github.com/berth-scheduler/berth/services/scheduler/internal/decide"
	"github.com/berth-scheduler/berth/services/scheduler/internal/step"
)

type (
	// Core is the shard's core; the other types are its input and output.
	Core = decide.Core
	// Config is decide.Config.
	Config = decide.Config
	// Input is step.Input.
	Input = step.Input
	// Result is step.Result.
	Result = step.Result
	// Output is step.Output.
	Output = step.Output
	// Commit is step.Commit.
	Commit = step.Commit
	// Consult is step.Consult.
	Consult = step.Consult
	// Advice is step.Advice.
	Advice = step.Advice
	// Perform is step.Perform.
	Perform = step.Perform
	// Verdict is step.Verdict.
	Verdict = step.Verdict
	// Act is step.Act.
	Act = step.Act
	// Performed is step.Performed.
	Performed = step.Performed
	// Attempt is step.Attempt.
	Attempt = step.Attempt
	// PlanReport is step.PlanReport.
	PlanReport = step.PlanReport
	// PlanEvent is step.PlanEvent.
	PlanEvent = step.PlanEvent
)

// What plugins are asked to do: step.Act.
const (
	ActReserve = step.ActReserve
	ActPrepare = step.ActPrepare
	ActUndo    = step.ActUndo
	ActBound   = step.ActBound
	ActBind    = step.ActBind

	ActPostFilter = step.ActPostFilter
)

// What can become of a plan: step.PlanEvent.
const (
	PlanAsked     = step.PlanAsked
	PlanNominated = step.PlanNominated
	PlanPromoted  = step.PlanPromoted
	PlanDisplaced = step.PlanDisplaced
	PlanWithdrawn = step.PlanWithdrawn
	PlanRefused   = step.PlanRefused
)

// New returns a core that knows nothing yet.
func New(cfg Config) *Core { return decide.New(cfg) }
