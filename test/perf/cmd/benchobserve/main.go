// Command benchobserve measures what it costs to be observed: the processor time of Berth for a
// pod with and without the records of what attempts weighed, with and without tracing of a share
// of the pods; how many of the pods' complete traces the OpenTelemetry collector's receiver gets
// in the same run; and how long `berth explain pod` takes in the cluster that is there at the end.
//
// Every run has a fresh cluster of plain nodes without kubelets, whose pods exist before Berth
// starts, and runs alternate between the variants. Processor time is what is compared: it depends
// less on what else the machine does than the time on the clock.
//
// Run it with `make bench-observe`. Start reading at bench.all, then variants.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/berth-scheduler/berth/test/e2e/harness"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := mainErr(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "benchobserve:", err)
		os.Exit(1)
	}
}

// options are the command line.
type options struct {
	runs, pods int
	ratio      float64
	explains   int
	nodes      string
	variants   []string
	enforce    bool
	timeout    time.Duration
}

func mainErr(ctx context.Context, args []string) error {
	o := options{}
	var names string
	set := flag.NewFlagSet("benchobserve", flag.ContinueOnError)
	set.IntVar(&o.runs, "runs", 3, "runs of each variant")
	set.IntVar(&o.pods, "pods", 10000, "pods per run")
	set.Float64Var(&o.ratio, "ratio", 0.1, "share of the pods that is traced")
	set.IntVar(&o.explains, "explains", 20, "how many pods of the last plain run are explained")
	set.StringVar(&o.nodes, "nodes", "tools/cluster/examples/bench-nodes.yaml", "node file of the cluster driver")
	set.StringVar(&names, "variants", strings.Join(variantNames(), ","), "who runs, separated by commas")
	set.BoolVar(&o.enforce, "enforce", false, "fail when a limit is passed; on a machine of its own")
	set.DurationVar(&o.timeout, "timeout", time.Hour, "time one run may take")
	if err := set.Parse(args); err != nil {
		return err
	}
	if o.runs < 1 || o.pods < 1 || o.ratio <= 0 || o.ratio > 1 {
		return fmt.Errorf("--runs: %d, --pods: %d, --ratio: %g: want at least 1, 1, and more than 0 up to 1",
			o.runs, o.pods, o.ratio)
	}
	o.variants = strings.Split(names, ",")
	programs, err := harness.Find()
	if err != nil {
		return err
	}
	o.nodes = filepath.Join(programs.Root, o.nodes)
	b := bench{options: o, programs: programs}
	if err := b.all(ctx); err != nil {
		return err
	}
	return b.report(os.Stdout)
}
