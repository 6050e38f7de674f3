package perf

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/berth-scheduler/berth/test/e2e/harness"
	"github.com/berth-scheduler/berth/test/perf/bench"
	"github.com/berth-scheduler/berth/test/perf/contend"
	"github.com/berth-scheduler/berth/test/perf/perfconfig"
)

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

// Command returns the subcommand.
func Command() *cobra.Command {
	return bench.Command("perf", "scheduler_perf's workloads, side by side, on a real API server", &options{})
}

// Flags implements bench.Subcommand.
func (o *options) Flags(set *pflag.FlagSet) {
	set.StringVar(&o.files, "files", "", "upstream's directory test/integration/scheduler_perf")
	set.StringSliceVar(&o.workloads, "workloads", []string{"SchedulingBasic/500Nodes"},
		"what to run, as case/workload, separated by commas")
	bench.Contenders(set, &o.contenders, contend.Rivals(), "")
	set.Float64Var(&o.scale, "scale", 1, "numbers of nodes and pods are multiplied by this")
	set.Func("param", "name=number: replaces a parameter of the workloads that have it; may be repeated", o.param)
	set.IntVar(&o.runs, "runs", 1, "runs of each contender and workload; 3 or more to report")
	set.StringVar(&o.out, "out", ".build/bench/perf", "directory for the JSON and Markdown reports")
	set.DurationVar(&o.timeout, "timeout", 20*time.Minute, "time one run may take")
}

// Validate implements bench.Subcommand.
func (o *options) Validate() error {
	if o.runs < 1 || o.scale <= 0 {
		return fmt.Errorf("--runs: %d, --scale: %g: want at least 1, and more than 0", o.runs, o.scale)
	}
	return bench.Known("--contenders", o.contenders, contend.Rivals())
}

// Run implements bench.Subcommand.
func (o *options) Run(ctx context.Context) error {
	cases, err := perfconfig.Load(o.files)
	if err != nil {
		return err
	}
	programs, err := harness.Find()
	if err != nil {
		return err
	}
	m := measurement{options: *o, programs: programs}
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
		m.plays = append(m.plays, play{name: name, ops: ops})
	}
	results, err := m.all(ctx)
	if err != nil {
		return err
	}
	return m.report(ctx, results)
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
