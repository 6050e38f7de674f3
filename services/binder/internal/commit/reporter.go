package commit

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"

	podevents "github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/telemetry"
	"github.com/berth-scheduler/berth/services/binder/internal/decide"
)

const (
	// noteLimit is the most bytes that the API server accepts in an event's note; a longer one is cut and ends in
	// noteCut.
	noteLimit = 1024
	noteCut   = " ..."
	// eventWriters is how many events may be in flight at once, and eventsWaiting how many may wait for that; further
	// events are dropped. client-go would write all of them at once, in competition with the binds they report (see
	// pace).
	eventWriters  = 8
	eventsWaiting = 20480
	// eventsPatience is how many events wait, at most, for binds to leave room: half of what can wait, so that the
	// other half remains for times when the API server is slow.
	eventsPatience = eventsWaiting / 2
	// sinkWaiting is how many events client-go may have handed over that are not written yet: it creates the events
	// of series by itself, without a request.
	sinkWaiting = 4096
	// dropsPerLine is how many dropped events share one line in the log.
	dropsPerLine = 1000
	// handedOver is how many events may be between report's queue and their writes: client-go drops those beyond
	// 1,000 that arrive before it gets CPU time. It makes no write for an event that continues a series, so that
	// after handedPatience the missing writes are attributed to series.
	handedOver     = 256
	handedPatience = 50 * time.Millisecond
)

// reporter emits Kubernetes events (events.k8s.io/v1) through client-go's broadcaster, which combines repeated ones
// into series; events that are not repeated it writes itself (onceWriter). report never blocks: beyond eventsWaiting,
// events are dropped.
type reporter struct {
	member string
	client kubernetes.Interface
	queue  chan waitingReport
	drops  *drops
	pace   *pace
	handed handed
}

// waitingReport is an event that has waited since a given time to be written.
type waitingReport struct {
	decide.Report
	since time.Time
}

func newReporter(deps Deps, pace *pace) *reporter {
	return &reporter{
		member: deps.Member, client: deps.API.reports, queue: make(chan waitingReport, eventsWaiting),
		drops: &drops{logger: deps.Logger}, pace: pace, handed: make(handed, handedOver),
	}
}

// handed holds a token for each event that client-go was given and has not begun to write.
type handed chan struct{}

// wait blocks until one more event may be handed over. It reports false if ctx ended.
func (h handed) wait(ctx context.Context) bool {
	select {
	case h <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	case <-time.After(handedPatience):
	}
	for range cap(h) {
		h.begun()
	}
	h <- struct{}{} // no other goroutine hands over
	return true
}

// begun records that client-go has begun to write an event.
func (h handed) begun() {
	select {
	case <-h:
	default: // a repetition, or counted as one of a series
	}
}

// drops counts dropped events, and logs them from time to time.
type drops struct {
	logger *slog.Logger
	count  atomic.Uint64
}

func (d *drops) add() {
	if n := d.count.Add(1); n%dropsPerLine == 1 {
		d.logger.Warn("dropping Kubernetes events: the API server is too slow", "dropped", n)
	}
}

func (r *reporter) report(e decide.Report) {
	select {
	case r.queue <- waitingReport{Report: e, since: time.Now()}:
		r.pace.nudge()
	default:
		r.drops.add()
	}
}

// run emits events until ctx ends. The broadcaster's goroutines begin and end here.
func (r *reporter) run(ctx context.Context) error {
	sink := &boundedSink{
		EventSink: &events.EventSinkImpl{Interface: r.client.EventsV1()},
		slots:     make(chan struct{}, eventWriters),
		queue:     make(chan struct{}, eventWriters+sinkWaiting),
		drops:     r.drops,
		pace:      r.pace,
	}
	once := newOnceWriter(sink, r.drops)
	defer once.end()
	broadcaster := events.NewBroadcaster(&librarySink{boundedSink: sink, handed: r.handed})
	defer broadcaster.Shutdown()
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		return fmt.Errorf("binder: events: %w", err)
	}
	recorders := map[string]events.EventRecorder{} // by scheduler name
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-r.queue:
			if !r.pace.wait(ctx, e.since, r.waiting) {
				return nil
			}
			if e.Once {
				once.start(ctx, e)
				continue
			}
			if !r.handed.wait(ctx) {
				return nil
			}
			rec, ok := recorders[e.SchedulerName]
			if !ok {
				rec = broadcaster.NewRecorder(scheme.Scheme, e.SchedulerName)
				recorders[e.SchedulerName] = rec
			}
			emit(rec, e.Report)
		}
	}
}

// waiting returns and reports how many events wait.
func (r *reporter) waiting() int {
	n := len(r.queue)
	telemetry.EventsWaiting(r.member, n)
	return n
}

// emit hands one event about a pod to the broadcaster, on behalf of the pod's scheduler.
func emit(rec events.EventRecorder, e decide.Report) {
	var related runtime.Object
	if e.Related.UID != "" {
		related = objectOf(e.Related)
	}
	// The note is an argument, not the format, because reasons may contain a percent sign.
	rec.Eventf(objectOf(e.Pod), related, e.Type, e.Reason, e.Action, "%s", cut(e.Note))
}

func objectOf(p podevents.PodRef) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: "v1", Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: types.UID(p.UID),
	}
}

// cut shortens a note to what the API server accepts, at a character boundary.
func cut(note string) string {
	if len(note) <= noteLimit {
		return note
	}
	end := noteLimit - len(noteCut)
	for end > 0 && !utf8.RuneStart(note[end]) {
		end--
	}
	return note[:end] + noteCut
}

// boundedSink limits how many events are written at once and how many wait for that.
type boundedSink struct {
	events.EventSink
	slots, queue chan struct{}
	drops        *drops
	pace         *pace
}

// enter waits for a slot. It reports false if too many events wait or ctx ended.
func (s *boundedSink) enter(ctx context.Context) (leave func(), ok bool) {
	select {
	case s.queue <- struct{}{}:
	default:
		s.drops.add()
		return nil, false
	}
	end := s.pace.write()
	select {
	case s.slots <- struct{}{}:
		return func() { <-s.slots; <-s.queue; end() }, true
	case <-ctx.Done():
		<-s.queue
		end()
		return nil, false
	}
}

// Create implements events.EventSink. A dropped event returns no error, because an error would be retried.
func (s *boundedSink) Create(ctx context.Context, e *eventsv1.Event) (*eventsv1.Event, error) {
	return s.bounded(ctx, func(ctx context.Context) (*eventsv1.Event, error) { return s.EventSink.Create(ctx, e) })
}

// Patch implements events.EventSink.
func (s *boundedSink) Patch(ctx context.Context, e *eventsv1.Event, data []byte) (*eventsv1.Event, error) {
	return s.bounded(ctx, func(ctx context.Context) (*eventsv1.Event, error) { return s.EventSink.Patch(ctx, e, data) })
}

func (s *boundedSink) bounded(
	ctx context.Context, write func(ctx context.Context) (*eventsv1.Event, error),
) (*eventsv1.Event, error) {
	leave, ok := s.enter(ctx)
	if !ok {
		return nil, nil
	}
	defer leave()
	wctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	written, err := write(wctx)
	if ctx.Err() != nil {
		return nil, nil // the binder stops: events still in flight are dropped like any other
	}
	return written, err
}

// librarySink is the sink that client-go writes to.
type librarySink struct {
	*boundedSink
	handed handed
}

// Create implements events.EventSink.
func (s *librarySink) Create(ctx context.Context, e *eventsv1.Event) (*eventsv1.Event, error) {
	s.handed.begun()
	return s.boundedSink.Create(ctx, e)
}

// Patch implements events.EventSink.
func (s *librarySink) Patch(ctx context.Context, e *eventsv1.Event, data []byte) (*eventsv1.Event, error) {
	s.handed.begun()
	return s.boundedSink.Patch(ctx, e, data)
}
