package commit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// scheduled is the report of the bind of a workload's nth pod; of a pod without a controller if workload is empty.
func scheduled(workload string, n int) effect.Report {
	e := aReport().Report
	e.Pod.Name, e.Pod.UID = fmt.Sprint(workload, "-", n), fmt.Sprint(workload, "-", n, "-uid")
	e.Note, e.Related.UID = "Successfully assigned ns/"+e.Pod.Name+" to n", ""
	if workload != "" {
		e.Workload = &metav1.OwnerReference{
			APIVersion: "apps/v1", Kind: "ReplicaSet", Name: workload, UID: types.UID(workload + "-uid"),
		}
	}
	return e
}

// failure is the report of something that is always written.
func failure(reason string) effect.Report {
	e := aReport().Report
	e.Once, e.Type, e.Reason, e.Note = false, corev1.EventTypeWarning, reason, "0/3 nodes are available"
	return e
}

// reporting starts a reporter under a policy, in the bubble of the test, and returns it with its sink.
func reporting(t *testing.T, policy Scheduled) (*reporter, *answers) {
	t.Helper()
	sink := &answers{written: make(chan *eventsv1.Event, 10_000)}
	r := reporterTo(sink)
	r.scheduled = policy
	done := make(chan error)
	go func() { done <- r.run(t.Context()) }()
	t.Cleanup(func() {
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return r, sink
}

// summary names what was written: the object, the reason, and the count of a series.
func summary(sink *answers) []string {
	synctest.Wait()
	var out []string
	for len(sink.written) > 0 {
		e := <-sink.written
		line := fmt.Sprintf("%s %s %s", e.Regarding.Kind, e.Regarding.Name, e.Reason)
		if e.Series != nil {
			line += fmt.Sprint(" x", e.Series.Count)
		}
		out = append(out, line)
	}
	return out
}

// Of ten pods of one workload, three of another, one without and two failures, each policy writes what it says.
func TestPoliciesForEventsOfBinds(t *testing.T) {
	all := []string{}
	for n := range 10 {
		all = append(all, fmt.Sprintf("Pod web-%d Scheduled", n))
	}
	for n := range 3 {
		all = append(all, fmt.Sprintf("Pod db-%d Scheduled", n))
	}
	failures := []string{"Pod p FailedScheduling", "Pod p Preempted"}
	for policy, want := range map[Scheduled][]string{
		"":           append(append(all[:13:13], "Pod -0 Scheduled"), failures...),
		ScheduledAll: append(append(all[:13:13], "Pod -0 Scheduled"), failures...),
		ScheduledAggregated: append(
			[]string{"ReplicaSet web Scheduled", "ReplicaSet db Scheduled", "Pod -0 Scheduled"}, failures...),
		ScheduledNone: failures,
	} {
		t.Run(string(policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, sink := reporting(t, policy)
				for n := range 10 {
					r.report(scheduled("web", n))
				}
				for n := range 3 {
					r.report(scheduled("db", n))
				}
				r.report(scheduled("", 0))
				r.report(failure("FailedScheduling"))
				r.report(failure("Preempted"))
				if diff := cmp.Diff(sorted(want), sorted(summary(sink))); diff != "" {
					t.Errorf("events (-want +got):\n%s", diff)
				}
				time.Sleep(countEvery + burstGap)
				counts := []string(nil)
				if policy == ScheduledAggregated {
					counts = []string{"ReplicaSet db Scheduled x3", "ReplicaSet web Scheduled x10"}
				}
				if diff := cmp.Diff(counts, sorted(summary(sink))); diff != "" {
					t.Errorf("counts (-want +got):\n%s", diff)
				}
				time.Sleep(time.Hour)
				if late := summary(sink); len(late) > 0 || len(r.bursts.mu.workloads) > 0 {
					t.Errorf("%v written later, and %d bursts kept", late, len(r.bursts.mu.workloads))
				}
			})
		})
	}
}

func sorted(lines []string) []string { return slices.Sorted(slices.Values(lines)) }

// The event of a burst is about the workload, in the pod's namespace, and says which pod was the first.
func TestEventOfABurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, sink := reporting(t, ScheduledAggregated)
		begin := time.Now()
		r.report(scheduled("web", 0))
		synctest.Wait()
		first := <-sink.written
		want := corev1.ObjectReference{
			APIVersion: "apps/v1", Kind: "ReplicaSet", Namespace: "ns", Name: "web", UID: "web-uid",
		}
		const note = "Successfully assigned ns/web-0 to n; the series counts further pods of ReplicaSet web"
		if first.Regarding != want || first.Note != note || first.Series != nil || !strings.HasPrefix(first.Name, "web.") ||
			first.Namespace != "ns" || first.Reason != "Scheduled" || !first.EventTime.Time.Equal(begin) {
			t.Errorf("first event: %+v", first)
		}
		time.Sleep(time.Second)
		r.report(scheduled("web", 1))
		time.Sleep(countEvery)
		synctest.Wait()
		series := <-sink.written
		if s := series.Series; s == nil || s.Count != 2 || !s.LastObservedTime.Time.Equal(begin.Add(time.Second)) ||
			series.Name != first.Name || len(sink.patches) != 1 {
			t.Errorf("%d patches; second write: %+v", len(sink.patches), series)
		}
	})
}

// A workload whose name leaves no room for an event's name has one event all the same.
func TestBurstOfALongName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, sink := reporting(t, ScheduledAggregated)
		for n := range 3 {
			r.report(scheduled(strings.Repeat("x", 253), n))
		}
		time.Sleep(2 * countEvery)
		synctest.Wait()
		if len(sink.written) != 2 || len(sink.patches) != 1 {
			t.Fatalf("%d writes, %d patches, want two and one", len(sink.written), len(sink.patches))
		}
		if first, second := <-sink.written, <-sink.written; first.Name != second.Name || len(first.Name) > 253 {
			t.Errorf("events %q and %q", first.Name, second.Name)
		}
	})
}

// A burst ends when no pod has been bound for burstGap; while pods are bound, its count grows.
func TestBurstsEndWithAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, sink := reporting(t, ScheduledAggregated)
		for n := range 10 {
			r.report(scheduled("web", n))
			time.Sleep(burstGap - time.Second)
		}
		got := summary(sink)
		const name = "ReplicaSet web Scheduled"
		if got[0] != name || got[len(got)-1] != name+" x10" {
			t.Errorf("ten pods with short pauses: %q", got)
		}
		time.Sleep(burstGap)
		r.report(scheduled("web", 10))
		if diff := cmp.Diff([]string{"ReplicaSet web Scheduled"}, summary(sink)); diff != "" {
			t.Errorf("after a long pause (-want +got):\n%s", diff)
		}
	})
}

// Two schedulers, or two namespaces, have bursts of their own, also for workloads of one UID.
func TestBurstsAreByWorkload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, sink := reporting(t, ScheduledAggregated)
		for range 2 {
			e := scheduled("web", 0)
			r.report(e)
			e.SchedulerName = "another"
			r.report(e)
			e.Pod.Namespace = "other"
			r.report(e)
		}
		if got := summary(sink); len(got) != 3 {
			t.Errorf("%q, want three events", got)
		}
		time.Sleep(2 * countEvery)
		for _, line := range summary(sink) {
			if line != "ReplicaSet web Scheduled x2" {
				t.Error(line)
			}
		}
	})
}

// What is only counted waits for no turn: pods beyond the first of a burst fill no queue while binds take the API
// server, and every one of them is in the count.
func TestCountedEventsDoNotWait(t *testing.T) {
	const pods = 2 * eventQueueSize
	synctest.Test(t, func(t *testing.T) {
		r, sink := reporting(t, ScheduledAggregated)
		r.report(scheduled("web", 0))
		synctest.Wait()
		for range busyFrom {
			defer r.pace.change()()
		}
		for n := 1; n < pods; n++ {
			r.report(scheduled("web", n))
		}
		synctest.Wait()
		if n, dropped := len(r.queue), r.drops.count.Load(); n != 0 || dropped != 0 {
			t.Errorf("%d events wait, %d are dropped", n, dropped)
		}
		for _, b := range r.bursts.mu.workloads {
			if b.count != pods {
				t.Errorf("%d counted, want %d", b.count, pods)
			}
		}
		if got := summary(sink); len(got) != 1 {
			t.Errorf("%q written", got)
		}
	})
}

// While the API server lets no event through, a count that is not written goes on growing, and is written once.
func TestCountsSurviveABusyServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, sink := reporting(t, ScheduledAggregated)
		r.report(scheduled("web", 0))
		synctest.Wait()
		var ends []func()
		for range eventWriters {
			ends = append(ends, r.pace.write())
		}
		for n := 1; n < 4; n++ {
			r.report(scheduled("web", n))
			time.Sleep(3 * burstGap)
		}
		if got := summary(sink); len(got) != 1 {
			t.Errorf("%q written while all writers wait for the API server", got)
		}
		for _, end := range ends {
			end()
		}
		time.Sleep(2 * countEvery)
		got := summary(sink)
		if last := got[len(got)-1]; last != "ReplicaSet web Scheduled x4" || len(got) > 2 {
			t.Errorf("%q, want one count of 4", got)
		}
	})
}

// Beyond the bound on workloads the pods of others have an event each, until bursts have ended.
func TestBurstsAreBounded(t *testing.T) {
	b := newBursts()
	now := time.Unix(1, 0)
	add := func(workload string) (burst string, counted bool) {
		e, counted := b.add(waitingReport{Report: scheduled(workload, 0), since: now})
		return e.burst, counted
	}
	for n := range maxBursts {
		add(fmt.Sprint("w", n))
	}
	for range 2 {
		if burst, counted := add("another"); burst != "" || counted {
			t.Errorf("a workload beyond the bound: burst %q, counted %v, want an event of the pod", burst, counted)
		}
	}
	if burst, counted := add("w0"); burst != "" || !counted {
		t.Errorf("a workload within the bound: burst %q, counted %v, want that it is counted", burst, counted)
	}
	now = now.Add(burstGap)
	b.due(now)
	if burst, counted := add("another"); burst == "" || counted || len(b.mu.workloads) != 2 {
		t.Errorf("after the others have ended: burst %q, counted %v, %d kept", burst, counted, len(b.mu.workloads))
	}
}

func TestValidPolicies(t *testing.T) {
	for _, s := range []Scheduled{"", "all", "aggregated", "none"} {
		if err := s.Validate(); err != nil {
			t.Errorf("%q: %v", s, err)
		}
	}
	for _, s := range []Scheduled{"All", "some", "all,none", " "} {
		if err := s.Validate(); err == nil || !strings.HasSuffix(err.Error(), ": want all, aggregated or none") {
			t.Errorf("%q: %v", s, err)
		}
	}
}

// blackout is an API server that gives no answer for a while. It keeps the last count that it got.
type blackout struct {
	answers
	mu    sync.Mutex
	dark  bool
	count int32
}

func (b *blackout) Create(_ context.Context, e *eventsv1.Event) (*eventsv1.Event, error) {
	return e, b.take(0)
}

func (b *blackout) Patch(_ context.Context, e *eventsv1.Event, _ []byte) (*eventsv1.Event, error) {
	return e, b.take(e.Series.Count)
}

func (b *blackout) take(count int32) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.dark {
		return errors.New("connection refused")
	}
	b.count = count
	return nil
}

func (b *blackout) set(dark bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dark = dark
}

// Counts that are written while the API server gives no answer do not overtake each other, however long that takes: the
// server ends with the last count.
func TestCountsDoNotGoBack(t *testing.T) {
	for _, darkFor := range []time.Duration{15 * time.Second, 10 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			server := &blackout{}
			r := reporterTo(server)
			r.scheduled = ScheduledAggregated
			done := make(chan error)
			go func() { done <- r.run(ctx) }()
			r.report(scheduled("web", 0))
			synctest.Wait()
			server.set(true)
			const pods = 50
			for n := 1; n < pods; n++ {
				r.report(scheduled("web", n))
				time.Sleep(time.Second)
			}
			time.Sleep(darkFor)
			server.set(false)
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			if server.count != pods {
				t.Errorf("after %v without an answer the count is %d, want %d", darkFor, server.count, pods)
			}
			if n := len(r.bursts.mu.workloads); n != 0 {
				t.Errorf("%d bursts do not end", n)
			}
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

// Counts are written although the API server is busy and other events come all the time.
func TestCountsAreWrittenBetweenEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, sink := reporting(t, ScheduledAggregated)
		r.report(scheduled("web", 0))
		r.report(scheduled("web", 1))
		synctest.Wait()
		for range busyFrom {
			defer r.pace.change()()
		}
		for begin := time.Now(); time.Since(begin) < 2*countEvery; time.Sleep(5 * time.Second) {
			r.report(failure("FailedScheduling"))
		}
		if got := summary(sink); !slices.Contains(got, "ReplicaSet web Scheduled x2") {
			t.Errorf("%q: the count is not among them", got)
		}
	})
}
