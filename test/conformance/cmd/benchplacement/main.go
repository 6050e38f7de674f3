// Command benchplacement measures the placement engine and kube-scheduler's algorithm on the same objects, one after
// the other in one process on one processor, and writes the table of docs/benchmarks-placement.md.
//
// For each workload of pkg/placement/placementbench it runs
//
//   - kube-scheduler at its defaults, which look at a sample of the nodes, for a few seconds;
//   - the engine over all nodes, for all pods of the workload;
//   - kube-scheduler over all nodes, for a few seconds;
//   - the engine again, together with a kube-scheduler that receives every placement: now and then the node that the
//     engine picks must be among those with kube-scheduler's best score. A single one that is not fails the whole
//     measurement.
//
// Run it with `make bench-placement`. Start reading at bench.workload, then race (the timed part), upstream.decide
// and ours.decide (the extent of a decision).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
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
		fmt.Fprintln(os.Stderr, "benchplacement:", err)
		os.Exit(1)
	}
}

// options are the command line.
type options struct {
	workloads []placementbench.Workload
	// nodes and pods are the size of the cluster and a bound on the pods that arrive.
	nodes, pods int
	// box is the processor time for each run of kube-scheduler.
	box time.Duration
	// samples is how many decisions per workload are checked.
	samples       int
	version       string
	memory        []string
	markdown, raw string
}

func parse(args []string) (options, error) {
	var o options
	var names, memory string
	set := flag.NewFlagSet("benchplacement", flag.ContinueOnError)
	set.StringVar(&names, "workloads", "", "which workloads, separated by commas; all when empty")
	set.IntVar(&o.nodes, "nodes", 5000, "nodes of the cluster")
	set.IntVar(&o.pods, "pods", 50_000, "pods that arrive at most; workloads may say fewer")
	set.DurationVar(&o.box, "box", 5*time.Second, "processor time for each run of kube-scheduler")
	set.IntVar(&o.samples, "samples", 50, "decisions per workload to check; 0 for none")
	set.StringVar(&o.version, "version", "", "Berth's version, for the report")
	set.StringVar(&memory, "memory", "", "reports of berthbench memory to include, separated by commas")
	set.StringVar(&o.markdown, "markdown", "", "file for the report; standard output when empty")
	set.StringVar(&o.raw, "json", "", "file for the numbers; none when empty")
	if err := set.Parse(args); err != nil {
		return o, err
	}
	if o.nodes < 1 || o.pods < 1 || o.samples < 0 || o.box <= 0 {
		return o, fmt.Errorf("--nodes: %d, --pods: %d, --samples: %d, --box: %s: want at least 1, 1, 0 and more than 0",
			o.nodes, o.pods, o.samples, o.box)
	}
	if memory != "" {
		o.memory = strings.Split(memory, ",")
	}
	if names == "" {
		o.workloads = placementbench.All()
		return o, nil
	}
	for name := range strings.SplitSeq(names, ",") {
		w, err := placementbench.Named(name)
		if err != nil {
			return o, fmt.Errorf("--workloads: %w", err)
		}
		o.workloads = append(o.workloads, w)
	}
	return o, nil
}

func mainErr(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	r, err := newReport(o)
	if err != nil {
		return err
	}
	for _, w := range o.workloads {
		w.Decisions = min(w.Decisions, o.pods)
		b := bench{options: o, load: w}
		row, err := b.workload(ctx)
		if err != nil {
			return fmt.Errorf("workload %s: %w", w.Name, err)
		}
		fmt.Fprintln(os.Stderr, row)
		r.Rows = append(r.Rows, row)
	}
	r.end()
	return errors.Join(r.write(o), r.err())
}
