package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-scheduler/berth/test/e2e/harness"
	"github.com/berth-scheduler/berth/test/program"
)

func main() { os.Exit(program.Run("benchpath", mainErr)) }

// options are the command line.
type options struct {
	pods, nodes, warm, runs int
	shards, full            []int
	binders                 int
	workload                string
	rate                    float64
	facts                   bool
	out, budget             string
	timeout                 time.Duration
	profiling               bool
	// observed are the ways in which runs are observed.
	observed []string
}

func parse(args []string) (options, error) {
	o := options{shards: []int{2}, full: []int{0}, observed: []string{records}}
	set := flag.NewFlagSet("benchpath", flag.ContinueOnError)
	set.IntVar(&o.pods, "pods", 20000, "pods that arrive, 100m CPU and 500Mi each")
	set.IntVar(&o.nodes, "nodes", 1000, "nodes, 32 CPUs and 110 pods each")
	set.IntVar(&o.warm, "warm", 500, "pods bound before the clock starts")
	set.IntVar(&o.runs, "runs", 1, "runs of each setting; 3 or more to report")
	set.Func("shards", "scheduler processes; several numbers with commas are as many settings (default 2)",
		numbers(&o.shards))
	set.Func("full", "percent of each node that is taken before pods arrive, on average; as --shards (default 0)",
		numbers(&o.full))
	set.StringVar(&o.workload, "workload", plain,
		"plain; constrained: hard spread and anti-affinity for two pods of three; "+
			"zonal: a nodeSelector by zone; or leaning: a preference for a zone")
	set.BoolVar(&o.facts, "facts", false, "measure what applying a fact takes, with one more shard before and after")
	set.Float64Var(&o.rate, "rate", 0, "pods that arrive per second; 0 lets all arrive at once")
	set.IntVar(&o.binders, "binders", 2, "binder processes")
	set.StringVar(&o.out, "out", ".build/bench/path", "directory for the JSON and Markdown reports")
	set.StringVar(&o.budget, "budget", "", "file of microseconds per pod and service that must not be exceeded")
	set.DurationVar(&o.timeout, "timeout", 5*time.Minute, "time a run may take to place its pods")
	set.Func("observed",
		"records (attempts leave some), nothing, or traces (of a tenth of the pods, besides); several with commas are "+
			"as many settings, and their cost is judged (default records)",
		func(text string) error { o.observed = strings.Split(text, ","); return nil })
	set.BoolVar(&o.profiling, "profiling", false, "let Berth serve /debug/pprof, and keep a profile of each process")
	if err := set.Parse(args); err != nil {
		return o, err
	}
	return o, o.validate()
}

func (o options) validate() error {
	if o.runs < 1 || o.pods < 1 || o.warm < 1 || slices.Min(o.shards) < 1 || o.binders < 1 {
		return fmt.Errorf("--runs %d, --pods %d, --warm %d, --shards %d, --binders %d: want at least 1 of each",
			o.runs, o.pods, o.warm, o.shards, o.binders)
	}
	if !slices.Contains(workloads, o.workload) {
		return fmt.Errorf("--workload %q: want %s", o.workload, strings.Join(workloads, " or "))
	}
	for _, way := range o.observed {
		if !slices.Contains([]string{records, nothing, traces}, way) {
			return fmt.Errorf("--observed %q: want some of %s, %s, %s", way, records, nothing, traces)
		}
	}
	if slices.Min(o.full) < 0 || slices.Max(o.full) > 99 {
		return fmt.Errorf("--full %d: want from 0 to 99", o.full)
	}
	b := bench{options: o}
	if room := b.room(slices.Max(o.full)); o.pods+o.warm > room {
		return fmt.Errorf("--pods %d and --warm %d: %d nodes have room for %d", o.pods, o.warm, o.nodes, room)
	}
	return nil
}

// numbers reads a list with commas.
func numbers(to *[]int) func(string) error {
	return func(text string) error {
		*to = nil
		for part := range strings.SplitSeq(text, ",") {
			n, err := strconv.Atoi(part)
			if err != nil {
				return fmt.Errorf("%q: want whole numbers, separated by commas", part)
			}
			*to = append(*to, n)
		}
		return nil
	}
}

func mainErr(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	limits, err := readBudget(o.budget)
	if err != nil {
		return err
	}
	programs, err := harness.Find()
	if err != nil {
		return err
	}
	b := bench{options: o, programs: programs}
	measure := b.all
	if len(o.observed) > 1 {
		measure = b.observe
	}
	results, err := measure(ctx)
	if err != nil {
		return err
	}
	version, err := programs.Command(ctx, "version")
	if err != nil {
		return err
	}
	return newReport(o, version.Stdout, results, limits).write()
}
