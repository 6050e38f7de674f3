package e2e

import (
	"slices"
	"time"

	"github.com/berth-scheduler/berth/test/perf/bench"
)

// podTimes is when the measured pods appeared and were bound, by name.
type podTimes map[string]bench.SeenPod

// fill computes the times of a run that began at begin.
func (p podTimes) fill(r *result, begin time.Time) {
	first, last := begin.Add(bench.LongestLatency), begin
	latencies := bench.NewLatencies()
	at := make([]float64, 0, len(p))
	for _, pod := range p {
		if pod.Bound.Before(first) {
			first = pod.Bound
		}
		last = later(last, pod.Bound)
		from := begin
		if r.Mode != drain {
			from = pod.Appeared
		}
		latencies.Record(pod.Bound.Sub(from))
		at = append(at, pod.Bound.Sub(begin).Seconds())
	}
	r.WallSeconds = last.Sub(begin).Seconds()
	r.BindSeconds = last.Sub(first).Seconds()
	r.PodsPerSecond = float64(r.Pods) / r.WallSeconds
	if r.Mode == drain {
		r.PodsPerSecond = float64(r.Pods) / r.BindSeconds
	}
	r.Latency, r.Distribution, r.Curve = latencies.Percentiles(), latencies.Distribution(), curve(at)
}

// curve returns how many of the moments, in seconds, have passed at some of them. It sorts them.
func curve(at []float64) [][2]float64 {
	slices.Sort(at)
	step := max(1, len(at)/bench.Points)
	points := [][2]float64{{0, 0}}
	for i := step - 1; i < len(at); i += step {
		points = append(points, [2]float64{at[i], float64(i + 1)})
	}
	if n := len(at); n%step != 0 {
		points = append(points, [2]float64{at[n-1], float64(n)})
	}
	return points
}
