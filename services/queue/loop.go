package queue

import (
	"context"
	"fmt"
	"time"

	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/driver"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/work"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/state/feed"
	"github.com/berth-scheduler/berth/pkg/telemetry"
	"github.com/berth-scheduler/berth/pkg/telemetry/unreadable"
	"github.com/berth-scheduler/berth/services/queue/commit"
	"github.com/berth-scheduler/berth/services/queue/decide"
	"github.com/berth-scheduler/berth/services/queue/decide/memory"
	"github.com/berth-scheduler/berth/services/queue/intake"
	"github.com/berth-scheduler/berth/services/queue/watchdog"
)

// idleTick is how long the timer waits before the first step. From then on the core requests its own ticks.
const idleTick = time.Minute

// storeTimeout bounds the attempt to store the state of attempts when this replica stops.
const storeTimeout = 5 * time.Second

// gaugeInterval is the greatest age of the gauges: setting them after every step would cost more than many steps do.
const gaugeInterval = 250 * time.Millisecond

// feeds are the inputs of the deciding goroutine, each with one writer. All but requests are bounded by batchBuffer and
// block their writer; requests are hints, and the bus drops what does not fit.
type feeds struct {
	facts     chan feed.Step
	ledger    chan replica.Batch
	decisions chan intake.DecisionBatch
	requests  <-chan work.Request
}

// loop is the queue's side of its driver.Loop: the source of its inputs and the sink of its effects. It owns the core,
// the state and the view of the ledger; only the deciding goroutine uses it.
type loop struct {
	queue *Queue
	in    feeds
	core  *decide.Core
	// facts is the state as of the last step of the feed; holds is the view of the ledger.
	facts *intake.Facts
	holds *intake.Holds
	// alarm reports facts that cannot be decoded, once each.
	alarm *feed.Alarm
	out   *commit.Reporter
	// timer fires when the core wants a tick (decide.NextTick), so that deadlines are noticed without another input.
	timer clock.Timer
	// gauges and anomalies are the tickers for the gauges and for the search for anomalies.
	gauges, anomalies clock.Ticker
	watch             *watchdog.Monitor
	// leads means that the core was last given decide.Lead. Queue.leads is the same for other goroutines.
	leads bool
	// caughtUp means that the decisions that were in the log at the start have been read.
	caughtUp bool
	// first are the inputs to step before any other is received: the memory of an earlier life, if there is one.
	first []decide.Input
	// applied is the step of the facts that the state has and that was not published yet; pending means that there is one.
	applied feed.Step
	pending bool
	// array is the array of every event with one input, so that such an event allocates nothing.
	array [1]decide.Input
}

// newLoop returns a loop with a core that knows nothing and does not lead. The timer is set to idleTick, because a core
// requests its first tick in its first step.
func newLoop(q *Queue, in feeds, out *commit.Reporter) *loop {
	return &loop{
		queue: q, in: in, core: decide.New(q.coreConfig()), facts: intake.NewFacts(), holds: intake.NewHolds(),
		alarm: feed.NewAlarm(unreadable.New("queue", eventlog.Facts, q.logger, q.deps.Clock.Now).Write),
		out:   out, watch: watchdog.New(), timer: q.deps.Clock.NewTimer(idleTick),
	}
}

// drive steps the core, one input at a time, until ctx ends. There is no drain: offers expire by themselves, and the
// leader's round, which repairs the log, needs no farewell from the core.
func (l *loop) drive(ctx context.Context) error {
	defer l.timer.Stop()
	l.gauges = l.queue.deps.Clock.NewTicker(gaugeInterval)
	defer l.gauges.Stop()
	l.anomalies = l.queue.deps.Clock.NewTicker(watchdog.Interval)
	defer l.anomalies.Stop()
	// One context: without a drain, the end of ctx is the end of everything.
	d := driver.Loop[decide.Input, []decide.Effect]{Core: l.core, Clock: l.queue.deps.Clock, Source: l, Sink: l}
	err := d.Run(ctx, ctx)
	// Also after an error: the core's memory is as it was before the input that failed.
	l.out.NotLeading()
	l.storeMemory(ctx)
	return err
}

// storeMemory runs once, when the loop has ended. It stores the known state of attempts, and the pods that were let
// go through the quota gate, for the next start of any replica. Without it a start costs one attempt at each parked
// pod and reads more of the decisions log.
func (l *loop) storeMemory(ctx context.Context) {
	if !l.facts.Ready() || !l.caughtUp {
		return
	}
	data, sequence := l.core.Remember()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	if err := l.queue.deps.Snapshots.Put(ctx, eventlog.Decisions, sequence, data); err != nil {
		l.queue.logger.Warn("could not store the attempt state", "sequence", sequence, telemetry.KeyError, err)
	}
}

// loadMemory runs once, before the loop. It gives a new core the memory that an earlier life of some replica has
// stored. It returns the record of the decisions log from which reading continues, or the zero value if the decisions
// from before the memory must be read as well.
func (l *loop) loadMemory(ctx context.Context) (begin intake.Begin) {
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
	l.first = []decide.Input{decide.Remembered{Memory: known}}
	if !known.Complete {
		return begin
	}
	return intake.Begin{After: sequence, Stored: known.Stored}
}

// Next implements driver.Source. It sets the gauges and searches for anomalies as well; that is no event, and the loop
// calls it again. All inputs are equal: if several are ready, any of them is next. An error means that the ledger has a
// document that cannot be decoded, after which no hold can be relied upon.
func (l *loop) Next(ctx context.Context) (driver.Event[decide.Input], error) {
	if first := l.first; len(first) > 0 {
		l.first = nil
		return driver.Event[decide.Input]{Inputs: first}, nil
	}
	select {
	case <-ctx.Done():
	case step := <-l.in.facts:
		return l.take(step)
	case b := <-l.in.ledger:
		// The fold looks at the facts, to distinguish a reservation that has ended from one whose pod is bound.
		moved, err := l.holds.Fold(b, l.facts.Snapshot())
		if err != nil {
			return driver.Event[decide.Input]{}, fmt.Errorf("queue: ledger: %w", err)
		}
		return l.event(moved)
	case d := <-l.in.decisions:
		// Observers first: the core may emit effects about the same pods in this step.
		l.caughtUp = l.caughtUp || d.CaughtUp
		l.watch.Record(d, l.facts.Snapshot())
		l.out.ObserveDecisions(d.Decisions)
		return l.event(decide.Decided{
			Decisions: d.Decisions, Through: d.Through, CaughtUp: d.CaughtUp, Shortened: d.LostTail, Stored: d.Stored,
		})
	case r := <-l.in.requests: // the heartbeat of a shard
		return l.event(decide.WorkRequested{Request: r})
	case in := <-l.queue.inputs: // Lead or StepDown
		_, l.leads = in.(decide.Lead)
		l.queue.leads.Store(l.leads)
		telemetry.Leads("queue", l.leads)
		return l.event(in)
	case ask := <-l.queue.queries.Asked():
		return driver.Event[decide.Input]{Query: ask}, nil
	case <-l.timer.C(): // a deadline, or one that has moved since: the core checks
		return l.event(decide.Tick{})
	case <-l.gauges.C():
		l.exportGauges()
	case <-l.anomalies.C():
		// Followers search too, so that a new leader knows since when entries exist.
		l.watch.Evaluate(l.holds.View(), l.core, l.queue.deps.Clock.Now(), l.leads)
		l.exportInFlight()
	}
	return driver.Event[decide.Input]{}, nil
}

// take applies a step of the facts to the state, and returns the resulting inputs. There are none while the state has
// not caught up with what the core may have known; the state is published all the same, because the leader's rounds
// wait for the end of the log, not for the core.
func (l *loop) take(step feed.Step) (driver.Event[decide.Input], error) {
	l.applied, l.pending = step, true
	inputs := l.facts.Take(step)
	if len(inputs) == 0 {
		l.Publish(false)
	}
	return driver.Event[decide.Input]{Inputs: inputs}, nil
}

// event returns the event of one input. All sources but the facts have one.
func (l *loop) event(in decide.Input) (driver.Event[decide.Input], error) {
	l.array[0] = in
	return driver.Event[decide.Input]{Inputs: l.array[:]}, nil
}

// Execute implements driver.Sink. The reporter never blocks, so that a slow log or bus does not delay decisions.
// Effects are hints and reports: a crash between two of them costs time, a number or an explanation, never
// correctness.
func (l *loop) Execute(_ context.Context, s driver.Step[decide.Input, []decide.Effect]) error {
	took := l.queue.deps.Clock.Since(s.At)
	if applied, ok := s.Input.(decide.FactsApplied); ok {
		l.out.ObserveEnded(applied.Changes.Pods, s.At)
		if l.leads {
			commit.ObserveEvents(applied.Changes, took)
		}
	}
	for _, effect := range s.Output {
		// The timer is reset by the time that is left now, not at the step: a step may take longer than that.
		if tick, ok := effect.(decide.NextTick); ok {
			l.timer.Reset(max(tick.At.Sub(l.queue.deps.Clock.Now()), 0))
			continue
		}
		if n, ok := effect.(decide.Counted); ok {
			l.watch.Caught(n.Caught, s.At)
		}
		l.out.Execute(effect, took)
	}
	if _, down := s.Input.(decide.StepDown); down {
		l.out.NotLeading()
	}
	return nil
}

// Publish implements driver.Sink. Only steps of the facts change what it shows: goroutines that wait for a state see
// it once the core knows it.
func (l *loop) Publish(bool) {
	if !l.pending {
		return
	}
	l.alarm.Observe(l.applied)
	l.queue.applied.Publish(l.facts.Snapshot())
	l.applied, l.pending = feed.Step{}, false
}

// exportInFlight reports the events that are kept, if this replica leads. They are many, so it is rare.
func (l *loop) exportInFlight() {
	if l.leads {
		l.out.InFlight(l.core.EventsKept())
	}
}

// exportGauges reports the sizes of the pools, if this replica leads, and whether the ledger is closed. Only a leader
// reports pools, so that each pod counts once in the sum over the replicas.
func (l *loop) exportGauges() {
	telemetry.LedgerClosed(!l.holds.View().Permits(l.queue.applied.Position().Epoch))
	if l.leads {
		l.out.Pools(l.core.Pending(), l.core.Leased())
		l.out.Rejectors(l.core.Rejectors())
	}
}
