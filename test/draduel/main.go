// Command draduel gives one load of claims to two kube-schedulers, and to four shards of Berth, and
// counts from the API server's own state what is in two claims, or in the claim of nobody.
//
// As many pods come at once as there are devices, each with a claim that is made for it; half name
// one scheduler and half the other. Beside them come pods that want claims which are for one pod
// (ReadWriteOncePod), several for each. The kube-schedulers are two processes, as teams have them who
// want schedulers of their own; Berth has two queues, four shards and two binders, and one shard and
// one binder are killed when a third of the pods are bound and started again when two thirds are.
//
// When everything is bound, all pods are deleted, and what is still in a claim then has leaked.
//
// Run it with `make dra-duel`. Start reading at account.go (what is counted), then duel.play.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/berth-scheduler/berth/test/e2e/harness"
	"github.com/berth-scheduler/berth/test/program"
)

func main() { os.Exit(program.Run("draduel", mainErr)) }

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

func parse(args []string) (options, error) {
	var o options
	var list string
	set := flag.NewFlagSet("draduel", flag.ContinueOnError)
	set.IntVar(&o.nodes, "nodes", 500, "how many nodes there are")
	set.IntVar(&o.devices, "devices", 8, "how many devices each node has; as many pods come as there are devices")
	set.IntVar(&o.exclusive, "exclusive", 50, "how many claims there are that are for one pod")
	set.IntVar(&o.rivals, "rivals", 4, "how many pods want each of those, half of them by each scheduler")
	set.DurationVar(&o.limit, "limit", 15*time.Minute, "how long until all is bound, and again until all is gone")
	set.StringVar(&list, "contenders", kubeScheduler+","+berth, "who plays, separated by commas")
	if err := set.Parse(args); err != nil {
		return o, err
	}
	var err error
	if o.contenders, err = program.Choice("contenders", list, []string{kubeScheduler, berth}); err != nil {
		return o, err
	}
	if o.nodes < 1 || o.devices < 1 || o.exclusive < 0 || o.rivals < 2 {
		return o, fmt.Errorf("--nodes: %d, --devices: %d, --exclusive: %d, --rivals: %d: want at least 1, 1, 0, 2",
			o.nodes, o.devices, o.exclusive, o.rivals)
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
	fmt.Printf("%d nodes with %d devices each, %d pods that want one at once; "+
		"%d claims for one pod, %d rivals for each.\n\n",
		o.nodes, o.devices, o.pods(), o.exclusive, o.rivals)
	var broken error
	for _, name := range o.contenders {
		d := duel{options: o, programs: programs, contender: name}
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
