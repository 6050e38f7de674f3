package queue

import (
	"context"
	"fmt"
	"time"

	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/work"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/state/feed"
	"github.com/berth-scheduler/berth/pkg/telemetry"
	"github.com/berth-scheduler/berth/pkg/telemetry/aside"
	"github.com/berth-scheduler/berth/services/queue/commit"
	"github.com/berth-scheduler/berth/services/queue/decide"
	"github.com/berth-scheduler/berth/services/queue/decide/memory"
	"github.com/berth-scheduler/berth/services/queue/intake"
	"github.com/berth-scheduler/berth/services/queue/watchdog"
)

// idleTick is how long the loop waits for the first input. From then on the core requests its own ticks.
const idleTick = time.Minute

// rememberTimeout bounds the attempt to store the state of attempts when this replica stops.
const rememberTimeout = 5 * time.Second

// gaugeInterval is the greatest age of the gauges: setting them after every step would cost more than many steps do.
const gaugeInterval = 250 * time.Millisecond

// feeds are the inputs of the deciding goroutine.
type feeds struct {
	facts     chan feed.Step
	ledger    chan replica.Batch
	decisions chan intake.DecisionBatch
	requests  <-chan work.Request
}

// loop is the one goroutine that owns the core, the store and the view of the ledger.
type loop struct {
	queue *Queue
	in    feeds
	core  *decide.Core
	facts *intake.Facts
	alarm *feed.Alarm
	holds *intake.Holds
	out   *commit.Reporter
	timer clock.Timer
	watch *watchdog.Monitor
	leads bool
	// caughtUp means that the decisions that were in the log at the start have been read.
	caughtUp bool
}

func newLoop(q *Queue, in feeds, out *commit.Reporter) *loop {
	return &loop{
		queue: q, in: in, core: decide.New(q.coreConfig()), facts: intake.NewFacts(), holds: intake.NewHolds(),
		alarm: feed.NewAlarm(aside.New("queue", eventlog.Facts, q.logger, q.deps.Clock.Now).Write),
		out:   out, watch: watchdog.New(), timer: q.deps.Clock.NewTimer(idleTick),
	}
}

// run decides, one input at a time, until ctx ends.
func (l *loop) run(ctx context.Context) error {
	defer l.timer.Stop()
	gauges := l.queue.deps.Clock.NewTicker(gaugeInterval)
	defer gauges.Stop()
	anomalies := l.queue.deps.Clock.NewTicker(watchdog.Interval)
	defer anomalies.Stop()
	for {
		if err := l.next(ctx, ticks{gauges.C(), anomalies.C()}); err != nil || ctx.Err() != nil {
			l.out.Idle()
			l.remember(ctx)
			return err
		}
	}
}

// remember stores the known state of attempts, and the pods that were let go through the quota gate, for the next
// start of any replica. Without it a start costs one attempt at each parked pod and reads more of the decisions log.
func (l *loop) remember(ctx context.Context) {
	if !l.facts.Ready() || !l.caughtUp {
		return
	}
	data, sequence := l.core.Remember()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rememberTimeout)
	defer cancel()
	if err := l.queue.deps.Snapshots.Put(ctx, eventlog.Decisions, sequence, data); err != nil {
		l.queue.logger.Warn("could not store the attempt state", "sequence", sequence, telemetry.KeyError, err)
	}
}

// recall gives a new core the memory that an earlier life of some replica has stored. It returns the record of the
// decisions log from which reading continues, or the zero value if the decisions from before the memory must be read
// as well.
func (l *loop) recall(ctx context.Context) (begin intake.Begin) {
	sequence, data, ok, err := l.queue.deps.Snapshots.Latest(ctx, eventlog.Decisions)
	if err != nil || !ok {
		l.queue.logger.Debug("no stored attempt state", telemetry.KeyError, err)
		return begin
	}
	last, err := l.queue.deps.Log.Last(ctx, eventlog.Decisions)
	if err != nil || sequence > last {
		l.queue.logger.Warn("stored attempt state does not belong to this log", "sequence", sequence, "last", last,
			telemetry.KeyError, err)
		return begin
	}
	known, err := memory.Decode(data)
	if err != nil || known.Decisions != sequence {
		l.queue.logger.Warn("stored attempt state cannot be decoded", "sequence", sequence, telemetry.KeyError, err)
		return begin
	}
	l.step(decide.Remembered{Memory: known})
	if !known.Complete {
		return begin
	}
	return intake.Begin{After: sequence, Stored: known.Stored}
}

// ticks are the timers for the gauges and for the search for anomalies.
type ticks struct{ gauges, anomalies <-chan time.Time }

func (l *loop) next(ctx context.Context, t ticks) error {
	select {
	case <-ctx.Done():
		return nil
	case step := <-l.in.facts:
		l.applyFacts(step)
	case b := <-l.in.ledger:
		moved, err := l.holds.Fold(b, l.facts.Snapshot())
		if err != nil {
			return fmt.Errorf("queue: ledger: %w", err)
		}
		l.step(moved)
	case d := <-l.in.decisions:
		l.caughtUp = l.caughtUp || d.CaughtUp
		l.watch.Record(d, l.facts.Snapshot())
		l.out.Decided(d.Decisions)
		l.step(decide.Decided{
			Decisions: d.Decisions, Through: d.Through, CaughtUp: d.CaughtUp, Shortened: d.Shortened, Stored: d.Stored,
		})
	case r := <-l.in.requests:
		l.step(decide.WorkAsked{Request: r})
	case in := <-l.queue.inputs:
		_, l.leads = in.(decide.Lead)
		l.queue.leads.Store(l.leads)
		telemetry.Leads("queue", l.leads)
		l.step(in)
		if !l.leads {
			l.out.Idle()
		}
	case ask := <-l.queue.queries:
		ask(l)
	case <-l.timer.C():
		l.step(decide.Tick{})
	case <-t.gauges:
		l.gauge()
	case <-t.anomalies:
		l.watch.Evaluate(l.holds.View(), l.core, l.queue.deps.Clock.Now(), l.leads)
	}
	return nil
}

// applyFacts applies a step to the state and passes the resulting inputs to the core once the state has caught up.
func (l *loop) applyFacts(step feed.Step) {
	for _, in := range l.facts.Take(step) {
		if applied, ok := in.(decide.FactsApplied); ok {
			l.out.Went(applied.Changes.Pods, l.queue.deps.Clock.Now())
		}
		l.step(in)
	}
	l.alarm.Look(step)
	l.queue.applied.Publish(l.facts.Snapshot())
}

// step runs one input through the core and carries out the effects.
func (l *loop) step(in decide.Input) {
	now := l.queue.deps.Clock.Now()
	effects := l.core.Step(in, now)
	took := l.queue.deps.Clock.Since(now)
	for _, effect := range effects {
		if tick, ok := effect.(decide.NextTick); ok {
			l.timer.Reset(max(tick.At.Sub(l.queue.deps.Clock.Now()), 0))
			continue
		}
		if n, ok := effect.(decide.Counted); ok {
			l.watch.Caught(n.Caught, now)
		}
		l.out.Carry(effect, took)
	}
}

// gauge reports the sizes of the pools, if this replica leads, and whether the ledger is closed.
func (l *loop) gauge() {
	telemetry.LedgerClosed(!l.holds.View().Permits(l.queue.applied.Position().Epoch))
	if l.leads {
		l.out.Pools(l.core.Pending(), l.core.Leased())
		l.out.Rejectors(l.core.Rejectors())
	}
}
