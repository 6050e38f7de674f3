package queuecore

import (
	"context"
	"log/slog"

	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/queue/internal/commit"
	"github.com/berth-scheduler/berth/services/queue/internal/decide"
	"github.com/berth-scheduler/berth/services/queue/internal/intake"
)

type (
	// Core is decide.Core; the other types of this group produce its inputs.
	Core = decide.Core
	// Config is decide.Config.
	Config = decide.Config
	// Facts is intake.Facts.
	Facts = intake.Facts
	// Holds is intake.Holds.
	Holds = intake.Holds
)

type (
	// Input is an input of the core; the other types of this group are its kinds, or belong to them.
	Input = decide.Input
	// Decided is decide.Decided.
	Decided = decide.Decided
	// WorkAsked is decide.WorkAsked.
	WorkAsked = decide.WorkAsked
	// Lead is decide.Lead.
	Lead = decide.Lead
	// StepDown is decide.StepDown.
	StepDown = decide.StepDown
	// LedgerSeen is decide.LedgerSeen.
	LedgerSeen = decide.LedgerSeen
	// GenerationVerdict is decide.GenerationVerdict.
	GenerationVerdict = decide.GenerationVerdict
	// Tick is decide.Tick.
	Tick = decide.Tick
)

type (
	// Effect is an effect of the core; the other types of this group are its kinds.
	Effect = decide.Effect
	// SendOffers is decide.SendOffers.
	SendOffers = decide.SendOffers
	// Record is decide.Record.
	Record = decide.Record
	// NextTick is decide.NextTick.
	NextTick = decide.NextTick
	// Counted is decide.Counted.
	Counted = decide.Counted
)

type (
	// Round is commit.Round; the other types of this group are the stores of the watches and the fenced writer of
	// facts.
	Round = commit.Round
	// Watches is intake.Round.
	Watches = intake.Round
	// KindStore is intake.KindStore.
	KindStore = intake.KindStore
	// WentBackError is intake.WentBackError.
	WentBackError = intake.WentBackError
	// Writer is commit.Writer.
	Writer = commit.Writer
	// Base is commit.Base.
	Base = commit.Base
	// DivergedError is commit.DivergedError.
	DivergedError = commit.DivergedError
)

// These are the causes of a round.
const (
	CauseList   = intake.CauseList
	CauseRepair = intake.CauseRepair
)

// These are the verdicts on the ledger's generation.
const (
	GenerationKept  = decide.GenerationKept
	GenerationFirst = decide.GenerationFirst
	GenerationNext  = decide.GenerationNext
)

// JudgeGeneration is decide.JudgeGeneration.
func JudgeGeneration(s LedgerSeen) (GenerationVerdict, string) { return decide.JudgeGeneration(s) }

// New returns a core that knows no pod and does not lead.
func New(cfg Config) *Core { return decide.New(cfg) }

// NewFacts returns an empty state.
func NewFacts() *Facts { return intake.NewFacts() }

// NewHolds returns the view of an empty ledger.
func NewHolds() *Holds { return intake.NewHolds() }

// Stands returns nil if a position belongs to the log's current history.
func Stands(ctx context.Context, log eventlog.Log, p state.Position) error {
	return commit.Stands(ctx, log, p)
}

// Behind returns the base of a round that continues from p.
func Behind(ctx context.Context, log eventlog.Log, p state.Position) (Base, error) {
	return commit.Behind(ctx, log, p)
}

// Anew returns the base of a round that continues from nothing.
func Anew(ctx context.Context, log eventlog.Log) (Base, error) { return commit.Anew(ctx, log) }

// NewWriter returns a writer that opens fact epoch behind base, the end of the log.
func NewWriter(log eventlog.Log, c clock.Clock, base Base, epoch uint64) *Writer {
	return commit.NewWriter(log, slog.New(slog.DiscardHandler), c, base, epoch)
}
