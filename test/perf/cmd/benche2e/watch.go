package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/berth-scheduler/berth/test/e2e/harness"
)

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
	histogram := newHistogram()
	at := make([]float64, 0, len(p.bound))
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
		record(histogram, bound.Sub(from))
		at = append(at, bound.Sub(begin).Seconds())
	}
	r.WallSeconds = last.Sub(begin).Seconds()
	r.BindSeconds = last.Sub(first).Seconds()
	r.PodsPerSecond = float64(r.Pods) / r.WallSeconds
	if r.Mode == drain {
		r.PodsPerSecond = float64(r.Pods) / r.BindSeconds
	}
	r.Latency, r.Distribution, r.Curve = percentiles(histogram), distribution(histogram), curve(at)
}
