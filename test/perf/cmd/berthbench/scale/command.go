package scale

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/berth-scheduler/berth/test/perf/bench"
	"github.com/berth-scheduler/berth/test/perf/outcome"
	"github.com/berth-scheduler/berth/test/perf/scale"
)

// options are the command line.
type options struct {
	real  []string
	costs string
	seed  uint64
	cores int
	rows  string
	out   string
	docs  string
}

// New returns the subcommand.
func New() bench.Subcommand { return &options{} }

// Flags implements bench.Subcommand.
func (o *options) Flags(set *pflag.FlagSet) {
	set.StringSliceVar(&o.real, "real", nil,
		"reports of berthbench path to be compared with, as file,file; empty compares with none")
	set.StringVar(&o.costs, "costs", "", "file of costs (default: the package's)")
	set.Uint64Var(&o.seed, "seed", 1, "seed of all runs")
	set.IntVar(&o.cores, "cores", runtime.NumCPU(), "processors that the processes of the real runs shared")
	set.StringVar(&o.rows, "rows", "all", "all; some: up to 100,000 nodes; or none: only compare")
	set.StringVar(&o.out, "out", ".build/bench/scale", "directory of the outcome and of plots.json")
	set.StringVar(&o.docs, "docs", "", "page to write; empty writes none")
}

// Validate implements bench.Subcommand.
func (o *options) Validate() error {
	switch {
	case o.cores < 1:
		return fmt.Errorf("--cores %d: want at least 1", o.cores)
	case o.rows != "all" && o.rows != "some" && o.rows != "none":
		return fmt.Errorf("--rows %q: want all, some or none", o.rows)
	case o.docs != "" && (o.rows != "all" || len(o.real) == 0):
		return fmt.Errorf("--docs %s with --rows %s and %d reports in --real: the page wants all rows, and a comparison",
			o.docs, o.rows, len(o.real))
	}
	return nil
}

// Run implements bench.Subcommand.
func (o *options) Run(ctx context.Context) error {
	costs, err := scale.ReadCosts(o.costs)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "scale: seed %d\n", o.seed)
	result := outcome.Outcome{
		Part: "scale", Machine: outcome.ThisMachine(), Values: map[string]float64{}, Runs: 1, Versions: map[string]string{},
	}
	verdict := compareReal(ctx, *o, costs, &result)
	if o.rows != "none" {
		verdict = errors.Join(verdict, compareTwin(ctx, *o, costs, &result), project(ctx, *o, costs, &result))
	}
	result.Time, result.Machine = time.Now().UTC(), outcome.ThisMachine()
	result.Tables = append(result.Tables, costTable(costs))
	for _, t := range result.Tables {
		fmt.Print(markdown(t))
	}
	if err := result.Write(o.out); err != nil {
		return err
	}
	if verdict != nil {
		return verdict
	}
	return writePage(*o, result)
}

// play runs a scenario and reports on standard error that it has, unless ctx has ended.
func play(ctx context.Context, s scale.Scenario, costs scale.Costs) (scale.Result, error) {
	if ctx.Err() != nil {
		return scale.Result{}, ctx.Err()
	}
	begin := time.Now()
	r, err := scale.Run(s, costs)
	if err != nil {
		return r, err
	}
	fmt.Fprintf(os.Stderr, "%s: %.0f pods/s, %.2f%% refused, wall %s (%.0f s)\n",
		s, r.PodsPerSecond, r.ConflictPercent(), r.Wall, time.Since(begin).Seconds())
	return r, nil
}

// markdown is a table with its title.
func markdown(t outcome.Table) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n**%s**\n\n", t.Title)
	t.Markdown(&b)
	return b.String()
}

// costTable lists the costs that the model used.
func costTable(costs scale.Costs) outcome.Table {
	t := outcome.Table{Title: "What the model is fed", Head: []string{"cost", "of", "value", "measured by"}}
	for _, name := range costs.Names() {
		c := costs[name]
		value := outcome.Number(c.Micros) + " µs"
		if c.Bytes > 0 {
			value = outcome.Number(c.Bytes) + " bytes"
		}
		t.Rows = append(t.Rows, []string{"`" + name + "`", c.Says, value, c.Evidence})
	}
	return t
}

func ensureDir(path string) error { return os.MkdirAll(filepath.Dir(path), 0o755) }
