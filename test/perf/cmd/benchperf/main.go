// Command benchperf runs workloads of upstream's scheduler_perf against schedulers side by side, on
// a real API server: kube-scheduler, Berth in one process, Berth as separate processes, with the
// same configuration and the same clients. The files are upstream's own, read from the module
// k8s.io/kubernetes. Every run has a fresh cluster; runs alternate between the contenders, and
// after each the placements are audited from the API server's own state.
//
// Where it differs from scheduler_perf: the API server is a process with its admission plugins on
// (priorities are given through classes made on the way), the scheduler runs as it is shipped
// (feature gates of a workload are not applied), and what is reported is pods by the time from the
// first creation to the last bind, with the latency of each pod.
//
// Run it with `make bench-perf`. Start reading at bench.run, then stage.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-scheduler/berth/test/e2e/harness"
	"github.com/berth-scheduler/berth/test/perf/contend"
	"github.com/berth-scheduler/berth/test/perf/perfconfig"
	"github.com/berth-scheduler/berth/test/program"
)

func main() { os.Exit(program.Run("benchperf", mainErr)) }

// options are the command line.
type options struct {
	files, out            string
	workloads, contenders []string
	scale                 float64
	// params replace those of every workload that has them.
	params  map[string]any
	runs    int
	timeout time.Duration
}

func mainErr(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	cases, err := perfconfig.Load(o.files)
	if err != nil {
		return err
	}
	programs, err := harness.Find()
	if err != nil {
		return err
	}
	b := bench{options: o, programs: programs}
	for _, name := range o.workloads {
		c, w, err := perfconfig.Find(cases, name)
		if err != nil {
			return err
		}
		for name, value := range o.params {
			if _, known := w.Params[name]; known {
				w.Params[name] = value
			}
		}
		ops, err := c.Resolve(w, o.scale)
		if err != nil {
			return err
		}
		b.plays = append(b.plays, play{name: name, ops: ops})
	}
	results, err := b.all(ctx)
	if err != nil {
		return err
	}
	return b.report(ctx, results)
}

func parse(args []string) (options, error) {
	var o options
	var workloads, contenders string
	set := flag.NewFlagSet("benchperf", flag.ContinueOnError)
	set.StringVar(&o.files, "files", "", "upstream's directory test/integration/scheduler_perf")
	set.StringVar(&workloads, "workloads", "SchedulingBasic/500Nodes",
		"what to run, as case/workload, separated by commas")
	set.StringVar(&contenders, "contenders", strings.Join(contend.Rivals(), ","), "who runs, separated by commas")
	set.Float64Var(&o.scale, "scale", 1, "numbers of nodes and pods are multiplied by this")
	set.Func("param", "name=number: replaces a parameter of the workloads that have it; may be repeated", o.param)
	set.IntVar(&o.runs, "runs", 1, "runs of each contender and workload; 3 or more to report")
	set.StringVar(&o.out, "out", ".build/bench/perf", "directory for the JSON and Markdown reports")
	set.DurationVar(&o.timeout, "timeout", 20*time.Minute, "time one run may take")
	if err := set.Parse(args); err != nil {
		return o, err
	}
	o.workloads, o.contenders = strings.Split(workloads, ","), strings.Split(contenders, ",")
	for _, name := range o.contenders {
		if !slices.Contains(contend.Rivals(), name) {
			return o, fmt.Errorf("--contenders: %q: want some of %s", name, strings.Join(contend.Rivals(), ", "))
		}
	}
	if o.runs < 1 || o.scale <= 0 {
		return o, fmt.Errorf("--runs: %d, --scale: %g: want at least 1, and more than 0", o.runs, o.scale)
	}
	return o, nil
}

// param notes a replaced parameter.
func (o *options) param(text string) error {
	name, value, _ := strings.Cut(text, "=")
	number, err := strconv.ParseFloat(value, 64)
	if err != nil || name == "" || number < 1 {
		return fmt.Errorf("want name=number with a number of at least 1, such as measurePods=500")
	}
	if o.params == nil {
		o.params = map[string]any{}
	}
	o.params[name] = number
	return nil
}
