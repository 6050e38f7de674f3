package queuecore

import (
	"context"
	"log/slog"

	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"

	"github.com/berth-scheduler/berth/services/queue/internal/commit"
	"github.com/berth-scheduler/berth/services/queue/internal/decide"
	"github.com/berth-scheduler/berth/services/queue/internal/intake"
)

// The core and the streams that feed it.
type (
	Core   = decide.Core
	Config = decide.Config
	Facts  = intake.Facts
	Holds  = intake.Holds
)

// Inputs.
type (
	Input     = decide.Input
	Decided   = decide.Decided
	WorkAsked = decide.WorkAsked
	Lead      = decide.Lead
	StepDown  = decide.StepDown
	Tick      = decide.Tick
)

// Effects.
type (
	Effect     = decide.Effect
	SendOffers = decide.SendOffers
	Record     = decide.Record
	NextTick   = decide.NextTick
	Counted    = decide.Counted
)

// A leader's round: its number, the watches' stores and the fenced writer of facts.
type (
	Round         = commit.Round
	Watches       = intake.Round
	KindStore     = intake.KindStore
	Writer        = commit.Writer
	DivergedError = commit.DivergedError
)

// Causes of a round.
const (
	CauseList   = intake.CauseList
	CauseRepair = intake.CauseRepair
)

// New returns a core that knows no pod and does not lead.
func New(cfg Config) *Core { return decide.New(cfg) }

// NewFacts returns a picture of no facts.
func NewFacts() *Facts { return intake.NewFacts() }

// NewHolds returns a picture of an empty ledger.
func NewHolds() *Holds { return intake.NewHolds() }

// Stands says whether a position is one of the log's history as it is now.
func Stands(ctx context.Context, log events.Log, p state.Position) error {
	return commit.Stands(ctx, log, p)
}

// NewWriter returns a writer that opens fact epoch behind base, the end of the log.
func NewWriter(log events.Log, c clock.Clock, base state.Position, epoch uint64) *Writer {
	return commit.NewWriter(log, slog.New(slog.DiscardHandler), c, base, epoch)
}
