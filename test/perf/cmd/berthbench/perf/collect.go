package perf

import (
	"errors"
	"time"

	"github.com/berth-scheduler/berth/test/e2e/harness"
	"github.com/berth-scheduler/berth/test/perf/bench"
)

// collection is a measurement between two moments, of the pods of some namespaces.
type collection struct {
	stage      *stage
	namespaces []string
	begin      time.Time
	cpu        time.Duration
	// before are the pods that were bound already.
	before map[string]map[string]bench.SeenPod
}

func (s *stage) collect(namespaces []string) (*collection, error) {
	if len(namespaces) == 0 {
		return nil, errors.New("namespaces: want at least one")
	}
	cpu, err := harness.CPUTime(s.PIDs...)
	if err != nil {
		return nil, err
	}
	c := &collection{stage: s, namespaces: namespaces, begin: time.Now(), cpu: cpu}
	c.before = map[string]map[string]bench.SeenPod{}
	for _, n := range namespaces {
		c.before[n] = s.pods.Pods(n)
	}
	return c, nil
}

// finish adds the pods bound since then to the result. A workload that collects several times is reported as the sum
// of the times and the pods, with the latencies of the last.
func (c *collection) finish(r *result) error {
	cpu, err := harness.CPUTime(c.stage.PIDs...)
	if err != nil {
		return err
	}
	last, pods := c.begin, 0
	latencies := bench.NewLatencies()
	for _, n := range c.namespaces {
		for name, p := range c.stage.pods.Pods(n) {
			if _, stood := c.before[n][name]; stood {
				continue
			}
			pods++
			if p.Bound.After(last) {
				last = p.Bound
			}
			latencies.Record(p.Bound.Sub(p.Appeared))
		}
	}
	r.Pods += pods
	r.WallSeconds += last.Sub(c.begin).Seconds()
	r.CPUSeconds += (cpu - c.cpu).Seconds()
	r.PodsPerSecond = float64(r.Pods) / r.WallSeconds
	took := latencies.Percentiles()
	r.P50Millis, r.P99Millis = took.P50, took.P99
	return nil
}
