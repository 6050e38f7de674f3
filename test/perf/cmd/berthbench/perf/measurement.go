package perf

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/berth-scheduler/berth/test/e2e/harness"
	"github.com/berth-scheduler/berth/test/perf/contend"
	"github.com/berth-scheduler/berth/test/perf/perfconfig"
)

// play is one workload to run.
type play struct {
	name string
	ops  []perfconfig.Op
}

// measurement is all runs of all contenders.
type measurement struct {
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
	// CPUSeconds is the processor time of the contender's processes during that time.
	CPUSeconds float64 `json:"cpuSeconds"`
}

// all runs everything, alternating between contenders. It stops at the first run that fails.
func (m *measurement) all(ctx context.Context) ([]result, error) {
	rivals := slices.DeleteFunc(slices.Clone(contend.Contenders), func(c contend.Contender) bool {
		return !slices.Contains(m.contenders, c.Name)
	})
	var results []result
	for i := range len(m.plays) * m.runs * len(rivals) {
		p, run, c := m.plays[i/(m.runs*len(rivals))], i/len(rivals)%m.runs+1, rivals[i%len(rivals)]
		r, err := m.run(ctx, c, p)
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
func (m *measurement) run(ctx context.Context, c contend.Contender, p play) (r result, err error) {
	ctx, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	s, err := m.open(ctx, c)
	defer func() { err = errors.Join(err, s.Close(ctx)) }()
	r = result{Workload: p.name, Contender: c.Name}
	if err != nil {
		return r, err
	}
	if err := s.play(ctx, p.ops, &r); err != nil {
		return r, err
	}
	pods, err := s.Audit(ctx)
	if err != nil {
		return r, err
	}
	return r, s.auditDevices(ctx, pods)
}

// open starts a cluster without nodes, and the contender on it. The stage has to be closed, even after an error.
func (m *measurement) open(ctx context.Context, c contend.Contender) (s *stage, err error) {
	s = &stage{}
	if s.Ground, err = contend.NewGround(m.programs, ""); err != nil {
		return s, err
	}
	if err := s.StartCluster(ctx, harness.ClusterConfig{NoKubelets: true}); err != nil {
		return s, err
	}
	if err := s.connect(ctx); err != nil {
		return s, err
	}
	return s, c.Start(ctx, s.Ground)
}
