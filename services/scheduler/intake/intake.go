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
	// gatherLimit bounds what one input gathers, so that a flood of facts cannot delay a step indefinitely. It is checked
	// after each sweep, so that an input may have a few events more.
	gatherLimit = 64
	// turnsBuffer bounds waiting messages about turns; further ones are dropped, which only costs time.
	turnsBuffer = 256
)

// Reader is the intake of one shard. Ledger, Facts, Offers and Turns each run on one goroutine of their own; Next is
// for the deciding goroutine.
type Reader struct {
	// shard is the member id, to which the queue addresses offers.
	shard  string
	logger *slog.Logger
	store  ledger.Store
	facts  *feed.Feed
	bus    eventlog.Bus

	// Each channel has one writer and one reader. None is ever closed.
	factsC  chan feed.Step
	ledgerC chan replica.Batch
	offersC chan work.OfferBatch
	turnsC  chan work.Turn
	// listed is closed when the ledger has been listed once. Facts must not be read before, so that every hand-over
	// is seen (ledger first, then the log's end).
	listed chan struct{}
}

// New returns an intake. Until Ledger, Facts, Offers and Turns are running, nothing but answers and heartbeats arrives.
func New(shard string, store ledger.Store, facts *feed.Feed, bus eventlog.Bus, logger *slog.Logger) *Reader {
	return &Reader{
		shard: shard, logger: logger, store: store, facts: facts, bus: bus,
		factsC:  make(chan feed.Step, factsBuffer),
		ledgerC: make(chan replica.Batch, ledgerBuffer),
		offersC: make(chan work.OfferBatch, offersBuffer),
		turnsC:  make(chan work.Turn, turnsBuffer),
		listed:  make(chan struct{}),
	}
}

// Ledger follows the ledger until ctx ends. It returns an error only if the store turns out to be another one, or to
// have gone back (*ledger.StoreReplacedError); any other failure is retried.
func (r *Reader) Ledger(ctx context.Context) error {
	if err := replica.Follow(ctx, r.store, r.ledgerC); err != nil && ctx.Err() == nil {
		return fmt.Errorf("scheduler: follow the ledger: %w", err)
	}
	return nil
}

// Facts follows the facts, once the ledger has been listed, until ctx ends. It returns an error if the facts cannot be
// applied; then every service of the process ends.
func (r *Reader) Facts(ctx context.Context) error {
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

// Offers receives offers from the bus until ctx ends. Its callback must not block (see eventlog.Bus), so a full channel
// drops.
func (r *Reader) Offers(ctx context.Context) error {
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
func (r *Reader) Turns(ctx context.Context) error {
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

// Wake are the channels for time and questions.
type Wake struct {
	// Beat is the heartbeat.
	Beat <-chan time.Time
	// Soon requests one step before the next heartbeat; nil when that is not needed. It adds nothing to the
	// input: a step at that time is all that is needed.
	Soon <-chan time.Time
	// Asked delivers questions about the core.
	Asked <-chan func()
}

// Answers are the channels with the results of the core's own effects.
type Answers struct {
	Results   <-chan step.Result
	Advice    <-chan step.Advice
	Performed <-chan step.PluginResult
	// Activated delivers the pods that plugins want tried at once; nil if there are no plugins.
	Activated <-chan []events.PodRef
}

// Received holds everything that arrived for one step.
type Received struct {
	Input step.Input
	// Query is a question to answer before the step, nil for none. The step is taken even if nothing else arrived.
	Query func()
}

// Next waits for an event (or not, if wait is false), and returns it together with all other events that are ready, up
// to gatherLimit: a burst costs one step instead of many. ok is false if ctx has ended and nothing was received. It is
// for one goroutine.
func (r *Reader) Next(ctx context.Context, wait bool, answers Answers, wake Wake) (got Received, ok bool) {
	if ctx.Err() != nil {
		return got, false
	}
	if wait && !r.receive(ctx, &got, answers, wake) {
		return got, false
	}
	for left := gatherLimit; left > 0; {
		n := r.sweep(&got, answers, wake)
		if n == 0 {
			break
		}
		left -= n
	}
	return got, true
}

// receive waits for one event. It returns false if ctx ended first.
func (r *Reader) receive(ctx context.Context, got *Received, answers Answers, wake Wake) bool {
	in := &got.Input
	select {
	case <-ctx.Done():
		return false
	case b := <-r.factsC:
		in.Facts = append(in.Facts, b)
	case b := <-r.ledgerC:
		in.Ledger = append(in.Ledger, b)
		r.ledgerListed()
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
	case got.Query = <-wake.Asked:
	}
	return true
}

// sweep takes at most one more event from each channel, without waiting, and returns how many. Sweeps are as fair as a
// select: a flood on one channel cannot use up gatherLimit and keep out the others.
func (r *Reader) sweep(got *Received, answers Answers, wake Wake) (taken int) {
	in := &got.Input
	taken += take(&in.Facts, r.factsC)
	if n := take(&in.Ledger, r.ledgerC); n > 0 {
		taken += n
		r.ledgerListed()
	}
	taken += take(&in.Offers, r.offersC)
	taken += take(&in.Turns, r.turnsC)
	taken += take(&in.Results, answers.Results)
	taken += take(&in.Advice, answers.Advice)
	taken += take(&in.Performed, answers.Performed)
	select {
	case pods := <-answers.Activated:
		in.Activated = append(in.Activated, pods...)
		taken++
	default:
	}
	select {
	case <-wake.Beat:
		in.Beat = true
		taken++
	default:
	}
	if got.Query == nil {
		select {
		case got.Query = <-wake.Asked:
			taken++
		default:
		}
	}
	return taken
}

// take appends the next value of a channel, if one is ready, and returns how many it has appended.
func take[T any](to *[]T, from <-chan T) int {
	select {
	case v := <-from:
		*to = append(*to, v)
		return 1
	default:
		return 0
	}
}

// ledgerListed notes that the ledger has been listed: its first batch is the list.
func (r *Reader) ledgerListed() {
	select {
	case <-r.listed:
	default:
		close(r.listed)
	}
}
