// Command scale says what Berth would reach with many shards: it plays package scale's simulation for
// 10 to 64 shards and 10,000 to 1,000,000 nodes, with one ledger and one log and with several, and
// before that compares it with real processes at 1, 2 and 4 shards (reports of benchpath), and its twin of
// a shard's core with the core itself. It fails when they are further apart than compare.go allows.
//
// Start reading at mainErr; rows.go has what is played.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/berth-scheduler/berth/test/perf/outcome"
	"github.com/berth-scheduler/berth/test/perf/scale"
)

func main() {
	if err := mainErr(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

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

func parse(args []string) (options, error) {
	o := options{}
	set := flag.NewFlagSet("scale", flag.ContinueOnError)
	list := set.String("real", "", "reports of benchpath to be compared with, as file,file; empty compares with none")
	set.StringVar(&o.costs, "costs", "", "file of costs (default: the package's)")
	set.Uint64Var(&o.seed, "seed", 1, "seed of all runs")
	set.IntVar(&o.cores, "cores", runtime.NumCPU(), "processors that the processes of the real runs shared")
	set.StringVar(&o.rows, "rows", "all", "all; some: up to 100,000 nodes; or none: only compare")
	set.StringVar(&o.out, "out", ".build/bench/scale", "directory of the outcome and of plots.json")
	set.StringVar(&o.docs, "docs", "", "page to write; empty writes none")
	if err := set.Parse(args); err != nil {
		return o, err
	}
	if *list != "" {
		o.real = strings.Split(*list, ",")
	}
	switch {
	case o.cores < 1:
		return o, fmt.Errorf("--cores %d: want at least 1", o.cores)
	case o.rows != "all" && o.rows != "some" && o.rows != "none":
		return o, fmt.Errorf("--rows %q: want all, some or none", o.rows)
	case o.docs != "" && (o.rows != "all" || len(o.real) == 0):
		return o, fmt.Errorf("--docs %s with --rows %s and %d reports in --real: the page wants all rows, and a comparison",
			o.docs, o.rows, len(o.real))
	}
	return o, nil
}

func mainErr(args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	costs, err := scale.ReadCosts(o.costs)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "scale: seed %d\n", o.seed)
	result := outcome.Outcome{
		Part: "scale", Machine: outcome.ThisMachine(), Values: map[string]float64{}, Runs: 1, Versions: map[string]string{},
	}
	verdict := compareReal(o, costs, &result)
	if o.rows != "none" {
		verdict = errors.Join(verdict, compareTwin(o, costs, &result), project(o, costs, &result))
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
	return writePage(o, result)
}

// play runs a scenario and says on standard error that it has.
func play(s scale.Scenario, costs scale.Costs) (scale.Result, error) {
	begin := time.Now()
	r, err := scale.Run(s, costs)
	if err != nil {
		return r, err
	}
	fmt.Fprintf(os.Stderr, "%s: %.0f pods/s, %.2f%% refused, wall %s (%.0f s)\n",
		s, r.PodsPerSecond, r.ConflictPercent(), r.Wall, time.Since(begin).Seconds())
	return r, nil
}

func markdown(t outcome.Table) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n**%s**\n\n| %s |\n|%s\n", t.Title, strings.Join(t.Head, " | "), strings.Repeat("---|", len(t.Head)))
	for _, row := range t.Rows {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
	}
	for _, note := range t.Notes {
		fmt.Fprintf(&b, "\n%s\n", note)
	}
	return b.String()
}

// costTable is what the model was fed.
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
