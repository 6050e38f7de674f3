package steady

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/berth-scheduler/berth/test/e2e/harness"
	"github.com/berth-scheduler/berth/test/perf/bench"
	"github.com/berth-scheduler/berth/test/perf/contend"
)

const (
	namespace = "steady"
	// openWithin bounds the start of everything.
	openWithin = 10 * time.Minute
)

// watch is one measurement.
type watch struct {
	options
	programs harness.Programs
}

// sample is how things are at one time.
type sample struct {
	// At is since the beginning.
	At time.Duration
	// Resident is the memory in bytes, CPU the processor time since the beginning.
	Resident int64
	CPU      time.Duration
}

// steady is the result of one watch.
type steady struct {
	samples []sample
	load    turnover
}

// run is a fresh cluster with Berth on it, watched to the end.
func (w *watch) run(ctx context.Context) (s steady, err error) {
	g, err := contend.NewGround(w.programs, namespace)
	defer func() { err = errors.Join(err, g.Close(ctx)) }()
	if err != nil {
		return s, err
	}
	g.Profiling(w.profiling)
	if err := w.open(ctx, g); err != nil {
		return s, err
	}
	group, watching := errgroup.WithContext(ctx)
	done, end := context.WithTimeout(watching, w.settle+w.length)
	defer end()
	group.Go(func() (err error) {
		s.load, err = w.turn(done, g.Cluster.Rest)
		return err
	})
	group.Go(func() (err error) {
		s.samples, err = w.sample(done, g.PIDs)
		return err
	})
	if err := group.Wait(); err != nil {
		return s, err
	}
	_, err = g.Audit(ctx)
	return s, err
}

// open starts the cluster and Berth.
func (w *watch) open(ctx context.Context, g *contend.Ground) error {
	ctx, cancel := context.WithTimeout(ctx, openWithin)
	defer cancel()
	if err := g.StartPlain(ctx, w.nodes); err != nil {
		return err
	}
	return contend.Berth.Start(ctx, g)
}

// sample reads memory and processor time until ctx ends, after the time to settle.
func (w *watch) sample(ctx context.Context, pids []int) ([]sample, error) {
	if bench.Pause(ctx, w.settle) != nil {
		return nil, nil
	}
	var all []sample
	begin := time.Now()
	before, err := harness.CPUTime(pids...)
	tick := time.NewTicker(w.every)
	defer tick.Stop()
	for err == nil {
		resident, wrong := harness.Resident(pids...)
		used, worse := harness.CPUTime(pids...)
		err = errors.Join(wrong, worse)
		all = append(all, sample{At: time.Since(begin), Resident: resident, CPU: used - before})
		select {
		case <-tick.C:
		case <-ctx.Done():
			return all, err
		}
	}
	return all, err
}
