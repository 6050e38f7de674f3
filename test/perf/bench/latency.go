package bench

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const (
	// LongestLatency and latencyDigits bound the latencies: an hour, to three digits.
	LongestLatency = time.Hour
	latencyDigits  = 3
	// Points is about how many points a curve has.
	Points = 100
)

// Latencies counts latencies.
type Latencies struct{ histogram *hdrhistogram.Histogram }

// Latency is percentiles in milliseconds.
type Latency struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// NewLatencies returns an empty count.
func NewLatencies() Latencies {
	return Latencies{hdrhistogram.New(1, LongestLatency.Microseconds(), latencyDigits)}
}

// Record counts one latency. A pod that was first seen bound took less than a tick of the clock.
func (l Latencies) Record(took time.Duration) {
	_ = l.histogram.RecordValue(min(max(1, took.Microseconds()), LongestLatency.Microseconds())) // in range
}

func (l Latencies) millis(percent float64) float64 {
	return float64(l.histogram.ValueAtQuantile(percent)) / 1000
}

// Percentiles returns those that reports have.
func (l Latencies) Percentiles() Latency {
	return Latency{P50: l.millis(50), P90: l.millis(90), P99: l.millis(99), Max: float64(l.histogram.Max()) / 1000}
}

// Distribution returns which percentage of the latencies is at most so many milliseconds.
func (l Latencies) Distribution() [][2]float64 {
	points := make([][2]float64, 0, Points)
	for q := 1; q <= Points; q++ {
		percent := float64(q) * 100 / Points
		points = append(points, [2]float64{l.millis(percent), percent})
	}
	return points
}
