package main

import (
	"context"
	"fmt"
	"runtime"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/placement/placementbench"
	"github.com/berth-scheduler/berth/pkg/state"
)

// contender preempts for pods one at a time.
type contender interface {
	// accept adds the next pod, as its arrival would.
	accept(pod *corev1.Pod) error
	// preempt places that pod, and returns how many victims that took.
	preempt(ctx context.Context) (victims int, err error)
}

// warmup attempts of kube-scheduler are not counted. All of ours are, the first of each class
// included.
const warmup = 5

// ourBoxes is how many times the processor time of a run of kube-scheduler ours may take.
const ourBoxes = 4

// figures are the result of one run.
type figures struct {
	placed, victims int
	processor       time.Duration
}

func (f figures) rate() float64 { return float64(f.placed) / f.processor.Seconds() }

func (f figures) victimsEach() float64 { return float64(f.victims) / float64(f.placed) }

// row is the result of one workload.
type row struct {
	title              string
	ours, sampled, all figures
}

// String is a line of the table.
func (r row) String() string {
	return fmt.Sprintf("| %s | %.0f/s | %.1f/s | %.0fx | %.1f/s | %.0fx | %.2f, %.2f, %.2f |",
		r.title, r.ours.rate(), r.sampled.rate(), r.ours.rate()/r.sampled.rate(), r.all.rate(), r.ours.rate()/r.all.rate(),
		r.ours.victimsEach(), r.sampled.victimsEach(), r.all.victimsEach())
}

// measure runs everything about one workload. Each run has a cluster of its own.
func (o options) measure(ctx context.Context, crowd placementbench.Crowd) (row, error) {
	r := row{title: crowd.Title}
	for _, run := range []struct {
		all bool
		to  *figures
	}{{false, &r.sampled}, {true, &r.all}} {
		ctx, cancel := context.WithCancel(ctx)
		u, err := newUpstream(ctx, crowd.Cluster(o.nodes), run.all)
		if err == nil {
			*run.to, err = o.race(ctx, crowd, u, warmup, o.box)
		}
		cancel()
		if err != nil {
			return r, err
		}
	}
	site, err := placementbench.NewSite(crowd.Cluster(o.nodes))
	if err != nil {
		return r, err
	}
	r.ours, err = o.race(ctx, crowd, &ours{site: site}, 0, ourBoxes*o.box)
	return r, err
}

// race lets the contender preempt until the pods or the time are used up.
func (o options) race(
	ctx context.Context, crowd placementbench.Crowd, c contender, warm int, box time.Duration,
) (figures, error) {
	var f figures
	runtime.GC()
	for i := range o.preemptors {
		if err := c.accept(crowd.Preemptor(i)); err != nil {
			return f, err
		}
		begin := processorTime()
		victims, err := c.preempt(ctx)
		spent := processorTime() - begin
		if err != nil {
			return f, err
		}
		if i < min(warm, o.preemptors/2) {
			continue
		}
		f.placed, f.victims, f.processor = f.placed+1, f.victims+victims, f.processor+spent
		if f.processor >= box {
			break
		}
	}
	return f, nil
}

// processorTime is the process's processor time, user and system.
func processorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0 // cannot be: the pointer is good and the argument known
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// ours is the engine.
type ours struct {
	site *placementbench.Site
	pod  *state.Pod
	seed uint64
}

func (o *ours) accept(pod *corev1.Pod) error {
	o.pod = placementbench.Arrive(pod)
	return nil
}

func (o *ours) preempt(context.Context) (int, error) {
	o.seed++
	r, err := o.site.Preempt(o.pod, o.seed)
	return len(r.Victims), err
}
