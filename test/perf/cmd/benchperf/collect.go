package main

import (
	"errors"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/berth-scheduler/berth/test/e2e/harness"
)

const (
	// histogramMax and histogramDigits bound the latencies: an hour, to three digits.
	histogramMax    = time.Hour
	histogramDigits = 3
)

// collection is what goes on between two moments in some namespaces.
type collection struct {
	stage      *stage
	namespaces []string
	begin      time.Time
	cpu        time.Duration
	// before are the pods that were bound already.
	before map[string]map[string]seenPod
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
	c.before = map[string]map[string]seenPod{}
	for _, n := range namespaces {
		c.before[n] = s.pods.boundIn(n)
	}
	return c, nil
}

// finish adds what was bound since to the result. A workload that collects several times is
// reported as the sum of the times and the pods, with the latencies of the last.
func (c *collection) finish(r *result) error {
	cpu, err := harness.CPUTime(c.stage.PIDs...)
	if err != nil {
		return err
	}
	last, pods := c.begin, 0
	histogram := hdrhistogram.New(1, histogramMax.Microseconds(), histogramDigits)
	for _, n := range c.namespaces {
		for name, p := range c.stage.pods.boundIn(n) {
			if _, stood := c.before[n][name]; stood {
				continue
			}
			pods++
			if p.bound.After(last) {
				last = p.bound
			}
			// A pod that was first seen bound took less than a tick of the clock.
			_ = histogram.RecordValue(max(1, p.bound.Sub(p.appeared).Microseconds())) // in range by histogramMax
		}
	}
	r.Pods += pods
	r.WallSeconds += last.Sub(c.begin).Seconds()
	r.CPUSeconds += (cpu - c.cpu).Seconds()
	r.PodsPerSecond = float64(r.Pods) / r.WallSeconds
	r.P50Millis = float64(histogram.ValueAtQuantile(50)) / 1000
	r.P99Millis = float64(histogram.ValueAtQuantile(99)) / 1000
	return nil
}
