package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/berth-scheduler/berth/test/e2e/harness"
	"github.com/berth-scheduler/berth/test/perf/bench"
	"github.com/berth-scheduler/berth/test/perf/contend"
)

// options are the command line.
type options struct {
	runs, pods        int
	blocked, leaving  int
	standing          int
	contenders, modes []string
	nodes, out        string
	rate              float64
	timeout           time.Duration
	profiling         bool
	// memory asks what Berth's process holds, fsync has the API server's etcd sync every write.
	memory, fsync bool
}

// New returns the subcommand.
func New() bench.Subcommand { return &options{} }

// Flags implements bench.Subcommand.
func (o *options) Flags(set *pflag.FlagSet) {
	set.IntVar(&o.runs, "runs", 1, "runs of each contender in each mode; 3 or more to report")
	set.IntVar(&o.pods, "pods", 5000, "pods per run, 100m CPU and 500Mi each")
	set.IntVar(&o.blocked, "blocked", 0, "pods beside them that fit nowhere, in mode live")
	set.IntVar(&o.leaving, "leaving", 0, "pods beside them that are deleted meanwhile, in mode live")
	set.IntVar(&o.standing, "standing", 4, "pods of low priority that fill each node, in mode preempt")
	bench.Contenders(set, &o.contenders, contend.Rivals(),
		"; raw-8, raw-16, raw-32 and raw-64 only bind, in modes drain and open")
	set.StringSliceVar(&o.modes, "modes", []string{live, drain}, "live, drain or both; or preempt, open or failover")
	set.Float64Var(&o.rate, "rate", 50, "pods that arrive per second in modes open and failover")
	set.StringVar(&o.nodes, "nodes", "tools/cluster/examples/bench-nodes.yaml", "node file of the cluster driver")
	set.StringVar(&o.out, "out", ".build/bench", "directory for the JSON and Markdown reports")
	set.DurationVar(&o.timeout, "timeout", 10*time.Minute, "time one run may take to place its pods")
	set.BoolVar(&o.memory, "memory", false, "report what Berth holds in memory, part by part; implies --profiling")
	set.BoolVar(&o.fsync, "fsync", false, "have the API server's etcd sync every write to disk, as production clusters do")
	set.BoolVar(&o.profiling, "profiling", false, "let Berth serve /debug/pprof, at the --http-address of its processes")
}

// Run implements bench.Subcommand.
func (o *options) Run(ctx context.Context) error {
	programs, err := harness.Find()
	if err != nil {
		return err
	}
	m := measurement{options: *o, programs: programs}
	results, err := m.all(ctx)
	if err != nil {
		return err
	}
	return m.report(ctx, results)
}

// pairs reports whether a contender was asked for and can have two replicas.
func (o *options) pairs(c contend.Contender) bool {
	return c.StartPair != nil && slices.Contains(o.contenders, c.Name)
}

// Validate implements bench.Subcommand.
func (o *options) Validate() error {
	if err := bench.Known("--contenders", o.contenders, contend.Names()); err != nil {
		return err
	}
	if err := bench.Known("--modes", o.modes, modesInOrder); err != nil {
		return err
	}
	if slices.Contains(o.modes, failover) && !slices.ContainsFunc(contend.Contenders, o.pairs) {
		return fmt.Errorf("--contenders: %s: in mode %s want one that can have two replicas: kube-scheduler or berth",
			strings.Join(o.contenders, ","), failover)
	}
	if slices.Contains(o.modes, preempt) && len(o.modes) > 1 {
		return errors.New("--modes: preempt wants nodes of its own: give it alone, and --nodes with it")
	}
	if o.blocked+o.leaving > 0 && !slices.Equal(o.modes, []string{live}) {
		return errors.New("--blocked, --leaving: want --modes live with them")
	}
	if o.runs < 1 || o.pods < 1 || o.rate <= 0 {
		return fmt.Errorf("--runs: %d, --pods: %d, --rate: %g: want at least 1 of each, and more than 0",
			o.runs, o.pods, o.rate)
	}
	return nil
}
