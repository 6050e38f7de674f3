package descheduler

import (
	"context"
	"errors"
	"time"

	"github.com/berth-scheduler/berth/pkg/driver"
	"github.com/berth-scheduler/berth/pkg/telemetry"
	"github.com/berth-scheduler/berth/services/descheduler/decide"
)

// errFinished ends the cycles of a replica that was asked for a single one.
var errFinished = errors.New("descheduler: the requested cycle has run")

// cycles is the descheduler's side of its driver.Loop: a cycle is one input. As the source it waits until a cycle is
// due and gathers what the cycle depends on; as the sink it carries out what the cycle has decided. Both may take
// minutes: nothing else waits for the deciding goroutine of a descheduler. Only that goroutine uses it.
type cycles struct {
	d *Descheduler
	// pause is the time until the next cycle, which the previous one has determined; nil before the first cycle.
	pause *time.Duration
	// finished means that the one requested cycle has run.
	finished bool
	running  cycle
	// array is the array of every event.
	array [1]decide.Input
}

// cycle is the running cycle: from begin, in Next, to end, in Next or Execute.
type cycle struct {
	// ctx ends when the descheduler is paused, with errPaused as its cause.
	ctx   context.Context
	done  context.CancelFunc
	began time.Time
}

// runCycles runs one cycle after another until ctx ends. It reports true if a single cycle was requested and is done.
// A cycle that is cut off by the end of ctx has carried out the first of its moves, or none; the next leader finds
// them in the log and the ledger.
func (d *Descheduler) runCycles(ctx context.Context) (done bool) {
	c := &cycles{d: d}
	l := driver.Loop[decide.Input, decide.Outcome]{Core: decide.Core{}, Clock: d.deps.Clock, Source: c, Sink: c}
	_ = l.Run(ctx, ctx) // only errFinished, and nothing when ctx ends first
	return c.finished
}

// Next implements driver.Source. A cycle that fails before anything is decided is no event.
func (c *cycles) Next(ctx context.Context) (driver.Event[decide.Input], error) {
	var none driver.Event[decide.Input]
	if c.finished {
		return none, errFinished
	}
	if c.pause != nil {
		c.d.pause(ctx, *c.pause)
	}
	if ctx.Err() != nil {
		return none, nil
	}
	c.running.began = c.d.deps.Clock.Now()
	c.running.ctx, c.running.done = c.d.paused.running(ctx)
	if err := c.d.refusePaused(c.running.ctx); err != nil {
		c.end(ctx, err)
		return none, nil
	}
	in, ready, err := c.d.prepare(c.running.ctx)
	if !ready {
		c.end(ctx, c.stopped(err))
		return none, nil
	}
	c.array[0] = in
	return driver.Event[decide.Input]{Inputs: c.array[:]}, nil
}

// Execute implements driver.Sink. A cycle that fails is reported and followed by the next one, so it is no error of
// the loop.
func (c *cycles) Execute(ctx context.Context, s driver.Step[decide.Input, decide.Outcome]) error {
	c.end(ctx, c.stopped(c.d.conclude(c.running.ctx, s)))
	return nil
}

// Publish implements driver.Sink. It has nothing to show: readiness depends on the facts alone (Ready).
func (c *cycles) Publish(bool) {}

// stopped returns errPaused if a pause has stopped the running cycle, and err otherwise.
func (c *cycles) stopped(err error) error {
	if !errors.Is(context.Cause(c.running.ctx), errPaused) {
		return err
	}
	c.d.deps.Logger.Info("cycle stopped: descheduling is paused", telemetry.KeyError, err)
	return errPaused
}

// end ends the running cycle, with the error that it has ended with, and determines when the next one is due: after
// Interval from its start, or after retryPause if it has failed. A pause is not a failure.
func (c *cycles) end(ctx context.Context, err error) {
	c.running.done()
	interval := c.d.cfg.Interval
	switch {
	case ctx.Err() != nil:
	case err != nil && !errors.Is(err, errPaused):
		c.d.deps.Logger.Warn("cycle failed", "retryIn", retryPause, telemetry.KeyError, err)
		pause := retryPause
		c.pause = &pause
	case interval == 0:
		c.finished = true
	default:
		pause := interval - c.d.deps.Clock.Since(c.running.began)
		c.pause = &pause
	}
}
