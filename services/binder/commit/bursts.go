package commit

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record/util"
)

// Scheduled is a policy for the events of successful binds, those with reason Scheduled. All other events, such as
// FailedScheduling and Preempted, are written whatever it is.
type Scheduled string

const (
	// ScheduledAll writes an event for each pod, as kube-scheduler does.
	ScheduledAll Scheduled = "all"
	// ScheduledAggregated writes an event for each burst of a workload (see bursts), and one for each pod without a
	// controller.
	ScheduledAggregated Scheduled = "aggregated"
	// ScheduledNone writes none.
	ScheduledNone Scheduled = "none"
)

// Validate returns an error if s is no policy. The empty string stands for ScheduledAll.
func (s Scheduled) Validate() error {
	switch s {
	case "", ScheduledAll, ScheduledAggregated, ScheduledNone:
		return nil
	}
	return fmt.Errorf("%q: want %s, %s or %s", string(s), ScheduledAll, ScheduledAggregated, ScheduledNone)
}

const (
	// burstGap is for how long no pod of a workload has been bound when a burst ends: longer than a controller pauses
	// between two batches of pods.
	burstGap = time.Minute
	// countEvery is how often counts that have grown are written.
	countEvery = 30 * time.Second
	// maxBursts bounds the memory for bursts: 10 to 15 MB. The pods of further workloads have an event each.
	maxBursts = 20_000
)

// bursts counts the binds of workloads under ScheduledAggregated. A burst is a sequence of binds of one controller's
// pods, of one scheduler name, without a gap of burstGap. It has one event, about the controller. The event is created
// at the first bind, and names that pod; from the second on it is an events.k8s.io/v1 series, whose count is that of
// the pods, and whose time is that of the last bind. The count is written every countEvery while it grows, so that a
// short burst costs the API server two requests.
//
// The pods of one workload belong to several binders, each of which counts its own. It is safe for concurrent use.
type bursts struct {
	mu struct {
		sync.Mutex
		workloads map[burstKey]*burst
	}
}

// burstKey identifies a workload. Its scheduler name is the reportingController of its event.
type burstKey struct{ namespace, uid, scheduler string }

// burst is a burst that has not ended, or whose last count is not written.
type burst struct {
	// first is the report from which the event is made; last is when the last pod was bound.
	first waitingReport
	last  time.Time
	// count is that of the pods; written is what of it the API server has. While one count is being written, no other
	// one is: the server would keep the one that it gets last, which may be the smaller.
	count, written int32
	writing        bool
}

func newBursts() *bursts {
	b := &bursts{}
	b.mu.workloads = map[burstKey]*burst{}
	return b
}

// ended reports whether the next bind begins another burst. A burst does not end before its count is written.
func (b *burst) ended(now time.Time) bool { return b.count == b.written && now.Sub(b.last) >= burstGap }

// add adds a bind, whose report has a Workload, and reports whether it is only counted. Otherwise the result is to be
// written; it names the event of the burst that begins with it, if one does.
func (b *bursts) add(e waitingReport) (out waitingReport, counted bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := burstKey{e.Pod.Namespace, string(e.Workload.UID), e.SchedulerName}
	known, ok := b.mu.workloads[key]
	if ok && !known.ended(e.since) {
		known.count++
		known.last = e.since
		return e, true
	}
	if !ok && len(b.mu.workloads) >= maxBursts {
		return e, false
	}
	// A name that is too long is replaced by a random one, so it is made once.
	e.burst = util.GenerateEventName(e.Workload.Name, e.since.UnixNano())
	b.mu.workloads[key] = &burst{first: e, last: e.since, count: 1, written: 1}
	return e, false
}

// due drops the bursts that have ended, and returns those whose counts are to be written, those of the longest quiet
// first.
func (b *bursts) due(now time.Time) []burstKey {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []burstKey
	for k, known := range b.mu.workloads {
		switch {
		case known.writing:
		case known.count > known.written:
			out = append(out, k)
		case known.ended(now):
			delete(b.mu.workloads, k)
		}
	}
	slices.SortFunc(out, func(x, y burstKey) int {
		return cmp.Or(b.mu.workloads[x].last.Compare(b.mu.workloads[y].last),
			cmp.Compare(x.namespace, y.namespace), cmp.Compare(x.uid, y.uid), cmp.Compare(x.scheduler, y.scheduler))
	})
	return out
}

// counted returns the first report of a burst, and the series that is to be written for it now; nil if the API server
// has it.
func (b *bursts) counted(k burstKey) (waitingReport, *eventsv1.EventSeries) {
	b.mu.Lock()
	defer b.mu.Unlock()
	known, ok := b.mu.workloads[k]
	if !ok || known.writing || known.count == known.written {
		return waitingReport{}, nil
	}
	known.writing = true
	return known.first, &eventsv1.EventSeries{Count: known.count, LastObservedTime: metav1.NewMicroTime(known.last)}
}

// settled ends the write of a count that counted has returned. A count that the API server has not answered is due
// again.
func (b *bursts) settled(k burstKey, count int32, answered bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if known, ok := b.mu.workloads[k]; ok {
		known.writing = false
		if answered {
			known.written = count
		}
	}
}

// ofWorkload changes the event of a pod to that of the burst that begins with it.
func ofWorkload(event *eventsv1.Event, e waitingReport) {
	w := e.Workload
	event.Name = e.burst
	event.Regarding = corev1.ObjectReference{
		APIVersion: w.APIVersion, Kind: w.Kind, Namespace: e.Pod.Namespace, Name: w.Name, UID: w.UID,
	}
	event.Note = truncate(fmt.Sprintf("%s; the series counts further pods of %s %s", e.Note, w.Kind, w.Name))
}
