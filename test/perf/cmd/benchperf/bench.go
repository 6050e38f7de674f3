package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/test/e2e/audit"
	"github.com/berth-scheduler/berth/test/e2e/harness"
	"github.com/berth-scheduler/berth/test/perf/contend"
	"github.com/berth-scheduler/berth/test/perf/perfconfig"
)

// stopWithin bounds the end of a run.
const stopWithin = 2 * time.Minute

// play is one workload to run.
type play struct {
	name string
	ops  []perfconfig.Op
}

// bench is one measurement: all runs of all contenders.
type bench struct {
	options
	programs harness.Programs
	plays    []play
}

// result is one run.
type result struct {
	Workload  string `json:"workload"`
	Contender string `json:"contender"`
	Run       int    `json:"run"`
	// Pods are those whose scheduling the workload measures.
	Pods int `json:"pods"`
	// WallSeconds is from just before the first of them was created to the last bind.
	WallSeconds   float64 `json:"wallSeconds"`
	PodsPerSecond float64 `json:"podsPerSecond"`
	// Latency is per pod, from its appearance to its bind, both as this program's watch saw them.
	P50Millis float64 `json:"p50Millis"`
	P99Millis float64 `json:"p99Millis"`
	// CPUSeconds is what the contender's processes used meanwhile.
	CPUSeconds float64 `json:"cpuSeconds"`
}

// all runs everything, alternating between contenders. It stops at the first run that fails.
func (b *bench) all(ctx context.Context) ([]result, error) {
	rivals := slices.DeleteFunc(slices.Clone(contend.Contenders), func(c contend.Contender) bool {
		return !slices.Contains(b.contenders, c.Name)
	})
	var results []result
	for i := range len(b.plays) * b.runs * len(rivals) {
		p, run, c := b.plays[i/(b.runs*len(rivals))], i/len(rivals)%b.runs+1, rivals[i%len(rivals)]
		r, err := b.run(ctx, c, p)
		if err != nil {
			return nil, fmt.Errorf("%s, %s, run %d: %w", p.name, c.Name, run, err)
		}
		r.Run = run
		results = append(results, r)
		fmt.Fprintf(os.Stderr, "%-50s %-16s run %d: %7.1f pods/s, p50 %.0f ms, p99 %.0f ms, %.1f CPU s\n",
			r.Workload, r.Contender, r.Run, r.PodsPerSecond, r.P50Millis, r.P99Millis, r.CPUSeconds)
	}
	return results, nil
}

// run is one contender on one fresh cluster.
func (b *bench) run(ctx context.Context, c contend.Contender, p play) (result, error) {
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	s, err := b.open(ctx, c)
	r := result{Workload: p.name, Contender: c.Name}
	if err == nil {
		err = s.play(ctx, p.ops, &r)
	}
	if err == nil {
		err = s.audit(ctx)
	}
	// The end comes even when ctx is over.
	ending, cancelEnding := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer cancelEnding()
	return r, errors.Join(err, s.close(ending))
}

// open starts a cluster without nodes, and the contender on it. The stage is there, to be closed,
// even on error.
func (b *bench) open(ctx context.Context, c contend.Contender) (*stage, error) {
	dir, err := os.MkdirTemp("", "berth-bench-")
	s := &stage{Field: contend.Field{Programs: b.programs, Dir: dir}}
	if err != nil {
		return s, err
	}
	if s.Config, err = contend.WriteConfig(dir); err != nil {
		return s, err
	}
	ground := harness.ClusterConfig{Dir: filepath.Join(dir, "cluster"), NoKubelets: true}
	s.Cluster, err = b.programs.StartCluster(ctx, ground)
	if err != nil {
		return s, err
	}
	if err := s.connect(ctx); err != nil {
		return s, err
	}
	return s, c.Start(ctx, &s.Field, &s.Running)
}

// audit checks every placement from the API server's own state.
func (s *stage) audit(ctx context.Context) error {
	nodes, pods, err := harness.ListAll(ctx, s.Cluster.Client)
	if err != nil {
		return err
	}
	if wrong := audit.Check(nodes, pods); len(wrong) > 0 {
		return fmt.Errorf("audit: %d findings, the first: %s", len(wrong), wrong[0])
	}
	return s.auditDevices(ctx, pods)
}

// close ends everything and removes what was written.
func (s *stage) close(ctx context.Context) error {
	var errs []error
	if s.endChurn != nil {
		errs = append(errs, s.endChurn())
	}
	if s.pods != nil {
		s.pods.stop()
	}
	errs = append(errs, s.Stop(ctx))
	if s.Cluster != nil {
		errs = append(errs, s.Cluster.Stop(ctx))
	}
	return errors.Join(append(errs, os.RemoveAll(s.Dir))...)
}
