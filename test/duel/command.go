package duel

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
	seed       int64
	seeds      int
	length     time.Duration
	contenders []string
	out        string
}

// Command returns the subcommand.
func Command() *cobra.Command {
	return bench.Command("duel", "One script against kube-scheduler with the descheduler, and against Berth", &options{})
}

// Flags implements bench.Subcommand.
func (o *options) Flags(set *pflag.FlagSet) {
	set.Int64Var(&o.seed, "seed", 1, "the first seed")
	set.IntVar(&o.seeds, "seeds", 3, "how many seeds are played, counting up")
	set.DurationVar(&o.length, "length", time.Minute, "how long pods arrive for in one play")
	bench.Contenders(set, &o.contenders, []string{"kube-scheduler", "berth"}, "")
	set.StringVar(&o.out, "out", "", "file for the report in Markdown; empty for standard output only")
}

// Validate implements bench.Subcommand.
func (o *options) Validate() error {
	if o.seeds < 1 || o.length < time.Second {
		return fmt.Errorf("--seeds: %d, --length: %s: want at least 1 and 1s", o.seeds, o.length)
	}
	return bench.Known("--contenders", o.contenders, contenderNames())
}

// Run implements bench.Subcommand.
func (o *options) Run(ctx context.Context) error {
	programs, err := harness.Find()
	if err != nil {
		return err
	}
	d := &duel{options: *o, programs: programs}
	results, err := d.all(ctx)
	if err != nil {
		return err
	}
	return d.report(ctx, results)
}
