package explain

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/berth-scheduler/berth/test/e2e/harness"
	"github.com/berth-scheduler/berth/test/perf/bench"
)

// options are the command line.
type options struct {
	pods, nodes, explains int
	timeout               time.Duration
}

// Command returns the subcommand.
func Command() *cobra.Command {
	return bench.Command("explain", "How long berth explain pod takes in a large cluster", &options{})
}

// Flags implements bench.Subcommand.
func (o *options) Flags(set *pflag.FlagSet) {
	set.IntVar(&o.pods, "pods", 150000, "pods that are bound")
	set.IntVar(&o.explains, "explains", 50, "how many of them are explained, besides one that fits nowhere")
	set.IntVar(&o.nodes, "nodes", 5000, "nodes, 32 CPUs and 110 pods each")
	set.DurationVar(&o.timeout, "timeout", time.Hour, "time everything may take")
}

// Validate implements bench.Subcommand.
func (o *options) Validate() error {
	if o.explains < 1 || o.pods < o.explains || o.nodes < 1 {
		return fmt.Errorf("--nodes %d, --pods %d, --explains %d: want at least 1, and as many pods as are explained",
			o.nodes, o.pods, o.explains)
	}
	return nil
}

// Run implements bench.Subcommand.
func (o *options) Run(ctx context.Context) error {
	programs, err := harness.Find()
	if err != nil {
		return err
	}
	m := measurement{options: *o, programs: programs}
	if err := m.run(ctx); err != nil {
		return err
	}
	return m.report(os.Stdout)
}
