package commit

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record/util"
	"k8s.io/utils/clock"

	podevents "github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/telemetry"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

const (
	// noteLimit is the most bytes that the API server accepts in an event's note; a longer one is cut and ends in
	// noteEllipsis.
	noteLimit    = 1024
	noteEllipsis = " ..."
	// dropsPerLog is how many dropped events share one line in the log.
	dropsPerLog = 1000
)

// eventPause spaces the attempts to write an event while the API server does not answer, and eventTries is how many
// there are: for about as long as client-go, which tries for two minutes. A pause keeps its writer, so the longest one
// is also how long events may go on waiting after the API server answers again; client-go's is the same.
var eventPause = wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.25, Steps: 4, Cap: 10 * time.Second}

const eventTries = 14

// reporter writes Kubernetes events (events.k8s.io/v1), and combines repeated ones into series. report never blocks:
// beyond eventQueueSize, events are dropped.
//
// client-go's broadcaster was rejected. It keeps every event for 6 to 12 minutes in case it is repeated: at 200 binds
// per second that takes 100 MB, and the events of binds are never repeated (effect.Report.Once). And it drops events
// beyond the first 1,000 that arrive before it gets CPU time, without a sign of which it has taken.
type reporter struct {
	// member is the binder's id, for metrics. host is part of ReportingInstance, as in client-go.
	member string
	host   string
	sink   events.EventSink
	// queue holds the events that wait for pace, eventQueueSize at most.
	queue chan waitingReport
	drops *drops
	pace  *pace
	// scheduled is the policy for events of successful binds.
	scheduled Scheduled
	// series belongs to the goroutine of run, as do the series that are still to be written: ended are those that have
	// ended, refreshed are those of the last refresh.
	series           series
	ended, refreshed []*eventsv1.Event
	// bursts counts the events that are not written one by one. uncounted, of the same goroutine, are those whose count
	// is to be written, and uncountedSince is when the last of them was, or when they became due.
	bursts         *bursts
	uncounted      []burstKey
	uncountedSince time.Time
	clock          clock.WithTicker
	// writers are at most eventWriters goroutines, each of which keeps one event until it is written or given up.
	writers errgroup.Group
}

// waitingReport is an event that has waited since a given time to be written.
type waitingReport struct {
	effect.Report
	since time.Time
	// burst is the name of the event of the burst that begins with this one, empty if none does.
	burst string
}

func newReporter(deps Deps, pace *pace) *reporter {
	host, _ := os.Hostname() // empty when there is none, as in client-go
	r := &reporter{
		member: deps.Member, host: host, sink: deps.API.reports,
		queue: make(chan waitingReport, eventQueueSize), drops: &drops{logger: deps.Logger}, pace: pace, series: series{},
		bursts: newBursts(), scheduled: deps.Scheduled, clock: deps.Clock,
	}
	r.writers.SetLimit(eventWriters)
	return r
}

// drops counts dropped events, and logs them from time to time.
type drops struct {
	logger *slog.Logger
	count  atomic.Uint64
}

// add counts one dropped event, and logs the first of every dropsPerLog.
func (d *drops) add() {
	if n := d.count.Add(1); n%dropsPerLog == 1 {
		d.logger.Warn("dropping Kubernetes events: the API server is too slow", "dropped", n)
	}
}

// report queues an event, or drops it if too many wait. By the policy for binds it may leave an event out, or count it,
// for which nothing waits. Any goroutine may call it.
func (r *reporter) report(e effect.Report) {
	w := waitingReport{Report: e, since: r.clock.Now()}
	unwanted := e.Once && r.scheduled == ScheduledNone
	if e.Once && r.scheduled == ScheduledAggregated && e.Workload != nil {
		w, unwanted = r.bursts.add(w)
	}
	if unwanted {
		return
	}
	select {
	case r.queue <- w:
		r.pace.wakeUp()
	default:
		r.drops.add()
	}
}

// run writes events until ctx ends, and then waits until no write is in progress. For each event in the queue it waits
// for pace, counts a repetition in its series, and starts a writer if the API server has to learn of it. Series that
// end or are refreshed are written at the same pace while no event waits: there may be one for each pod that waits, and
// they must not fill the queue behind them. Counts of bursts come while no event waits as well, but one is written each
// maxBurstWait in any case.
func (r *reporter) run(ctx context.Context) error {
	defer func() { _ = r.writers.Wait() }() // no writer returns an error
	refresh, finish := r.clock.NewTicker(refreshEvery), r.clock.NewTicker(finishAfter)
	count := r.clock.NewTicker(countEvery)
	defer refresh.Stop()
	defer finish.Stop()
	defer count.Stop()
	for {
		if r.countIsLate() {
			r.startCount(ctx)
			continue
		}
		if r.seriesWait() {
			if !r.pace.wait(ctx, r.clock.Now(), r.waiting) {
				return nil
			}
			r.startSeries(ctx)
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-refresh.C():
			r.refreshed = r.series.all()
		case now := <-finish.C():
			r.ended = append(r.ended, r.series.finish(now.Add(-finishAfter))...)
		case now := <-count.C():
			r.uncounted, r.uncountedSince = r.bursts.due(now), now
		case e := <-r.queue:
			if !r.pace.wait(ctx, e.since, r.waiting) {
				return nil
			}
			event := r.event(e)
			if !e.Once {
				event = r.series.add(event, r.clock.Now())
			}
			if event != nil {
				r.start(ctx, event)
			}
		}
	}
}

// waiting returns and reports how many events wait.
func (r *reporter) waiting() int {
	n := len(r.queue)
	telemetry.EventsWaiting(r.member, n)
	return n
}

// event builds the event as client-go's recorder does (tools/events/event_recorder.go), except for its time: when it
// was reported, not when there was room to write it.
func (r *reporter) event(e waitingReport) *eventsv1.Event {
	event := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Name: util.GenerateEventName(e.Pod.Name, e.since.UnixNano()), Namespace: e.Pod.Namespace,
		},
		EventTime:           metav1.MicroTime{Time: e.since},
		ReportingController: e.SchedulerName,
		ReportingInstance:   e.SchedulerName + "-" + r.host,
		Action:              e.Action,
		Reason:              e.Reason,
		Regarding:           *objectOf(e.Pod),
		Note:                truncate(e.Note),
		Type:                e.Type,
	}
	if e.Related.UID != "" {
		event.Related = objectOf(e.Related)
	}
	if e.burst != "" {
		ofWorkload(event, e)
	}
	return event
}

// objectOf returns the reference by which an event names a pod.
func objectOf(p podevents.PodRef) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: "v1", Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: types.UID(p.UID),
	}
}

// truncate shortens a note to what the API server accepts, at a character boundary.
func truncate(note string) string {
	if len(note) <= noteLimit {
		return note
	}
	end := noteLimit - len(noteEllipsis)
	for end > 0 && !utf8.RuneStart(note[end]) {
		end--
	}
	return note[:end] + noteEllipsis
}

// seriesWait reports whether a series or count is to be written and no event waits.
func (r *reporter) seriesWait() bool {
	return len(r.queue) == 0 && len(r.ended)+len(r.refreshed)+len(r.uncounted) > 0
}

// countIsLate reports whether counts are to be written and none has been for maxBurstWait.
func (r *reporter) countIsLate() bool {
	return len(r.uncounted) > 0 && r.clock.Since(r.uncountedSince) >= maxBurstWait
}

// startSeries writes a series or a count, unless an event waits.
func (r *reporter) startSeries(ctx context.Context) {
	if !r.seriesWait() {
		return
	}
	if next := r.nextSeries(); next != nil {
		r.start(ctx, next)
		return
	}
	r.startCount(ctx)
}

// nextSeries returns a series that has ended or is to be refreshed, nil if there is none.
func (r *reporter) nextSeries() *eventsv1.Event {
	for _, list := range []*[]*eventsv1.Event{&r.ended, &r.refreshed} {
		if len(*list) > 0 {
			next := (*list)[0]
			*list = (*list)[1:]
			return next
		}
	}
	return nil
}

// startCount writes the next count of a burst, if it is still to be written.
func (r *reporter) startCount(ctx context.Context) {
	key := r.uncounted[0]
	r.uncounted, r.uncountedSince = r.uncounted[1:], r.clock.Now()
	first, series := r.bursts.counted(key)
	if series == nil {
		return
	}
	event := r.event(first)
	event.Series = series
	r.writers.Go(func() error {
		r.bursts.settled(key, series.Count, r.write(ctx, event))
		return nil
	})
}

// start writes e in the background until ctx ends. It blocks while eventWriters are busy.
func (r *reporter) start(ctx context.Context, e *eventsv1.Event) {
	r.writers.Go(func() error {
		r.write(ctx, e)
		return nil
	})
}

// write retries until the API server has answered, eventTries times at most, and reports whether it has.
func (r *reporter) write(ctx context.Context, e *eventsv1.Event) bool {
	pause := eventPause
	for range eventTries - 1 {
		if r.answered(ctx, e) {
			return true
		}
		select {
		case <-r.clock.After(pause.Step()):
		case <-ctx.Done():
			return false // when the binder stops, events still in flight are dropped
		}
	}
	if r.answered(ctx, e) {
		return true
	}
	if ctx.Err() == nil {
		r.drops.add()
	}
	return false
}

// answered tries once, and reports whether the API server has answered. A refusal is an answer, as it is for client-go.
// If the event exists already, an attempt whose answer was lost has written it.
func (r *reporter) answered(ctx context.Context, e *eventsv1.Event) bool {
	err := r.try(ctx, e)
	exists := apierrors.IsAlreadyExists(err)
	if err == nil || exists && e.Series == nil {
		return true
	}
	if status := apierrors.APIStatus(nil); !errors.As(err, &status) || exists {
		return false
	}
	r.drops.logger.Warn("Kubernetes event rejected by the API server", "pod", e.Namespace+"/"+e.Regarding.Name,
		"reason", e.Reason, telemetry.KeyError, err)
	return true
}

// try sends one request: it creates the event, or updates the series of one that exists. An event that has been
// deleted is created again; if it then exists, its first write has only just been carried out, and another try
// updates it.
func (r *reporter) try(ctx context.Context, e *eventsv1.Event) error {
	defer r.pace.write()()
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	if e.Series != nil {
		patch, err := json.Marshal(map[string]any{"series": e.Series})
		if err != nil {
			return err
		}
		if _, err = r.sink.Patch(ctx, e, patch); !util.IsKeyNotFoundError(err) {
			return err
		}
	}
	_, err := r.sink.Create(ctx, e)
	return err
}
