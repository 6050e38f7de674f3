package shardcore

import "github.com/berth-scheduler/berth/services/scheduler/internal/decide"

type (
	// Core is the shard's core; the rest is what goes into it and what comes out.
	Core = decide.Core
	// Config is decide.Config.
	Config = decide.Config
	// Input is decide.Input.
	Input = decide.Input
	// Result is decide.Result.
	Result = decide.Result
	// Output is decide.Output.
	Output = decide.Output
	// Commit is decide.Commit.
	Commit = decide.Commit
	// Consult is decide.Consult.
	Consult = decide.Consult
	// Advice is decide.Advice.
	Advice = decide.Advice
	// Perform is decide.Perform.
	Perform = decide.Perform
	// Verdict is decide.Verdict.
	Verdict = decide.Verdict
	// Act is decide.Act.
	Act = decide.Act
	// Performed is decide.Performed.
	Performed = decide.Performed
	// Attempt is decide.Attempt.
	Attempt = decide.Attempt
	// PlanReport is decide.PlanReport.
	PlanReport = decide.PlanReport
	// PlanEvent is decide.PlanEvent.
	PlanEvent = decide.PlanEvent
)

// What plugins are asked to do: decide.Act.
const (
	ActReserve = decide.ActReserve
	ActPrepare = decide.ActPrepare
	ActUndo    = decide.ActUndo
	ActBound   = decide.ActBound
	ActBind    = decide.ActBind

	ActPostFilter = decide.ActPostFilter
)

// What can become of a plan: decide.PlanEvent.
const (
	PlanAsked     = decide.PlanAsked
	PlanNominated = decide.PlanNominated
	PlanPromoted  = decide.PlanPromoted
	PlanDisplaced = decide.PlanDisplaced
	PlanWithdrawn = decide.PlanWithdrawn
	PlanRefused   = decide.PlanRefused
)

// New returns a core that knows nothing yet.
func New(cfg Config) *Core { return decide.New(cfg) }
