package commit

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"

	podevents "github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/services/binder/internal/effect"
)

// answers is a sink that gives one answer after the other, and keeps the events it was asked to write.
type answers struct {
	events.EventSink
	next    []error
	written chan *eventsv1.Event
}

func (a *answers) Create(_ context.Context, e *eventsv1.Event) (*eventsv1.Event, error) {
	a.written <- e
	if len(a.next) == 0 {
		return e, nil
	}
	err := a.next[0]
	a.next = a.next[1:]
	return e, err
}

func aReport() waitingReport {
	return waitingReport{since: time.Now(), Report: effect.Report{
		Pod: podevents.PodRef{Namespace: "ns", Name: "p", UID: "uid"}, SchedulerName: "berth", Once: true,
		Type: "Normal", Reason: "Scheduled", Action: "Binding", Note: "100% of ns/p is on n",
		Related: podevents.PodRef{Namespace: "ns", Name: "other", UID: "uid2"},
	}}
}

func TestOnceWriterWritesWhatTheLibraryWould(t *testing.T) {
	sink := &answers{written: make(chan *eventsv1.Event, 1)}
	broadcaster := events.NewBroadcaster(sink)
	defer broadcaster.Shutdown()
	if err := broadcaster.StartRecordingToSinkWithContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	report := aReport()
	emit(broadcaster.NewRecorder(scheme.Scheme, report.SchedulerName), report.Report)
	library := <-sink.written
	w := newOnceWriter(sink, &drops{logger: slog.New(slog.DiscardHandler)})
	w.start(t.Context(), report)
	w.end()
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

func TestOnceWriterTriesUntilThereIsAnAnswer(t *testing.T) {
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
		"never an answer, given up":    {[]error{lost, lost, lost, lost, lost, lost, lost, lost}, 8, 1},
		"an answer at the last moment": {[]error{lost, lost, lost, lost, lost, lost, lost, nil}, 8, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sink := &answers{next: c.answers, written: make(chan *eventsv1.Event, 10)}
				w := newOnceWriter(sink, &drops{logger: slog.New(slog.DiscardHandler)})
				w.start(t.Context(), aReport())
				w.end()
				if got := len(sink.written); got != c.tries || w.drops.count.Load() != uint64(c.drops) {
					t.Errorf("%d tries, %d dropped, want %d and %d", got, w.drops.count.Load(), c.tries, c.drops)
				}
			})
		})
	}
}

func TestOnceWriterEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &answers{next: []error{errors.New("connection refused")}, written: make(chan *eventsv1.Event, 10)}
		w := newOnceWriter(sink, &drops{logger: slog.New(slog.DiscardHandler)})
		ctx, cancel := context.WithCancel(t.Context())
		w.start(ctx, aReport())
		<-sink.written
		synctest.Wait() // in the pause
		begin := time.Now()
		cancel()
		w.end()
		if took := time.Since(begin); took != 0 || len(sink.written) != 0 || w.drops.count.Load() != 0 {
			t.Errorf("ended after %v with %d more tries and %d dropped, want at once with none", took, len(sink.written),
				w.drops.count.Load())
		}
	})
}
