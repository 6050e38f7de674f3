package main

import (
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const (
	// histogramMax and histogramDigits bound the latencies: an hour, to three digits.
	histogramMax    = time.Hour
	histogramDigits = 3
	// curvePoints is about how many points a curve has.
	curvePoints = 100
)

// latency is percentiles in milliseconds.
type latency struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, histogramMax.Microseconds(), histogramDigits)
}

// record counts one latency. A pod that was first seen bound took less than a tick of the clock.
func record(h *hdrhistogram.Histogram, took time.Duration) {
	_ = h.RecordValue(min(max(1, took.Microseconds()), histogramMax.Microseconds())) // in range
}

func percentiles(h *hdrhistogram.Histogram) latency {
	millis := func(quantile float64) float64 { return float64(h.ValueAtQuantile(quantile)) / 1000 }
	return latency{P50: millis(50), P90: millis(90), P99: millis(99), Max: float64(h.Max()) / 1000}
}

// distribution is the percentage of latencies up to so many milliseconds.
func distribution(h *hdrhistogram.Histogram) [][2]float64 {
	points := make([][2]float64, 0, curvePoints)
	for q := 1; q <= curvePoints; q++ {
		percent := float64(q) * 100 / curvePoints
		points = append(points, [2]float64{float64(h.ValueAtQuantile(percent)) / 1000, percent})
	}
	return points
}

// curve is how many of the moments, in seconds, have passed at some of them. It sorts them.
func curve(at []float64) [][2]float64 {
	slices.Sort(at)
	step := max(1, len(at)/curvePoints)
	points := [][2]float64{{0, 0}}
	for i := step - 1; i < len(at); i += step {
		points = append(points, [2]float64{at[i], float64(i + 1)})
	}
	if n := len(at); n%step != 0 {
		points = append(points, [2]float64{at[n-1], float64(n)})
	}
	return points
}
