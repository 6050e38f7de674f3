package binder

import (
	"context"

	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/driver"
	"github.com/berth-scheduler/berth/pkg/telemetry"
	"github.com/berth-scheduler/berth/pkg/telemetry/alpha"
	"github.com/berth-scheduler/berth/services/binder/commit"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// loop is a binder's side of its driver.Loop: the source of its inputs, the sink of its effects, and its drain. Only
// the deciding goroutine uses it.
//
// Effects wait in order, one line per lane, until a worker takes them. Answers are always received; other input only
// while the lines are short. So a slow API server slows the intake down, and the lines stay bounded.
type loop struct {
	*Binder
	ticker  clock.Ticker
	lines   [commit.Lanes][]effect.Effect
	pending int
	// started counts effects that a worker has taken and not answered.
	started  int
	draining bool
	// binds and patches are the calls in lines that were last added to the metric of pending calls.
	binds, patches int
	// array is the array of every event, so that an event allocates nothing.
	array [1]effect.Input
}

// drive steps the core until ctx ends, and then until every call is answered or drainTimeout has passed.
func (b *Binder) drive(ctx, lifetime context.Context) error {
	l := &loop{Binder: b, ticker: b.deps.Clock.NewTicker(tick)}
	defer l.ticker.Stop()
	d := driver.Loop[effect.Input, []effect.Effect]{
		Core: b.core, Clock: b.deps.Clock, Source: l, Sink: l, Drainer: l, Bound: drainTimeout,
	}
	return d.Run(ctx, lifetime)
}

// Next implements driver.Source. It hands the heads of the lines to workers as well; that is no event, and the loop
// calls it again.
func (l *loop) Next(ctx context.Context) (driver.Event[effect.Input], error) {
	if in, dropped := l.dropMoot(); dropped {
		return l.event(in)
	}
	inputs := l.inputs
	if l.pending > maxPending || l.draining {
		inputs = nil
	}
	select {
	case <-ctx.Done():
	case in := <-inputs:
		return l.event(in)
	case in := <-l.commit.Answers():
		l.started--
		return l.event(in)
	case <-l.ticker.C():
		return l.event(effect.Tick{})
	case l.lane(commit.LaneBind) <- l.head(commit.LaneBind):
		l.taken(commit.LaneBind)
	case l.lane(commit.LaneClear) <- l.head(commit.LaneClear):
		l.taken(commit.LaneClear)
	case l.lane(commit.LaneChange) <- l.head(commit.LaneChange):
		l.taken(commit.LaneChange)
	case l.lane(commit.LaneStatus) <- l.head(commit.LaneStatus):
		l.taken(commit.LaneStatus)
	case l.lane(commit.LaneLedger) <- l.head(commit.LaneLedger):
		l.taken(commit.LaneLedger)
	case l.lane(commit.LaneSweep) <- l.head(commit.LaneSweep):
		l.taken(commit.LaneSweep)
	case l.lane(commit.LaneLog) <- l.head(commit.LaneLog):
		l.taken(commit.LaneLog)
	}
	return driver.Event[effect.Input]{}, nil
}

// event returns the event of one input.
func (l *loop) event(in effect.Input) (driver.Event[effect.Input], error) {
	l.array[0] = in
	return driver.Event[effect.Input]{Inputs: l.array[:]}, nil
}

// Execute implements driver.Sink: it queues the effects of a step in their lanes.
func (l *loop) Execute(_ context.Context, s driver.Step[effect.Input, []effect.Effect]) error {
	for _, e := range s.Output {
		if stop, is := e.(effect.Stop); is {
			return stop.Err
		}
		lane, ok := commit.LaneOf(e)
		if !ok {
			l.commit.Immediate(e)
			continue
		}
		l.lines[lane] = append(l.lines[lane], e)
		l.pending++
	}
	switch s.Input.(type) {
	case effect.Tick:
		l.exportPending()
		s := l.core.Stats()
		telemetry.FencesRefused(l.cfg.ID, s.FencesRefused)
		telemetry.NodesMarked(l.cfg.ID, s.Withheld, s.Kept)
	case effect.Drain:
		l.dropUntaken()
	}
	return nil
}

// exportPending reports the calls that wait for a worker. The metric is a sum over the binders of a process: only the
// difference is added.
func (l *loop) exportPending() {
	binds, patches := 0, 0
	for _, line := range l.lines {
		for _, e := range line {
			switch e.(type) {
			case effect.Bind:
				binds++
			case effect.PatchCondition, effect.Nominate:
				patches++
			}
		}
	}
	alpha.CallsPending(alpha.CallBinding, binds-l.binds)
	alpha.CallsPending(alpha.CallStatusPatch, patches-l.patches)
	l.binds, l.patches = binds, patches
}

// Publish implements driver.Sink.
func (l *loop) Publish(draining bool) { l.ready.Store(l.core.Ready() && !draining) }

// dropMoot drops the head of a line if it has become moot while it waited, and returns the input that reports it to
// the core. Lanes whose effects never become moot are not looked at.
func (l *loop) dropMoot() (in effect.Input, dropped bool) {
	for _, n := range []commit.Lane{commit.LaneClear, commit.LaneChange, commit.LaneStatus} {
		if len(l.lines[n]) == 0 {
			continue
		}
		if op, moot := l.core.Moot(l.head(n)); moot {
			l.lines[n] = l.lines[n][1:]
			l.pending--
			return effect.NotStarted{Op: op}, true
		}
	}
	return nil, false
}

// lane returns the channel for the head of a line, or nil, which a select skips, if the line is empty.
func (l *loop) lane(n commit.Lane) chan<- effect.Effect {
	if len(l.lines[n]) == 0 {
		return nil
	}
	return l.commit.Lane(n)
}

func (l *loop) head(n commit.Lane) effect.Effect {
	if len(l.lines[n]) == 0 {
		return nil
	}
	return l.lines[n][0]
}

func (l *loop) taken(n commit.Lane) {
	l.lines[n][0] = nil
	l.lines[n] = l.lines[n][1:]
	l.pending--
	if n != commit.LaneLog {
		l.started++
	}
}

// Drain implements driver.Drainer: from now on only answers are received.
func (l *loop) Drain() effect.Input {
	l.draining = true
	return effect.Drain{}
}

// dropUntaken drops what no worker has taken: for the cluster and the ledger that is equivalent to a crash just
// before it. Decisions for the log stay, because they report what has happened already.
func (l *loop) dropUntaken() {
	for n := range l.lines {
		if commit.Lane(n) != commit.LaneLog {
			l.pending -= len(l.lines[n])
			l.lines[n] = nil
		}
	}
	l.deps.Logger.Info("draining", "calls", l.started)
}

// Idle implements driver.Drainer: every call is answered, and every decision is with the writer of the log.
func (l *loop) Idle() bool { return l.started == 0 && len(l.lines[commit.LaneLog]) == 0 }

// Leave implements driver.Drainer: it flushes the last decisions to the log. The caller then stops intake and commit,
// and with them the membership.
func (l *loop) Leave(lifetime context.Context, late bool) error {
	if late {
		l.deps.Logger.Warn("stopped before every call was answered; other binders resolve them", "calls", l.started)
	}
	l.exportPending()
	ctx, cancel := context.WithTimeout(lifetime, leaveTimeout)
	defer cancel()
	if err := l.commit.Flush(ctx); err != nil {
		l.deps.Logger.Warn("last decisions not in the log; facts and ledger have the same information",
			telemetry.KeyError, err)
	}
	return nil
}
