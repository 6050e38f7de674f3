package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/placement/placementbench"
)

// contender decides about pods one at a time. A node's name is its answer, empty when the
// pod fits nowhere.
type contender interface {
	// accept adds a new pod, as its arrival would; it becomes the contender's.
	accept(ctx context.Context, pod *corev1.Pod) error
	// decide places the pod accepted longest ago, and counts it on its node.
	decide(ctx context.Context) (node string, err error)
	// change applies an event of a node.
	change(e placementbench.NodeEvent) error
}

// race is one run of one contender.
type race struct {
	load      placementbench.Workload
	contender contender
	churn     *placementbench.Churn
	// batch is how many pods are accepted before they are decided; pods are made outside
	// the clock.
	batch int
	// warmup decisions are not counted; box ends the run by the processor time spent on
	// decisions, 0 for never.
	warmup int
	box    time.Duration
	// chosen, if not nil, gets the nodes.
	chosen *[]string
}

// settleEvery is after how many decisions garbage is collected outside the clock.
const settleEvery = 1000

// figures are the result of a race.
type figures struct {
	// Decisions counted, and how many of them found no node.
	Decisions, Unplaced int
	// Processor is the time the process used while deciding, Clock the time that passed;
	// Arrival is the processor time of accept.
	Processor, Clock, Arrival time.Duration
	// P50 and P99 are of the time that passed in one decision.
	P50, P99 time.Duration
	// Allocations per decision.
	Allocations float64
}

// Rate is in decisions per second of processor time.
func (f figures) Rate() float64 { return float64(f.Decisions) / f.Processor.Seconds() }

// Share is how much of the time the process had its processor.
func (f figures) Share() float64 { return f.Processor.Seconds() / f.Clock.Seconds() }

// run lets the contender decide until the pods or the time are used up.
func (r *race) run(ctx context.Context) (figures, error) {
	var f figures
	var times []time.Duration
	var before, after runtime.MemStats
	var allocations uint64
	for i := 0; i < r.load.Decisions && (r.box == 0 || f.Processor < r.box); {
		n := min(r.batch, r.load.Decisions-i)
		arrival, err := r.accept(ctx, i, n)
		if err != nil {
			return f, err
		}
		happened := r.events(i, n)
		if i%settleEvery == 0 {
			runtime.GC() // what making and accepting pods left behind is not the decisions' to clear away
		}
		runtime.ReadMemStats(&before)
		begin, processor := time.Now(), processorTime()
		durations, unplaced, err := r.decide(ctx, happened)
		processor, clock := processorTime()-processor, time.Since(begin)
		if err != nil {
			return f, err
		}
		runtime.ReadMemStats(&after)
		if i += n; i <= r.warmup {
			continue
		}
		allocations += after.Mallocs - before.Mallocs
		times = append(times, durations...)
		f.Decisions, f.Unplaced = f.Decisions+n, f.Unplaced+unplaced
		f.Processor, f.Clock, f.Arrival = f.Processor+processor, f.Clock+clock, f.Arrival+arrival
	}
	if len(times) == 0 {
		return f, fmt.Errorf("no decision was counted: %d pods, %d of them to warm up", r.load.Decisions, r.warmup)
	}
	slices.Sort(times)
	f.P50, f.P99 = times[len(times)/2], times[len(times)*99/100]
	f.Allocations = float64(allocations) / float64(f.Decisions)
	return f, nil
}

// accept makes n pods from number i on and hands them over; it returns the processor time
// of the latter.
func (r *race) accept(ctx context.Context, i, n int) (time.Duration, error) {
	pods := make([]*corev1.Pod, n)
	for j := range pods {
		pods[j] = r.load.Pending(i + j)
	}
	begin := processorTime()
	for _, p := range pods {
		if err := r.contender.accept(ctx, p); err != nil {
			return 0, err
		}
	}
	return processorTime() - begin, nil
}

// events are the events before each of n decisions from number i on; nil for none.
func (r *race) events(i, n int) []*placementbench.NodeEvent {
	happened := make([]*placementbench.NodeEvent, n)
	for j := range happened {
		if e, ok := r.event(i + j); ok {
			happened[j] = &e
		}
	}
	return happened
}

// event is the event before decision i, if there is one.
func (r *race) event(i int) (placementbench.NodeEvent, bool) {
	if r.load.EventEvery == 0 || i%r.load.EventEvery != 0 {
		return placementbench.NodeEvent{}, false
	}
	return r.churn.Next(), true
}

// decide is the timed part: the decisions, their placements, and the events between them.
func (r *race) decide(
	ctx context.Context, happened []*placementbench.NodeEvent,
) (durations []time.Duration, unplaced int, err error) {
	durations = make([]time.Duration, len(happened))
	for j, e := range happened {
		begin := time.Now()
		if e != nil {
			if err := r.contender.change(*e); err != nil {
				return nil, 0, err
			}
		}
		node, err := r.contender.decide(ctx)
		if err != nil {
			return nil, 0, err
		}
		durations[j] = time.Since(begin)
		if node == "" {
			unplaced++
		}
		if r.chosen != nil {
			*r.chosen = append(*r.chosen, node)
		}
	}
	return durations, unplaced, nil
}

// processorTime is the process's processor time, user and system.
func processorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0 // cannot be: the pointer is good and the argument known
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
