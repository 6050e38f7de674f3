package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/berth-scheduler/berth/test/e2e/harness"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := mainErr(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "benchpath:", err)
		os.Exit(1)
	}
}

// options are the command line.
type options struct {
	pods, nodes, warm, runs int
	shards, binders         int
	rate                    float64
	out, budget             string
	timeout                 time.Duration
	profiling               bool
}

func parse(args []string) (options, error) {
	var o options
	set := flag.NewFlagSet("benchpath", flag.ContinueOnError)
	set.IntVar(&o.pods, "pods", 20000, "pods that arrive, 100m CPU and 500Mi each")
	set.IntVar(&o.nodes, "nodes", 1000, "nodes, 32 CPUs and 110 pods each")
	set.IntVar(&o.warm, "warm", 500, "pods bound before the clock starts")
	set.IntVar(&o.runs, "runs", 1, "runs; 3 or more to report")
	set.IntVar(&o.shards, "shards", 2, "scheduler processes")
	set.Float64Var(&o.rate, "rate", 0, "pods that arrive per second; 0 lets all arrive at once")
	set.IntVar(&o.binders, "binders", 2, "binder processes")
	set.StringVar(&o.out, "out", ".build/bench", "directory for the JSON and Markdown reports")
	set.StringVar(&o.budget, "budget", "", "file of microseconds per pod and service that must not be exceeded")
	set.DurationVar(&o.timeout, "timeout", 5*time.Minute, "time a run may take to place its pods")
	set.BoolVar(&o.profiling, "profiling", false, "let Berth serve /debug/pprof, and keep a profile of each process")
	if err := set.Parse(args); err != nil {
		return o, err
	}
	if o.runs < 1 || o.pods < 1 || o.warm < 1 || o.shards < 1 || o.binders < 1 {
		return o, fmt.Errorf("--runs %d, --pods %d, --warm %d, --shards %d, --binders %d: want at least 1 of each",
			o.runs, o.pods, o.warm, o.shards, o.binders)
	}
	if room := o.nodes * podsPerNode; o.pods+o.warm > room {
		return o, fmt.Errorf("--pods %d and --warm %d: %d nodes have room for %d", o.pods, o.warm, o.nodes, room)
	}
	return o, nil
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
	var results []result
	for i := range o.runs {
		r, err := b.run(ctx, i+1)
		if err != nil {
			return fmt.Errorf("run %d: %w", i+1, err)
		}
		results = append(results, r)
	}
	version, err := programs.Command(ctx, "version")
	if err != nil {
		return err
	}
	return newReport(o, version.Stdout, results, limits).write()
}
