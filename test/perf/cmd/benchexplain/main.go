// Command benchexplain measures how long `berth explain pod` takes in a large cluster, from the
// start of its process to its end: right after the last of many pods was bound, and once everything
// is at rest.
//
// Run it with `make bench-explain`. Start reading at bench.run.
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

func main() { os.Exit(program.Run("benchexplain", mainErr)) }

// options are the command line.
type options struct {
	pods, nodes, explains int
	timeout               time.Duration
}

func mainErr(ctx context.Context, args []string) error {
	o := options{}
	set := flag.NewFlagSet("benchexplain", flag.ContinueOnError)
	set.IntVar(&o.pods, "pods", 150000, "pods that are bound")
	set.IntVar(&o.explains, "explains", 50, "how many of them are explained, besides one that fits nowhere")
	set.IntVar(&o.nodes, "nodes", 5000, "nodes, 32 CPUs and 110 pods each")
	set.DurationVar(&o.timeout, "timeout", time.Hour, "time everything may take")
	if err := set.Parse(args); err != nil {
		return err
	}
	if o.explains < 1 || o.pods < o.explains || o.nodes < 1 {
		return fmt.Errorf("--nodes %d, --pods %d, --explains %d: want at least 1, and as many pods as are explained",
			o.nodes, o.pods, o.explains)
	}
	programs, err := harness.Find()
	if err != nil {
		return err
	}
	b := bench{options: o, programs: programs}
	if err := b.run(ctx); err != nil {
		return err
	}
	return b.report(os.Stdout)
}
