package scheduler

import (
	"context"

	"github.com/berth-scheduler/berth/pkg/driver"
	"github.com/berth-scheduler/berth/pkg/membership"
	"github.com/berth-scheduler/berth/pkg/telemetry"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
	"github.com/berth-scheduler/berth/services/scheduler/intake"
)

// loop is a shard's side of its driver.Loop: the source of its inputs, the sink of its results, and its drain. Only the
// deciding goroutine uses it.
type loop struct {
	shard   *Scheduler
	keeper  *membership.Keeper
	answers intake.Answers
	wake    intake.Wake
	// more and idle are those of the last result: whether there is a step to take without input, and whether nothing
	// is pending, staged or in flight.
	more, idle bool
	// array is the array of every event, so that an event allocates nothing.
	array [1]step.Input
}

// drive steps the core until ctx ends, and then until the core is idle or drainTimeout has passed. While it drains,
// every kind of input is still received: an offer, so that it is given back; facts and the ledger, because the
// transaction in flight is judged by them.
func (s *Scheduler) drive(ctx, lifetime context.Context, keeper *membership.Keeper) error {
	beat := s.deps.Clock.NewTicker(heartbeat)
	defer beat.Stop()
	l := &loop{
		shard: s, keeper: keeper, wake: intake.Wake{Beat: beat.C(), Asked: s.queries.Asked()},
		answers: intake.Answers{Results: s.commit.Results(), Advice: s.commit.Advice(), Performed: s.commit.Performed()},
	}
	if s.deps.Plugins != nil {
		l.answers.Activated = s.deps.Plugins.Activated()
	}
	d := driver.Loop[step.Input, step.Output]{
		Core: s.core, Clock: s.deps.Clock, Source: l, Sink: l, Drainer: l, Bound: drainTimeout,
	}
	return d.Run(ctx, lifetime)
}

// Next implements driver.Source. It does not wait while the core has work to do without input.
func (l *loop) Next(ctx context.Context) (driver.Event[step.Input], error) {
	got, ok := l.shard.intake.Next(ctx, !l.more, l.answers, l.wake)
	if !ok {
		return driver.Event[step.Input]{}, nil
	}
	l.array[0] = got.Input
	return driver.Event[step.Input]{Query: got.Query, Inputs: l.array[:]}, nil
}

// Execute implements driver.Sink. A shard reports first (metrics and spans count the time until the result was there)
// and acts then, in the order of step.Output.
func (l *loop) Execute(ctx context.Context, s driver.Step[step.Input, step.Output]) error {
	out := &s.Output
	if out.Fatal != nil {
		return out.Fatal
	}
	for _, b := range s.Input.Facts {
		l.shard.alarm.Observe(b)
	}
	l.shard.observe(ctx, out, s.At)
	if s.Input.Beat {
		l.shard.observeSizes()
	}
	if err := l.shard.commit.Do(ctx, out); err != nil {
		return err
	}
	l.more, l.idle = out.More, out.Idle
	l.wake.Soon = nil
	if out.Soon {
		l.wake.Soon = l.shard.deps.Clock.After(step.SoonAfter)
	}
	return nil
}

// Publish implements driver.Sink: the keeper learns which partitions are whose, and the shard is ready while its core
// can place pods.
func (l *loop) Publish(draining bool) {
	if snapshot, moved := l.shard.core.Ownership(); moved {
		l.keeper.Observe(snapshot)
	}
	l.shard.ready.Store(l.shard.core.Ready() && !draining)
}

// Drain implements driver.Drainer. The drain input is a heartbeat too: its request gives the offers back at once.
func (l *loop) Drain() step.Input { return step.Input{Drain: true, Beat: true} }

// Idle implements driver.Drainer. It is true once every attempt has ended, the last transaction has been answered,
// and no plugin acts any more.
func (l *loop) Idle() bool { return l.idle }

// Leave implements driver.Drainer: it waits until the last decisions are in the log, for leaveTimeout at most. A shard
// that is late does not wait, because binders act on the ledger and need no decision.
func (l *loop) Leave(ctx context.Context, late bool) error {
	if late {
		l.shard.deps.Logger.Warn(
			"stopped before the last reservation was answered; binders will complete or release it")
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	if err := l.shard.commit.Flush(ctx); err != nil {
		l.shard.deps.Logger.Warn("last decisions not in the log; binders act on the ledger and need none",
			telemetry.KeyError, err)
	}
	return nil
}
