package e2e

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-scheduler/berth/test/perf/bench"
)

// arrivals is how many creations may be under way. A slow moment of the API server causes many of them, which must
// not delay later ones; a limit far above that would measure memory.
const arrivals = 512

// arrival is how pods arrived in mode open, and whether the requested rate was achieved.
type arrival struct {
	// Rate is the requested rate, Arrived the rate at which the watch saw pods appear, per second.
	Rate    float64 `json:"rate"`
	Arrived float64 `json:"arrived"`
	// BehindSeconds is from the last appearance to the last bind: what piles up when it is more
	// than a latency.
	BehindSeconds float64 `json:"behindSeconds"`
	// SinceDue is from the moment a pod should have been created, whatever the API server's state, to its bind.
	SinceDue bench.Latency `json:"sinceDueMillis"`
}

// createAt creates pods at a rate per second, each when it is due, and returns when each was due. It returns once all
// exist.
func createAt(
	ctx context.Context, client kubernetes.Interface, pods []*corev1.Pod, rate float64,
) (map[string]time.Time, error) {
	due := make(map[string]time.Time, len(pods))
	group, creating := errgroup.WithContext(ctx)
	group.SetLimit(arrivals)
	begin, timer := time.Now(), time.NewTimer(0)
	defer timer.Stop()
	for i, pod := range pods {
		at := begin.Add(time.Duration(float64(i) / rate * float64(time.Second)))
		due[pod.Name] = at
		timer.Reset(time.Until(at))
		select {
		case <-timer.C:
		case <-creating.Done():
			return nil, group.Wait()
		}
		group.Go(func() error {
			_, err := client.CoreV1().Pods(pod.Namespace).Create(creating, pod, metav1.CreateOptions{})
			if err != nil {
				return fmt.Errorf("create pod %s/%s: %w", pod.Namespace, pod.Name, err)
			}
			return nil
		})
	}
	return due, group.Wait()
}

// arrival returns how the pods arrived that were due at these times, in a run that began at begin; nil when none
// was due.
func (p podTimes) arrival(due map[string]time.Time, begin time.Time) *arrival {
	if len(due) == 0 {
		return nil
	}
	latencies := bench.NewLatencies()
	lastDue, lastAppeared, lastBound := begin, begin, begin
	for name, pod := range p {
		latencies.Record(pod.Bound.Sub(due[name]))
		lastDue = later(lastDue, due[name])
		lastAppeared = later(lastAppeared, pod.Appeared)
		lastBound = later(lastBound, pod.Bound)
	}
	a := &arrival{SinceDue: latencies.Percentiles(), BehindSeconds: lastBound.Sub(lastAppeared).Seconds()}
	if n := float64(len(p) - 1); n > 0 {
		a.Rate, a.Arrived = n/lastDue.Sub(begin).Seconds(), n/lastAppeared.Sub(begin).Seconds()
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
