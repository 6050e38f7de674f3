package main

import (
	"context"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/berth-scheduler/berth/test/e2e/harness"
)

const (
	// histogramMax and histogramDigits bound the latencies: an hour, to three digits.
	histogramMax    = time.Hour
	histogramDigits = 3
)

// latency is percentiles in milliseconds.
type latency struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// podWatch notes when it sees pods appear and be bound. One goroutine writes; the fields are
// read after wait.
type podWatch struct {
	want     int
	watch    watch.Interface
	appeared map[string]time.Time
	bound    map[string]time.Time
	// done is closed when want pods are bound, or the watch ended before.
	done chan struct{}
}

// watchPods follows the pods that are measured.
func watchPods(ctx context.Context, access *rest.Config, want int) (*podWatch, error) {
	w, err := harness.WatchPods(ctx, access, namespace)
	if err != nil {
		return nil, err
	}
	p := &podWatch{
		want: want, watch: w, done: make(chan struct{}),
		appeared: map[string]time.Time{}, bound: map[string]time.Time{},
	}
	go p.follow()
	return p, nil
}

func (p *podWatch) follow() {
	defer close(p.done)
	for event := range p.watch.ResultChan() {
		now := time.Now()
		pod, ok := event.Object.(*corev1.Pod)
		if !ok {
			continue
		}
		if _, known := p.appeared[pod.Name]; !known {
			p.appeared[pod.Name] = now
		}
		if _, known := p.bound[pod.Name]; pod.Spec.NodeName != "" && !known {
			p.bound[pod.Name] = now
		}
		if len(p.bound) == p.want {
			return
		}
	}
}

// wait returns when every pod is bound. After an error the fields may still be written to.
func (p *podWatch) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return fmt.Errorf("not every pod is bound: %w", ctx.Err())
	case <-p.done:
	}
	if len(p.bound) < p.want {
		return fmt.Errorf("the watch ended with %d of %d pods bound", len(p.bound), p.want)
	}
	return nil
}

// stop ends the watch and its goroutine.
func (p *podWatch) stop() {
	p.watch.Stop()
	<-p.done
}

// fill computes the times of a run that began at begin; only after wait.
func (p *podWatch) fill(r *result, begin time.Time) {
	first, last := begin.Add(histogramMax), begin
	histogram := hdrhistogram.New(1, histogramMax.Microseconds(), histogramDigits)
	for name, bound := range p.bound {
		if bound.Before(first) {
			first = bound
		}
		if bound.After(last) {
			last = bound
		}
		from := begin
		if r.Mode != drain {
			from = p.appeared[name]
		}
		// A pod that was first seen bound took less than a tick of the clock.
		_ = histogram.RecordValue(max(1, bound.Sub(from).Microseconds())) // in range by histogramMax
	}
	r.WallSeconds = last.Sub(begin).Seconds()
	r.BindSeconds = last.Sub(first).Seconds()
	r.PodsPerSecond = float64(r.Pods) / r.WallSeconds
	if r.Mode == drain {
		r.PodsPerSecond = float64(r.Pods) / r.BindSeconds
	}
	millis := func(quantile float64) float64 { return float64(histogram.ValueAtQuantile(quantile)) / 1000 }
	r.Latency = latency{P50: millis(50), P90: millis(90), P99: millis(99), Max: float64(histogram.Max()) / 1000}
}
