package intake

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/work"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/state/feed"
	"github.com/berth-scheduler/berth/pkg/telemetry"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

const (
	// factsBuffer and ledgerBuffer bound the waiting steps and batches. A full buffer blocks the reader; behind it, the
	// feed of the facts merges the steps that wait for this shard.
	factsBuffer  = 16
	ledgerBuffer = 64
	// offersBuffer bounds waiting offers; further ones are dropped, and offered again when their lease expires.
	offersBuffer = 64
	// gatherLimit bounds what one input gathers, so that a flood of facts cannot delay a step indefinitely.
	gatherLimit = 64
	// turnsBuffer bounds waiting messages about turns; further ones are dropped, which only costs time.
	turnsBuffer = 256
)

// Room is the intake of one shard.
type Room struct {
	shard  string
	logger *slog.Logger
	store  ledger.Store
	facts  *feed.Feed
	bus    eventlog.Bus

	factsC  chan feed.Step
	ledgerC chan replica.Batch
	offersC chan work.OfferBatch
	turnsC  chan work.Turn
	// listed is closed when the ledger has been listed once. Facts must not be read before, so that every hand-over
	// is seen (ledger first, then the log's end).
	listed chan struct{}
}

// New returns an intake. Ledger, Facts, Offers and Turns must be run.
func New(shard string, store ledger.Store, facts *feed.Feed, bus eventlog.Bus, logger *slog.Logger) *Room {
	return &Room{
		shard: shard, logger: logger, store: store, facts: facts, bus: bus,
		factsC:  make(chan feed.Step, factsBuffer),
		ledgerC: make(chan replica.Batch, ledgerBuffer),
		offersC: make(chan work.OfferBatch, offersBuffer),
		turnsC:  make(chan work.Turn, turnsBuffer),
		listed:  make(chan struct{}),
	}
}

// Ledger follows the ledger until ctx ends.
func (r *Room) Ledger(ctx context.Context) error {
	if err := replica.Follow(ctx, r.store, r.ledgerC); err != nil && ctx.Err() == nil {
		return fmt.Errorf("scheduler: follow the ledger: %w", err)
	}
	return nil
}

// Facts follows the facts, once the ledger has been listed, until ctx ends.
func (r *Room) Facts(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-r.listed:
	}
	if err := r.facts.Follow(ctx, r.factsC); err != nil && ctx.Err() == nil {
		return fmt.Errorf("scheduler: follow the facts: %w", err)
	}
	return nil
}

// Offers receives offers from the bus until ctx ends.
func (r *Room) Offers(ctx context.Context) error {
	stop, err := r.bus.Subscribe(work.SubjectOffers+r.shard, func(data []byte) {
		batch, err := work.DecodeOffers(data)
		if err != nil {
			r.logger.Warn("offer dropped: cannot be decoded", telemetry.KeyError, err)
			return
		}
		select {
		case r.offersC <- batch:
		default:
			r.logger.Warn("offers dropped: the shard is behind", "count", len(batch.Offers))
		}
	})
	if err != nil {
		return fmt.Errorf("scheduler: subscribe to offers: %w", err)
	}
	defer stop()
	<-ctx.Done()
	return nil
}

// Turns receives the messages of shards about turns from the bus until ctx ends.
func (r *Room) Turns(ctx context.Context) error {
	stop, err := r.bus.Subscribe(work.SubjectTurns, func(data []byte) {
		t, err := work.DecodeTurn(data)
		if err != nil {
			r.logger.Warn("turn message dropped: cannot be decoded", telemetry.KeyError, err)
			return
		}
		select {
		case r.turnsC <- t:
		default:
		}
	})
	if err != nil {
		return fmt.Errorf("scheduler: subscribe to turns: %w", err)
	}
	defer stop()
	<-ctx.Done()
	return nil
}

// Wake are the channels for time and questions: Beat is the heartbeat; Soon requests one step before the next
// heartbeat, and is nil when that is not needed.
type Wake struct {
	Beat, Soon <-chan time.Time
	// Asked delivers questions about the core as functions, which run on the caller's goroutine.
	Asked <-chan func()
}

// Answers are the channels with the results of the core's own effects.
type Answers struct {
	Results   <-chan step.Result
	Advice    <-chan step.Advice
	Performed <-chan step.Performed
	// Activated delivers the pods that plugins want tried at once; nil if there are no plugins.
	Activated <-chan []events.PodRef
}

// Next waits for an event (or not, if wait is false), and returns all events that are ready.
func (r *Room) Next(ctx context.Context, wait bool, answers Answers, wake Wake) (step.Input, error) {
	var in step.Input
	if err := ctx.Err(); err != nil {
		return in, err
	}
	if wait && !r.take(ctx, &in, answers, wake) {
		return in, ctx.Err()
	}
	for range gatherLimit {
		select {
		case b := <-r.factsC:
			in.Facts = append(in.Facts, b)
		case b := <-r.ledgerC:
			r.ledgerSeen(&in, b)
		case b := <-r.offersC:
			in.Offers = append(in.Offers, b)
		case t := <-r.turnsC:
			in.Turns = append(in.Turns, t)
		case res := <-answers.Results:
			in.Results = append(in.Results, res)
		case a := <-answers.Advice:
			in.Advice = append(in.Advice, a)
		case p := <-answers.Performed:
			in.Performed = append(in.Performed, p)
		case pods := <-answers.Activated:
			in.Activated = append(in.Activated, pods...)
		case <-wake.Beat:
			in.Beat = true
		case ask := <-wake.Asked:
			ask()
		default:
			return in, nil
		}
	}
	return in, nil
}

// take waits for one event; false when ctx ended first.
func (r *Room) take(ctx context.Context, in *step.Input, answers Answers, wake Wake) bool {
	select {
	case <-ctx.Done():
		return false
	case b := <-r.factsC:
		in.Facts = append(in.Facts, b)
	case b := <-r.ledgerC:
		r.ledgerSeen(in, b)
	case b := <-r.offersC:
		in.Offers = append(in.Offers, b)
	case t := <-r.turnsC:
		in.Turns = append(in.Turns, t)
	case res := <-answers.Results:
		in.Results = append(in.Results, res)
	case a := <-answers.Advice:
		in.Advice = append(in.Advice, a)
	case p := <-answers.Performed:
		in.Performed = append(in.Performed, p)
	case pods := <-answers.Activated:
		in.Activated = append(in.Activated, pods...)
	case <-wake.Beat:
		in.Beat = true
	case <-wake.Soon:
	case ask := <-wake.Asked:
		ask()
	}
	return true
}

func (r *Room) ledgerSeen(in *step.Input, b replica.Batch) {
	in.Ledger = append(in.Ledger, b)
	select {
	case <-r.listed:
	default:
		close(r.listed)
	}
}
