// Command benchsteady watches `berth up` on a cluster of plain nodes for a long time: idle, or while
// pods are created and deleted at a rate. It samples resident memory and processor time, and reports
// what an idle Berth costs, and whether memory grows after the first minutes.
//
// At a rate, a pod is deleted when so many newer ones have been created, so that the number of pods
// stays the same. What stands at the end is audited from the API server's own state.
//
// Run it with `make bench-full PARTS="idle steady"`. Start reading at watch.run.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/berth-scheduler/berth/test/e2e/harness"
	"github.com/berth-scheduler/berth/test/program"
)

func main() { os.Exit(program.Run("benchsteady", mainErr)) }

// options are the command line.
type options struct {
	nodes, out            string
	length, settle, every time.Duration
	rate                  float64
	standing              int
	profiling             bool
}

func parse(args []string) (options, error) {
	var o options
	set := flag.NewFlagSet("benchsteady", flag.ContinueOnError)
	set.StringVar(&o.nodes, "nodes", "tools/cluster/examples/bench-nodes.yaml", "node file of the cluster driver")
	set.StringVar(&o.out, "out", ".build/bench/steady", "directory for the reports")
	set.DurationVar(&o.length, "for", time.Hour, "time that is measured")
	set.DurationVar(&o.settle, "settle", 30*time.Second, "time between readiness and the beginning of that")
	set.DurationVar(&o.every, "every", 5*time.Second, "time between two samples")
	set.Float64Var(&o.rate, "rate", 200, "pods that are created, and deleted, per second; 0 for an idle cluster")
	set.IntVar(&o.standing, "standing", 5000, "pods that exist at one time, at a rate")
	set.BoolVar(&o.profiling, "profiling", false, "let Berth serve /debug/pprof, at the --http-address of its process")
	if err := set.Parse(args); err != nil {
		return o, err
	}
	if o.length < 2*o.every || o.every <= 0 || o.rate < 0 || o.standing < 1 {
		return o, fmt.Errorf("--for %s, --every %s, --rate %g, --standing %d: want two samples, no negative rate, 1 pod",
			o.length, o.every, o.rate, o.standing)
	}
	return o, nil
}

func mainErr(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	programs, err := harness.Find()
	if err != nil {
		return err
	}
	w := watch{options: o, programs: programs}
	s, err := w.run(ctx)
	if err != nil {
		return err
	}
	version, err := programs.Command(ctx, "version")
	if err != nil {
		return err
	}
	return w.outcome(s, version.Stdout).Write(o.out)
}
