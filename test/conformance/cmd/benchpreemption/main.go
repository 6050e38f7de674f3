// Command benchpreemption measures preemption by the placement engine and by kube-scheduler's own code on the same
// objects, one after the other in one process on one processor.
//
// For each workload of placementbench.Crowds, pods arrive one by one in a cluster without room. A complete attempt is
// timed: the search that finds no node, the search for victims, and the update that counts the victims as gone and
// the pod as placed. No pod is killed and nothing waits.
//
// kube-scheduler runs at its defaults, which try a tenth of the nodes but not fewer than 100, and once over all
// nodes; the engine always tries all nodes, with budgets respected, keepers and victims on other nodes as by default.
//
// Run it with `make bench-preemption`. Start reading at measure, then upstream.preempt.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/berth-scheduler/berth/pkg/placement/placementbench"
)

func main() {
	// One processor for everything, the garbage collector included.
	runtime.GOMAXPROCS(1)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := mainErr(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "benchpreemption:", err)
		os.Exit(1)
	}
}

// options are the command line.
type options struct {
	nodes, preemptors int
	// box is the processor time for each run of kube-scheduler.
	box time.Duration
}

func parse(args []string) (options, error) {
	var o options
	set := flag.NewFlagSet("benchpreemption", flag.ContinueOnError)
	set.IntVar(&o.nodes, "nodes", 5000, "nodes of the cluster, with four pods each")
	set.IntVar(&o.preemptors, "preemptors", 5000, "pods that arrive at most")
	set.DurationVar(&o.box, "box", 5*time.Second, "processor time for each run of kube-scheduler")
	if err := set.Parse(args); err != nil {
		return o, err
	}
	if o.nodes < 1 || o.preemptors < 1 || o.box <= 0 {
		return o, fmt.Errorf("--nodes: %d, --preemptors: %d, --box: %s: want at least 1, 1 and more than 0",
			o.nodes, o.preemptors, o.box)
	}
	return o, nil
}

func mainErr(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	fmt.Printf("%d nodes, %d pods on them, at most %d preemptors; per second of processor time\n\n",
		o.nodes, 4*o.nodes, o.preemptors)
	fmt.Println("| preemptors | Berth, all nodes | kube-scheduler, defaults | ratio | kube-scheduler, all nodes | ratio " +
		"| victims per preemptor: Berth, defaults, all |")
	fmt.Println("|---|---|---|---|---|---|---|")
	for _, crowd := range placementbench.Crowds() {
		r, err := o.measure(ctx, crowd)
		if err != nil {
			return fmt.Errorf("%s: %w", crowd.Name, err)
		}
		fmt.Println(r)
	}
	return nil
}
