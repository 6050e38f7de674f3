package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/berth-scheduler/berth/test/e2e/audit"
	"github.com/berth-scheduler/berth/test/e2e/harness"
	"github.com/berth-scheduler/berth/test/perf/contend"
)

const (
	namespace = "steady"
	// openWithin bounds the start of everything, stopWithin its end.
	openWithin = 10 * time.Minute
	stopWithin = 2 * time.Minute
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

// steady is what was seen.
type steady struct {
	samples []sample
	load    turnover
}

// run is a fresh cluster with Berth on it, watched to the end.
func (w *watch) run(ctx context.Context) (s steady, err error) {
	dir, err := os.MkdirTemp("", "berth-steady-")
	if err != nil {
		return s, err
	}
	var running contend.Running
	field := contend.Field{Programs: w.programs, Dir: dir, Namespace: namespace}
	if w.profiling {
		field.Args = []string{"--profiling"}
	}
	defer func() {
		// The end comes even when ctx is over.
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
		defer cancel()
		err = errors.Join(err, running.Stop(ending))
		if field.Cluster != nil {
			err = errors.Join(err, field.Cluster.Stop(ending))
		}
		err = errors.Join(err, os.RemoveAll(dir))
	}()
	if err := w.open(ctx, &field, &running); err != nil {
		return s, err
	}
	group, watching := errgroup.WithContext(ctx)
	done, end := context.WithTimeout(watching, w.settle+w.length)
	defer end()
	group.Go(func() (err error) {
		s.load, err = w.turn(done, field.Cluster.Rest)
		return err
	})
	group.Go(func() (err error) {
		s.samples, err = w.sample(done, running.PIDs)
		return err
	})
	if err := group.Wait(); err != nil {
		return s, err
	}
	return s, w.audit(ctx, &field)
}

// open starts the cluster and Berth.
func (w *watch) open(ctx context.Context, f *contend.Field, r *contend.Running) (err error) {
	ctx, cancel := context.WithTimeout(ctx, openWithin)
	defer cancel()
	if f.Config, err = contend.WriteConfig(f.Dir); err != nil {
		return err
	}
	f.Cluster, err = w.programs.StartCluster(ctx, harness.ClusterConfig{
		Dir: filepath.Join(f.Dir, "cluster"), Nodes: filepath.Join(w.programs.Root, w.nodes), NoKubelets: true,
	})
	if err != nil {
		return err
	}
	if err := harness.CreateNamespace(ctx, f.Cluster.Client, harness.Namespace(namespace)); err != nil {
		return err
	}
	return contend.Berth.Start(ctx, f, r)
}

// sample reads memory and processor time until ctx ends, after the time to settle.
func (w *watch) sample(ctx context.Context, pids []int) ([]sample, error) {
	select {
	case <-time.After(w.settle):
	case <-ctx.Done():
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

// audit checks what stands from the API server's own state.
func (w *watch) audit(ctx context.Context, f *contend.Field) error {
	nodes, pods, err := harness.ListAll(ctx, f.Cluster.Client)
	if err != nil {
		return err
	}
	if wrong := audit.Check(nodes, pods); len(wrong) > 0 {
		return fmt.Errorf("audit: %d findings, the first: %s", len(wrong), wrong[0])
	}
	return nil
}
