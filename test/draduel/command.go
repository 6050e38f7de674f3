package draduel

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/berth-scheduler/berth/test/e2e/harness"
	"github.com/berth-scheduler/berth/test/perf/bench"
)

// options are the command line.
type options struct {
	nodes, devices int
	// exclusive claims are for one pod, and rivals pods want each.
	exclusive, rivals int
	contenders        []string
	// limit is how long a play may take until everything is bound, and again until it is gone.
	limit time.Duration
}

// pods is how many pods want a device.
func (o options) pods() int { return o.nodes * o.devices }

const (
	kubeScheduler = "kube-scheduler"
	berth         = "berth"
)

// Command returns the subcommand.
func Command() *cobra.Command {
	return bench.Command("dra-duel", "As many claims as devices at once, against two kube-schedulers and four shards",
		&options{})
}

// Flags implements bench.Subcommand.
func (o *options) Flags(set *pflag.FlagSet) {
	set.IntVar(&o.nodes, "nodes", 500, "how many nodes there are")
	set.IntVar(&o.devices, "devices", 8, "how many devices each node has; as many pods come as there are devices")
	set.IntVar(&o.exclusive, "exclusive", 50, "how many claims there are that are for one pod")
	set.IntVar(&o.rivals, "rivals", 4, "how many pods want each of those, half of them by each scheduler")
	set.DurationVar(&o.limit, "limit", 15*time.Minute, "how long until all is bound, and again until all is gone")
	bench.Contenders(set, &o.contenders, []string{kubeScheduler, berth}, "")
}

// Validate implements bench.Subcommand.
func (o *options) Validate() error {
	if o.nodes < 1 || o.devices < 1 || o.exclusive < 0 || o.rivals < 2 {
		return fmt.Errorf("--nodes: %d, --devices: %d, --exclusive: %d, --rivals: %d: want at least 1, 1, 0, 2",
			o.nodes, o.devices, o.exclusive, o.rivals)
	}
	return bench.Known("--contenders", o.contenders, []string{kubeScheduler, berth})
}

// Run implements bench.Subcommand.
func (o *options) Run(ctx context.Context) error {
	programs, err := harness.Find()
	if err != nil {
		return err
	}
	fmt.Printf("%d nodes with %d devices each, %d pods that want one at once; "+
		"%d claims for one pod, %d rivals for each.\n\n",
		o.nodes, o.devices, o.pods(), o.exclusive, o.rivals)
	var broken error
	for _, name := range o.contenders {
		d := duel{options: *o, programs: programs, contender: name}
		r, err := d.play(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		fmt.Print(r.text(name))
		if name == berth && r.bad() {
			broken = errors.New("berth gave something away twice, or lost it")
		}
	}
	return broken
}
