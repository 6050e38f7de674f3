package commit

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record/util"

	"github.com/berth-scheduler/berth/pkg/telemetry"
)

// eventPause spaces the attempts to write an event while the API server does not answer, for about as long as
// client-go, which tries for two minutes.
var eventPause = wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.25, Steps: 8}

// onceWriter writes the events that a pod has once in its life, in client-go's form. client-go itself keeps every
// event for 6 to 12 minutes in case it is repeated: at 200 binds per second that takes 100 MB.
type onceWriter struct {
	sink    events.EventSink
	drops   *drops
	host    string
	writers errgroup.Group
}

func newOnceWriter(sink events.EventSink, drops *drops) *onceWriter {
	host, _ := os.Hostname() // empty when there is none, as in client-go
	w := &onceWriter{sink: sink, drops: drops, host: host}
	w.writers.SetLimit(eventWriters)
	return w
}

// start writes e in the background until ctx ends. It blocks while eventWriters are busy.
func (w *onceWriter) start(ctx context.Context, e waitingReport) {
	w.writers.Go(func() error {
		w.write(ctx, w.event(e))
		return nil
	})
}

// end waits until no write is in progress, which is soon after the end of ctx.
func (w *onceWriter) end() { _ = w.writers.Wait() } // no writer returns an error

// event builds the event as client-go's recorder does (tools/events/event_recorder.go), except for its time: when it
// was reported, not when there was room to write it.
func (w *onceWriter) event(e waitingReport) *eventsv1.Event {
	event := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Name: util.GenerateEventName(e.Pod.Name, e.since.UnixNano()), Namespace: e.Pod.Namespace,
		},
		EventTime:           metav1.MicroTime{Time: e.since},
		ReportingController: e.SchedulerName,
		ReportingInstance:   e.SchedulerName + "-" + w.host,
		Action:              e.Action,
		Reason:              e.Reason,
		Regarding:           *objectOf(e.Pod),
		Note:                cut(e.Note),
		Type:                e.Type,
	}
	if e.Related.UID != "" {
		event.Related = objectOf(e.Related)
	}
	return event
}

// write retries until the API server has answered. A refusal is an answer, as it is for client-go. If the event
// exists already, an attempt whose answer was lost has written it.
func (w *onceWriter) write(ctx context.Context, e *eventsv1.Event) {
	err := wait.ExponentialBackoffWithContext(ctx, eventPause, func(ctx context.Context) (bool, error) {
		_, err := w.sink.Create(ctx, e)
		if err == nil || apierrors.IsAlreadyExists(err) {
			return true, nil
		}
		if status := apierrors.APIStatus(nil); errors.As(err, &status) {
			return false, err
		}
		return false, nil
	})
	switch {
	case err == nil || ctx.Err() != nil:
	case wait.Interrupted(err):
		w.drops.add()
	default:
		w.drops.logger.Warn("Kubernetes event rejected by the API server", "pod", e.Namespace+"/"+e.Regarding.Name,
			"reason", e.Reason, telemetry.KeyError, err)
	}
}
