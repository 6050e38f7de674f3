package memory

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"runtime/pprof"
	"time"

	"github.com/spf13/pflag"

	"github.com/berth-scheduler/berth/test/perf/bench"
)

// options are the command line.
type options struct {
	nodes, pods, podsPerApp, decisions int
	steady, timeout                    time.Duration
	out, profile                       string
}

// New returns the subcommand.
func New() bench.Subcommand { return &options{} }

// Flags implements bench.Subcommand.
func (o *options) Flags(set *pflag.FlagSet) {
	set.IntVar(&o.nodes, "nodes", 5000, "nodes of the cluster")
	set.IntVar(&o.pods, "pods", 150_000, "pods on them, a multiple of the nodes")
	set.IntVar(&o.podsPerApp, "pods-per-app", 100, "pods that come from one template, on average")
	set.IntVar(&o.decisions, "decisions", 2000, "pods to place, of as many templates as there are")
	set.DurationVar(&o.steady, "steady", 10*time.Second, "time between the last change and a reading")
	set.DurationVar(&o.timeout, "timeout", 20*time.Minute, "time for everything")
	set.StringVar(&o.out, "out", "", "file for the JSON report; standard output when empty")
	set.StringVar(&o.profile, "heap-profile", "", "file for a heap profile, taken at the end")
}

// Validate implements bench.Subcommand.
func (o *options) Validate() error {
	if o.nodes < 1 || o.pods < o.nodes || o.pods%o.nodes != 0 {
		return fmt.Errorf("--nodes: %d, --pods: %d: want at least 1 node and a multiple of it", o.nodes, o.pods)
	}
	if o.podsPerApp < 1 || o.decisions < 0 {
		return fmt.Errorf("--pods-per-app: %d, --decisions: %d: want at least 1 and 0", o.podsPerApp, o.decisions)
	}
	return nil
}

// Run implements bench.Subcommand.
func (o *options) Run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	r, err := measure(ctx, *o)
	if err != nil {
		return err
	}
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	raw = append(raw, '\n')
	if o.out == "" {
		_, err = os.Stdout.Write(raw)
		return err
	}
	if err := os.MkdirAll(filepath.Dir(o.out), 0o755); err != nil {
		return err
	}
	return os.WriteFile(o.out, raw, 0o644)
}

// report is the JSON report.
type report struct {
	Nodes, Pods, Apps int
	// MemoryLimit is GOMEMLIMIT in bytes, 0 for none.
	MemoryLimit int64
	// Loaded is the state after all facts, Decided that after the decisions.
	Loaded, Decided reading
	// LoadSeconds is the time from the start to readiness.
	LoadSeconds float64
	// Placed and Refused are the decisions.
	Placed, Refused int
}

// reading is the memory at one time, in bytes.
type reading struct {
	// Resident and Peak are the kernel's VmRSS and VmHWM.
	Resident, Peak int64
	// Live is the heap in use after a garbage collection.
	Live int64
}

// measure runs a shard until it has seen everything, then lets it decide.
func measure(ctx context.Context, o options) (report, error) {
	begin := time.Now()
	log := newFactLog(o)
	r := report{Nodes: o.nodes, Pods: o.pods, Apps: log.apps, MemoryLimit: debug.SetMemoryLimit(-1)}
	s, err := startShard(ctx, log)
	if err != nil {
		return r, err
	}
	defer s.stop()
	if err := s.awaitReady(ctx); err != nil {
		return r, err
	}
	r.LoadSeconds = time.Since(begin).Seconds()
	if r.Loaded, err = settledReading(ctx, o.steady); err != nil {
		return r, err
	}
	if r.Placed, r.Refused, err = s.decide(ctx); err != nil {
		return r, err
	}
	if r.Decided, err = settledReading(ctx, o.steady); err != nil {
		return r, err
	}
	return r, writeProfile(o.profile)
}

func writeProfile(path string) error {
	if path == "" {
		return nil
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := pprof.WriteHeapProfile(f); err != nil {
		return err
	}
	return f.Close()
}
