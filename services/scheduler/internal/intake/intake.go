package intake

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/state/follow"
	"github.com/berth-scheduler/berth/services/scheduler/internal/decide"
)

const (
	// factsBuffer and ledgerBuffer bound the batches that wait; a full buffer holds the
	// reader back, which is how a slow shard slows its own reading and nothing else.
	factsBuffer  = 16
	ledgerBuffer = 64
	// offersBuffer bounds waiting offers; more are dropped and offered again when their
	// lease runs out.
	offersBuffer = 64
	// gatherLimit bounds what one input gathers, so that a flood of facts cannot keep a
	// step from happening.
	gatherLimit = 64
)

// Room is the intake of one shard.
type Room struct {
	shard  string
	logger *slog.Logger
	store  ledger.Store
	facts  *follow.Follower
	bus    events.Bus

	factsC  chan follow.Batch
	ledgerC chan ledger.ViewBatch
	offersC chan events.OfferBatch
	// listed closes when the ledger has been listed once: only then may facts be read,
	// so that every hand-over is seen (ledger first, then the log's end).
	listed chan struct{}
}

// New returns an intake; Ledger, Facts and Offers must be run.
func New(shard string, store ledger.Store, facts *follow.Follower, bus events.Bus, logger *slog.Logger) *Room {
	return &Room{
		shard: shard, logger: logger, store: store, facts: facts, bus: bus,
		factsC:  make(chan follow.Batch, factsBuffer),
		ledgerC: make(chan ledger.ViewBatch, ledgerBuffer),
		offersC: make(chan events.OfferBatch, offersBuffer),
		listed:  make(chan struct{}),
	}
}

// Ledger follows the ledger until ctx ends.
func (r *Room) Ledger(ctx context.Context) error {
	if err := ledger.Follow(ctx, r.store, r.ledgerC); err != nil && ctx.Err() == nil {
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
	if err := r.facts.Run(ctx, r.factsC); err != nil && ctx.Err() == nil {
		return fmt.Errorf("scheduler: follow the facts: %w", err)
	}
	return nil
}

// Offers takes offers off the bus until ctx ends.
func (r *Room) Offers(ctx context.Context) error {
	stop, err := r.bus.Subscribe(events.SubjectOffers+r.shard, func(data []byte) {
		batch, err := events.DecodeOffers(data)
		if err != nil {
			r.logger.Warn("offer dropped: it does not decode", "err", err)
			return
		}
		select {
		case r.offersC <- batch:
		default:
			r.logger.Warn("offers dropped: shard is behind", "count", len(batch.Offers))
		}
	})
	if err != nil {
		return fmt.Errorf("scheduler: subscribe to offers: %w", err)
	}
	defer stop()
	<-ctx.Done()
	return nil
}

// Next waits for something to happen (or not at all with wait false) and returns all that
// is at hand.
func (r *Room) Next(
	ctx context.Context, wait bool, results <-chan decide.Result, beat <-chan time.Time,
) (decide.Input, error) {
	var in decide.Input
	if err := ctx.Err(); err != nil {
		return in, err
	}
	if wait {
		select {
		case <-ctx.Done():
			return in, ctx.Err()
		case b := <-r.factsC:
			in.Facts = append(in.Facts, b)
		case b := <-r.ledgerC:
			r.ledgerSeen(&in, b)
		case b := <-r.offersC:
			in.Offers = append(in.Offers, b)
		case res := <-results:
			in.Results = append(in.Results, res)
		case <-beat:
			in.Beat = true
		}
	}
	for range gatherLimit {
		select {
		case b := <-r.factsC:
			in.Facts = append(in.Facts, b)
		case b := <-r.ledgerC:
			r.ledgerSeen(&in, b)
		case b := <-r.offersC:
			in.Offers = append(in.Offers, b)
		case res := <-results:
			in.Results = append(in.Results, res)
		case <-beat:
			in.Beat = true
		default:
			return in, nil
		}
	}
	return in, nil
}

func (r *Room) ledgerSeen(in *decide.Input, b ledger.ViewBatch) {
	in.Ledger = append(in.Ledger, b)
	select {
	case <-r.listed:
	default:
		close(r.listed)
	}
}
