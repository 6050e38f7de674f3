package full

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"

	"github.com/berth-scheduler/berth/test/perf/bench"
	"github.com/berth-scheduler/berth/test/perf/outcome"
)

// options are the command line.
type options struct {
	verb  string
	parts []part
	// program is berthbench itself, which measures the parts; upstream is the directory of k8s.io/kubernetes.
	program, upstream     string
	out, accepted, limits string
	docs, plots           string
	runs                  int
	steady                time.Duration
}

// verbs are the subcommands.
var verbs = map[string]func(context.Context, options, []outcome.Limit) error{
	"run": run, "table": printTable, "check": check, "accept": accept, "docs": writeDocs,
}

// New returns the subcommand.
func New() bench.Subcommand { return &options{} }

// Flags implements bench.Subcommand.
func (o *options) Flags(set *pflag.FlagSet) {
	set.StringVar(&o.upstream, "upstream", "", "directory of the module k8s.io/kubernetes, for scheduler_perf's files")
	set.StringVar(&o.out, "out", ".build/bench/full", "directory of the parts' reports")
	set.StringVar(&o.accepted, "accepted", "test/perf/accepted", "directory of accepted outcomes")
	set.StringVar(&o.limits, "limits", "test/perf/limits.yaml", "file of what must be reached")
	set.StringVar(&o.docs, "docs", "docs/benchmarks.md", "file that docs writes")
	set.StringVar(&o.plots, "plots", "", "file that docs writes what is to be plotted into; none when empty")
	set.IntVar(&o.runs, "runs", 3, "runs of each contender and setting, alternating")
	set.DurationVar(&o.steady, "steady", time.Hour, "length of the part of that name")
}

// Args implements bench.Positional: what to do, and the parts.
func (o *options) Args(args []string) (err error) {
	if len(args) > 0 {
		o.verb, args = args[0], args[1:]
	}
	if verbs[o.verb] == nil {
		return fmt.Errorf("%q: want run, table, check, accept or docs", o.verb)
	}
	o.parts, err = find(args)
	return err
}

// Validate implements bench.Subcommand.
func (o *options) Validate() error {
	if o.runs < 1 {
		return fmt.Errorf("--runs %d: want at least 1", o.runs)
	}
	return nil
}

// Run implements bench.Subcommand.
func (o *options) Run(ctx context.Context) error {
	limits, err := outcome.ReadLimits(o.limits)
	if err != nil {
		return err
	}
	if o.program, err = os.Executable(); err != nil {
		return err
	}
	return verbs[o.verb](ctx, *o, limits)
}

// readAll is the outcomes there are, by part. Where each is said by path.
func readAll(path func(string) string) (map[string]*outcome.Outcome, error) {
	all := map[string]*outcome.Outcome{}
	for _, p := range parts {
		one, err := outcome.Read(path(p.name))
		switch {
		case os.IsNotExist(err):
		case err != nil:
			return nil, err
		default:
			all[p.name] = &one
		}
	}
	return all, nil
}

func (o options) measured() (map[string]*outcome.Outcome, error) {
	return readAll(func(part string) string { return filepath.Join(o.out, part, outcome.FileName) })
}

func (o options) acceptedPath(part string) string { return filepath.Join(o.accepted, part+".json") }
