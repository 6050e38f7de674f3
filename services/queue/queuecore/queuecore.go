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

type (
	// Core is the core; the rest are the streams that feed it.
	Core = decide.Core
	// Config is decide.Config.
	Config = decide.Config
	// Facts is intake.Facts.
	Facts = intake.Facts
	// Holds is intake.Holds.
	Holds = intake.Holds
)

type (
	// Input is what the core digests; the rest are its kinds.
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
	// Effect is what the core wants done; the rest are its kinds.
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
	// Round is a leader's round; the rest are the watches' stores and the fenced writer of facts.
	Round = commit.Round
	// Watches is intake.Round.
	Watches = intake.Round
	// KindStore is intake.KindStore.
	KindStore = intake.KindStore
	// WentBackError ends a round when the API server is not as far as it was.
	WentBackError = intake.WentBackError
	// Writer is commit.Writer.
	Writer = commit.Writer
	// Base is commit.Base.
	Base = commit.Base
	// DivergedError is commit.DivergedError.
	DivergedError = commit.DivergedError
)

// Causes of a round.
const (
	CauseList   = intake.CauseList
	CauseRepair = intake.CauseRepair
)

// The verdicts on the ledger's generation.
const (
	GenerationKept  = decide.GenerationKept
	GenerationFirst = decide.GenerationFirst
	GenerationNext  = decide.GenerationNext
)

// JudgeGeneration is decide.JudgeGeneration.
func JudgeGeneration(s LedgerSeen) (GenerationVerdict, string) { return decide.JudgeGeneration(s) }

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

// Behind returns the base of a round that continues from p.
func Behind(ctx context.Context, log events.Log, p state.Position) (Base, error) {
	return commit.Behind(ctx, log, p)
}

// Anew returns the base of a round that continues from nothing.
func Anew(ctx context.Context, log events.Log) (Base, error) { return commit.Anew(ctx, log) }

// NewWriter returns a writer that opens fact epoch behind base, the end of the log.
func NewWriter(log events.Log, c clock.Clock, base Base, epoch uint64) *Writer {
	return commit.NewWriter(log, slog.New(slog.DiscardHandler), c, base, epoch)
}
