package steady

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/berth-scheduler/berth/test/e2e/harness"
	"github.com/berth-scheduler/berth/test/perf/bench"
)

// options are the command line.
type options struct {
	nodes, out            string
	length, settle, every time.Duration
	rate                  float64
	standing              int
	profiling             bool
}

// Command returns the subcommand.
func Command() *cobra.Command {
	return bench.Command("steady", "Memory and processor time of berth up over a long time, idle or at a rate", &options{})
}

// Flags implements bench.Subcommand.
func (o *options) Flags(set *pflag.FlagSet) {
	set.StringVar(&o.nodes, "nodes", "tools/cluster/examples/bench-nodes.yaml", "node file of the cluster driver")
	set.StringVar(&o.out, "out", ".build/bench/steady", "directory for the reports")
	set.DurationVar(&o.length, "for", time.Hour, "time that is measured")
	set.DurationVar(&o.settle, "settle", 30*time.Second, "time between readiness and the beginning of that")
	set.DurationVar(&o.every, "every", 5*time.Second, "time between two samples")
	set.Float64Var(&o.rate, "rate", 200, "pods that are created, and deleted, per second; 0 for an idle cluster")
	set.IntVar(&o.standing, "standing", 5000, "pods that exist at one time, at a rate")
	set.BoolVar(&o.profiling, "profiling", false, "let Berth serve /debug/pprof, at the --http-address of its process")
}

// Validate implements bench.Subcommand.
func (o *options) Validate() error {
	if o.length < 2*o.every || o.every <= 0 || o.rate < 0 || o.standing < 1 {
		return fmt.Errorf("--for %s, --every %s, --rate %g, --standing %d: want two samples, no negative rate, 1 pod",
			o.length, o.every, o.rate, o.standing)
	}
	return nil
}

// Run implements bench.Subcommand.
func (o *options) Run(ctx context.Context) error {
	programs, err := harness.Find()
	if err != nil {
		return err
	}
	w := watch{options: *o, programs: programs}
	s, err := w.run(ctx)
	if err != nil {
		return err
	}
	head, err := bench.NewHead(ctx, programs)
	if err != nil {
		return err
	}
	return w.outcome(s, head).Write(o.out)
}
