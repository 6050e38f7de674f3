package binder

import (
	"context"
	"time"

	"github.com/berth-scheduler/berth/pkg/telemetry"
	"github.com/berth-scheduler/berth/services/binder/commit"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// loop is one run of the core, and the only goroutine that steps it. Effects wait in order, one line per lane, until
// a worker takes them. Answers are always received; other input only while the lines are short.
type loop struct {
	*Binder
	lines   [commit.Lanes][]effect.Effect
	pending int
	// started counts effects that a worker has taken and not answered.
	started int
	drainBy <-chan time.Time
	// failed is the reason why the binder cannot continue.
	failed error
}

func (b *Binder) loop(ctx, rooms context.Context) error {
	l := &loop{Binder: b}
	ticker := b.deps.Clock.NewTicker(tick)
	defer ticker.Stop()
	ending := ctx.Done()
	for {
		l.dropMoot(commit.LaneClear)
		l.dropMoot(commit.LaneChange)
		l.dropMoot(commit.LaneStatus)
		if l.failed != nil {
			return l.failed
		}
		inputs := b.inputs
		if l.pending > maxPending || l.drainBy != nil {
			inputs = nil
		}
		select {
		case <-rooms.Done():
			return nil
		case <-ending:
			ending = nil
			l.drain()
		case <-l.drainBy:
			b.deps.Logger.Warn("stopped before every call was answered; other binders resolve them", "calls", l.started)
			return l.leave(rooms)
		case in := <-inputs:
			l.step(in)
		case in := <-b.commit.Answers():
			l.started--
			l.step(in)
		case <-ticker.C():
			l.step(effect.Tick{})
			telemetry.FencesRefused(l.cfg.ID, l.core.Stats().FencesRefused)
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
		if l.failed == nil && l.drainBy != nil && l.started == 0 && len(l.lines[commit.LaneLog]) == 0 {
			return l.leave(rooms)
		}
	}
}

// step runs the core and queues its effects.
func (l *loop) step(in effect.Input) {
	for _, e := range l.core.Step(in, l.deps.Clock.Now()) {
		if stop, is := e.(effect.Stop); is {
			l.failed = stop.Err
			return
		}
		lane, ok := commit.LaneOf(e)
		if !ok {
			l.commit.Now(e)
			continue
		}
		l.lines[lane] = append(l.lines[lane], e)
		l.pending++
	}
	l.ready.Store(l.core.Ready() && l.drainBy == nil)
}

// dropMoot drops effects from the head of a line that have become moot while they waited.
func (l *loop) dropMoot(n commit.Lane) {
	for len(l.lines[n]) > 0 {
		op, moot := l.core.Moot(l.head(n))
		if !moot {
			return
		}
		l.lines[n] = l.lines[n][1:]
		l.pending--
		l.step(effect.Untaken{Op: op})
	}
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

// drain stops the core from starting anything and drops what no worker has taken: for the cluster and the ledger that
// is equivalent to a crash just before it.
func (l *loop) drain() {
	l.drainBy = l.deps.Clock.After(drainTimeout)
	l.step(effect.Drain{})
	for n := range l.lines {
		if commit.Lane(n) != commit.LaneLog {
			l.pending -= len(l.lines[n])
			l.lines[n] = nil
		}
	}
	l.deps.Logger.Info("draining", "calls", l.started)
}

// leave flushes the last decisions to the log. The caller then stops intake and commit, and with them the membership.
func (l *loop) leave(rooms context.Context) error {
	ctx, cancel := context.WithTimeout(rooms, leaveTimeout)
	defer cancel()
	if err := l.commit.Flush(ctx); err != nil {
		l.deps.Logger.Warn("last decisions not in the log; facts and ledger have the same information",
			telemetry.KeyError, err)
	}
	return nil
}
