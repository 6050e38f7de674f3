package commit

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"

	podevents "github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// answers is a sink that gives one answer after the other, and keeps the events it was asked to write.
type answers struct {
	events.EventSink
	written chan *eventsv1.Event
	mu      sync.Mutex
	next    []error
	patches []string
}

func (a *answers) Create(_ context.Context, e *eventsv1.Event) (*eventsv1.Event, error) {
	a.written <- e
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.next) == 0 {
		return e, nil
	}
	err := a.next[0]
	a.next = a.next[1:]
	return e, err
}

// Patch counts as Create; the patch is kept beside the event.
func (a *answers) Patch(ctx context.Context, e *eventsv1.Event, data []byte) (*eventsv1.Event, error) {
	a.mu.Lock()
	a.patches = append(a.patches, string(data))
	a.mu.Unlock()
	return a.Create(ctx, e)
}

// reporterTo returns a reporter that writes to a sink.
func reporterTo(sink events.EventSink) *reporter {
	deps := Deps{Logger: slog.New(slog.DiscardHandler), API: APIOf(fake.NewClientset()), Clock: clock.RealClock{}}
	r := newReporter(deps, newPace(deps.Clock))
	r.sink = sink
	return r
}

func aReport() waitingReport {
	return waitingReport{since: time.Now(), Report: effect.Report{
		Pod: podevents.PodRef{Namespace: "ns", Name: "p", UID: "uid"}, SchedulerName: "berth", Once: true,
		Type: "Normal", Reason: "Scheduled", Action: "Binding", Note: "100% of ns/p is on n",
		Related: podevents.PodRef{Namespace: "ns", Name: "other", UID: "uid2"},
	}}
}

func TestReporterWritesWhatTheLibraryWould(t *testing.T) {
	sink := &answers{written: make(chan *eventsv1.Event, 1)}
	broadcaster := events.NewBroadcaster(sink)
	defer broadcaster.Shutdown()
	if err := broadcaster.StartRecordingToSinkWithContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	report := aReport()
	broadcaster.NewRecorder(scheme.Scheme, report.SchedulerName).Eventf(
		objectOf(report.Pod), objectOf(report.Related), report.Type, report.Reason, report.Action, "%s", report.Note)
	library := <-sink.written
	r := reporterTo(sink)
	r.start(t.Context(), r.event(report))
	_ = r.writers.Wait()
	ours := <-sink.written
	if diff := cmp.Diff(library, ours, cmpopts.IgnoreFields(eventsv1.Event{}, "EventTime"),
		cmpopts.IgnoreFields(metav1.ObjectMeta{}, "Name")); diff != "" {
		t.Errorf("event (-library +ours):\n%s", diff)
	}
	if len(library.Name) != len(ours.Name) || !ours.EventTime.Time.Equal(report.since) {
		t.Errorf("%s at %v, the library's %s; want a name like it, and the time of the report", ours.Name,
			ours.EventTime, library.Name)
	}
}

func TestReporterTriesUntilThereIsAnAnswer(t *testing.T) {
	lost := errors.New("connection refused")
	event := schema.GroupResource{Group: "events.k8s.io", Resource: "events"}
	for name, c := range map[string]struct {
		answers      []error
		tries, drops int
	}{
		"written":                      {[]error{nil}, 1, 0},
		"lost twice":                   {[]error{lost, lost, nil}, 3, 0},
		"written, the answer lost":     {[]error{lost, apierrors.NewAlreadyExists(event, "p.1")}, 2, 0},
		"refused":                      {[]error{apierrors.NewForbidden(event, "p.1", errors.New("no"))}, 1, 0},
		"never an answer, given up":    {slices.Repeat([]error{lost}, eventTries), eventTries, 1},
		"an answer at the last moment": {append(slices.Repeat([]error{lost}, eventTries-1), nil), eventTries, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sink := &answers{next: c.answers, written: make(chan *eventsv1.Event, eventTries)}
				r := reporterTo(sink)
				r.start(t.Context(), r.event(aReport()))
				_ = r.writers.Wait()
				if got := len(sink.written); got != c.tries || r.drops.count.Load() != uint64(c.drops) {
					t.Errorf("%d tries, %d dropped, want %d and %d", got, r.drops.count.Load(), c.tries, c.drops)
				}
			})
		})
	}
}

func TestReporterEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &answers{next: []error{errors.New("connection refused")}, written: make(chan *eventsv1.Event, 10)}
		r := reporterTo(sink)
		ctx, cancel := context.WithCancel(t.Context())
		r.start(ctx, r.event(aReport()))
		<-sink.written
		synctest.Wait() // in the pause
		begin := time.Now()
		cancel()
		_ = r.writers.Wait()
		if took := time.Since(begin); took != 0 || len(sink.written) != 0 || r.drops.count.Load() != 0 {
			t.Errorf("ended after %v with %d more tries and %d dropped, want at once with none", took, len(sink.written),
				r.drops.count.Load())
		}
	})
}

// A repeated event is created once, updated when it is first repeated, and then counted, as the library does. Its last
// count is written when it has not been repeated for a while; an event that was never repeated is forgotten.
func TestRepeatedEventsBecomeSeries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		library, ours := &answers{written: make(chan *eventsv1.Event, 10)}, &answers{written: make(chan *eventsv1.Event, 10)}
		broadcaster := events.NewBroadcaster(library)
		ctx, cancel := context.WithCancel(t.Context())
		if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
			t.Fatal(err)
		}
		r := reporterTo(ours)
		done := make(chan error)
		go func() { done <- r.run(ctx) }()
		e := aReport().Report
		e.Once = false
		recorder := broadcaster.NewRecorder(scheme.Scheme, e.SchedulerName)
		for i, want := range []int{1, 2, 2, 2} {
			r.report(e)
			recorder.Eventf(objectOf(e.Pod), objectOf(e.Related), e.Type, e.Reason, e.Action, "%s", e.Note)
			synctest.Wait()
			if len(ours.written) != want || len(library.written) != want {
				t.Fatalf("%d writes after event %d, the library's %d, want %d", len(ours.written), i+1,
					len(library.written), want)
			}
			time.Sleep(time.Second)
		}
		other := e
		other.Reason = "Other"
		r.report(other)
		time.Sleep(3 * finishAfter)
		synctest.Wait()
		if len(ours.written) != 4 || len(library.written) != 3 || len(r.series) != 0 {
			t.Errorf("%d writes, the library's %d, and %d events kept, want 4, 3 and none", len(ours.written),
				len(library.written), len(r.series))
		}
		if diff := cmp.Diff(library.patches, ours.patches); diff != "" {
			t.Errorf("patches (-library +ours):\n%s", diff)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		broadcaster.Shutdown()
	})
}

// A series whose event the API server has deleted begins with another one.
func TestSeriesOfADeletedEventIsCreated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		event := schema.GroupResource{Group: "events.k8s.io", Resource: "events"}
		sink := &answers{
			next:    []error{apierrors.NewNotFound(event, "p.1"), apierrors.NewAlreadyExists(event, "p.1"), nil},
			written: make(chan *eventsv1.Event, 10),
		}
		r := reporterTo(sink)
		e := r.event(aReport())
		r.series.add(e, time.Now())
		r.start(t.Context(), r.series.add(e, time.Now()))
		_ = r.writers.Wait()
		if len(sink.written) != 3 || len(sink.patches) != 2 || r.drops.count.Load() != 0 {
			t.Errorf("%d requests, %d of them patches, %d dropped, want 3, 2 and none", len(sink.written),
				len(sink.patches), r.drops.count.Load())
		}
	})
}

// An event that has waited for longer than a series lasts begins one all the same.
func TestEventThatHasWaitedBeginsASeries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &answers{written: make(chan *eventsv1.Event, 10)}
		r := reporterTo(sink)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.run(ctx) }()
		time.Sleep(finishAfter - time.Second)
		for range 3 {
			late := aReport()
			late.Once = false
			late.since = time.Now().Add(-finishAfter)
			r.queue <- late
			time.Sleep(finishAfter / 2)
		}
		synctest.Wait()
		if len(sink.written) != 2 || len(sink.patches) != 1 {
			t.Errorf("%d requests for one event and its repetitions, %d of them patches, want 2 and 1", len(sink.written),
				len(sink.patches))
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// Series that are written again wait for binds as all events do.
func TestSeriesAreRefreshedAtTheEventsPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pods = 10
		sink := &answers{written: make(chan *eventsv1.Event, 4*pods)}
		r := reporterTo(sink)
		for i := range pods {
			e := aReport()
			e.Pod.UID += string(rune('a' + i))
			r.series.add(r.event(e), time.Now())
			r.series.add(r.event(e), time.Now().Add(refreshEvery))
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.run(ctx) }()
		var ends []func()
		for range busyFrom {
			ends = append(ends, r.pace.change())
		}
		time.Sleep(refreshEvery + maxBurstWait - time.Second)
		synctest.Wait()
		if n := len(sink.written); n != 0 {
			t.Errorf("%d series written with %d binds on their way", n, busyFrom)
		}
		const rounds = 4
		time.Sleep(rounds * maxBurstWait)
		synctest.Wait()
		if n := len(sink.written); n == 0 || n > rounds {
			t.Errorf("%d series written in %v of binds without a gap, want 1 to %d", n, rounds*maxBurstWait, rounds)
		}
		for _, end := range ends {
			end()
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := len(sink.written); n != pods {
			t.Errorf("%d series written after the binds, want %d", n, pods)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// Series that are to be written hold no event up: they come when none waits, those that have ended first.
func TestSeriesComeAfterEvents(t *testing.T) {
	r := reporterTo(&answers{})
	ended, refreshed := &eventsv1.Event{Reason: "ended"}, &eventsv1.Event{Reason: "refreshed"}
	r.ended, r.refreshed = []*eventsv1.Event{ended}, []*eventsv1.Event{refreshed}
	r.report(aReport().Report)
	r.startSeries(t.Context())
	if len(r.ended)+len(r.refreshed) != 2 {
		t.Error("a series comes before an event that waits")
	}
	<-r.queue
	for _, want := range []*eventsv1.Event{ended, refreshed, nil} {
		if next := r.nextSeries(); next != want {
			t.Errorf("next is %v, want %v", next, want)
		}
	}
}

// After the API server has not answered for a while, events do not wait for long until they are tried again.
func TestEventsAreTriedSoonAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const outage = 80 * time.Second
		sink := &answers{
			next:    slices.Repeat([]error{errors.New("connection refused")}, 1000),
			written: make(chan *eventsv1.Event, 1000),
		}
		r := reporterTo(sink)
		for range eventWriters {
			r.start(t.Context(), r.event(aReport()))
		}
		time.Sleep(outage)
		synctest.Wait()
		sink.mu.Lock()
		sink.next = nil
		sink.mu.Unlock()
		begin := time.Now()
		_ = r.writers.Wait()
		if took, most := time.Since(begin), eventPause.Cap*5/4; took > most || r.drops.count.Load() != 0 {
			t.Errorf("written %v after the outage, %d dropped, want at most %v and none", took, r.drops.count.Load(), most)
		}
	})
}

// report waits for nothing: events beyond the bound are dropped and counted.
func TestEventsBeyondTheBoundAreDroppedNotWaitedFor(t *testing.T) {
	r := reporterTo(&answers{written: make(chan *eventsv1.Event, 1)})
	for range eventQueueSize {
		r.report(aReport().Report)
	}
	if n := r.drops.count.Load(); n != 0 {
		t.Fatalf("%d dropped within the bound", n)
	}
	r.report(aReport().Report)
	if n := r.drops.count.Load(); n != 1 {
		t.Fatalf("%d counted: want one drop", n)
	}
}
