package path

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/berth-scheduler/berth/test/e2e/harness"
	"github.com/berth-scheduler/berth/test/perf/bench"
)

// options are the command line.
type options struct {
	pods, nodes, warm, runs int
	shards, full            []int
	binders                 int
	workload                string
	rate                    float64
	facts, null             bool
	out, budget             string
	timeout                 time.Duration
	profiling, together     bool
	profiled                time.Duration
	// observed are the ways in which runs are observed.
	observed []string
}

// New returns the subcommand.
func New() bench.Subcommand { return &options{} }

// Flags implements bench.Subcommand.
func (o *options) Flags(set *pflag.FlagSet) {
	set.IntVar(&o.pods, "pods", 20000, "pods that arrive, 100m CPU and 500Mi each")
	set.IntVar(&o.nodes, "nodes", 1000, "nodes, 32 CPUs and 110 pods each")
	set.IntVar(&o.warm, "warm", 500, "pods bound before the clock starts")
	set.IntVar(&o.runs, "runs", 1, "runs of each setting; 3 or more to report")
	set.IntSliceVar(&o.shards, "shards", []int{2},
		"scheduler processes; several numbers, separated by commas, are as many settings")
	set.IntSliceVar(&o.full, "full", []int{0},
		"percent of each node that is taken before pods arrive, on average; several as in --shards")
	set.StringVar(&o.workload, "workload", plain,
		"plain; constrained: hard spread and anti-affinity for two pods of three; "+
			"zonal: a nodeSelector by zone; or leaning: a preference for a zone")
	set.BoolVar(&o.facts, "facts", false, "measure what applying a fact takes, with one more shard before and after")
	set.BoolVar(&o.null, "null", false, "run a null path after each run, which does no scheduling, and compare with it")
	set.Float64Var(&o.rate, "rate", 0, "pods that arrive per second; 0 lets all arrive at once")
	set.IntVar(&o.binders, "binders", 2, "binder processes")
	set.StringVar(&o.out, "out", ".build/bench/path", "directory for the JSON and Markdown reports")
	set.StringVar(&o.budget, "budget", "", "file of microseconds per pod and service that must not be exceeded")
	set.DurationVar(&o.timeout, "timeout", 5*time.Minute, "time a run may take to place its pods")
	set.StringSliceVar(&o.observed, "observed", []string{records},
		"records (attempts leave some), nothing, or traces (of a tenth of the pods, besides); several, separated by "+
			"commas, are as many settings, and their cost is judged")
	set.BoolVar(&o.together, "together", false, "one berth up with its own stores instead of a process for each service")
	set.BoolVar(&o.profiling, "profiling", false, "let Berth serve /debug/pprof, and keep a profile of each process")
	set.DurationVar(&o.profiled, "profiled", 10*time.Second, "with --profiling, how long, from the pods' arrival on")
}

// Validate implements bench.Subcommand.
func (o *options) Validate() error {
	if o.runs < 1 || o.pods < 1 || o.warm < 1 || slices.Min(o.shards) < 1 || o.binders < 1 {
		return fmt.Errorf("--runs %d, --pods %d, --warm %d, --shards %d, --binders %d: want at least 1 of each",
			o.runs, o.pods, o.warm, o.shards, o.binders)
	}
	if o.profiled < time.Second {
		return fmt.Errorf("--profiled %s: want at least a second", o.profiled)
	}
	if o.together && (o.facts || o.budget != "") {
		return errors.New("--together: one process has neither --facts nor a --budget by service")
	}
	if !slices.Contains(workloads, o.workload) {
		return fmt.Errorf("--workload %q: want %s", o.workload, strings.Join(workloads, " or "))
	}
	if err := bench.Known("--observed", o.observed, []string{records, nothing, traces}); err != nil {
		return err
	}
	if slices.Min(o.full) < 0 || slices.Max(o.full) > 99 {
		return fmt.Errorf("--full %d: want from 0 to 99", o.full)
	}
	if o.null && (o.workload != plain || slices.Max(o.full) > 0 || len(o.observed) > 1) {
		return fmt.Errorf("--null: want --workload %s, --full 0, one --observed with it: a null path obeys no rules", plain)
	}
	if room := o.room(slices.Max(o.full)); o.pods+o.warm > room {
		return fmt.Errorf("--pods %d and --warm %d: %d nodes have room for %d", o.pods, o.warm, o.nodes, room)
	}
	return nil
}

// Run implements bench.Subcommand.
func (o *options) Run(ctx context.Context) error {
	limits, err := readBudget(o.budget)
	if err != nil {
		return err
	}
	programs, err := harness.Find()
	if err != nil {
		return err
	}
	m := measurement{options: *o, programs: programs}
	measure := m.all
	if len(o.observed) > 1 {
		measure = m.observe
	}
	results, err := measure(ctx)
	if err != nil {
		return err
	}
	head, err := bench.NewHead(ctx, programs)
	if err != nil {
		return err
	}
	r := newReport(*o, head, results, limits)
	if err := bench.Write(o.out, reportName, r, r.markdown(), r.outcome()); err != nil {
		return err
	}
	return errors.Join(r.overdrawn(), r.observing(os.Stdout))
}
