package commit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/telemetry"
	"github.com/berth-scheduler/berth/pkg/telemetry/unreadable"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

const (
	// publishBuffer is how many decisions may wait for the log. When it is full, the core hands over nothing more
	// and, in the end, accepts no more input: the log is the bottleneck.
	publishBuffer = 4 * eventlog.MaxBatch
	// appendTimeout bounds one append.
	appendTimeout = 10 * time.Second
	// appendQuiet is how long there must be no error before the backoff is reset.
	appendQuiet = time.Minute
)

// appendPause spaces the attempts to append: 50 ms doubling to 5 s.
var appendPause = wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 20, Cap: 5 * time.Second}

// publisher appends decisions in the order in which they were handed over, with all that wait in one batch. An append
// whose answer was lost is sent again, so a decision may be in the log twice: readers identify it by pod, kind and
// token.
type publisher struct {
	log    eventlog.Log
	logger *slog.Logger
	clock  clock.Clock
	queue  chan effect.Effect
	// marks are requests to empty the queue. Each is closed when that is done.
	marks chan chan struct{}
}

func newPublisher(log eventlog.Log, logger *slog.Logger, c clock.Clock) *publisher {
	return &publisher{
		log: log, logger: logger, clock: c,
		queue: make(chan effect.Effect, publishBuffer),
		marks: make(chan chan struct{}),
	}
}

// run appends until ctx ends. It returns an error only if the log is closed. A mark is served when nothing waits any
// more; what is handed over in the meantime is included.
func (p *publisher) run(ctx context.Context) error {
	delay := appendPause.DelayWithReset(p.clock, appendQuiet)
	for {
		select {
		case <-ctx.Done():
			return nil
		case first := <-p.queue:
			if err := p.append(ctx, delay, p.gather(first)); err != nil {
				return err
			}
		case mark := <-p.marks:
			for len(p.queue) > 0 {
				if err := p.append(ctx, delay, p.gather(<-p.queue)); err != nil {
					return err
				}
			}
			close(mark)
		}
	}
}

// gather collects the waiting decisions, up to one batch.
func (p *publisher) gather(first effect.Effect) []eventlog.Message {
	msgs := []eventlog.Message{}
	size := 0
	for e := first; ; {
		if d, ok := e.(effect.Publish); ok {
			m := events.EncodeDecision(d.Decision)
			size += len(m.Data)
			msgs = append(msgs, m)
		}
		if len(msgs) == eventlog.MaxBatch || size > eventlog.BatchBytes {
			return msgs
		}
		select {
		case e = <-p.queue:
		default:
			return msgs
		}
	}
}

// append retries until the log has acknowledged, ctx ends, or the log is closed. Decisions that the log refuses are
// left out. The same messages are sent until they are acknowledged, before any later ones, so that the log keeps the
// order in which the core has published, except for repetitions.
func (p *publisher) append(ctx context.Context, delay wait.DelayFunc, msgs []eventlog.Message) error {
	err := delay.Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		actx, cancel := context.WithTimeout(ctx, appendTimeout)
		defer cancel()
		_, err := p.log.Append(actx, eventlog.Decisions, eventlog.AnySequence, msgs)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, eventlog.ErrClosed):
			return false, fmt.Errorf("binder: decision log: %w", err)
		}
		var refused bool
		if msgs, refused = unreadable.WithoutRefused("binder", eventlog.Decisions, p.logger, msgs, err); refused {
			return len(msgs) == 0, nil
		}
		p.logger.Warn("decisions not acknowledged; retrying", "count", len(msgs), telemetry.KeyError, err)
		return false, nil
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// flush waits until the decisions that were handed over before the call are in the log. It returns ctx's error if ctx
// ends first.
func (p *publisher) flush(ctx context.Context) error {
	mark := make(chan struct{})
	select {
	case p.marks <- mark:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-mark:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
