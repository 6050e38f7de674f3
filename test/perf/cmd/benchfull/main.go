// Command benchfull runs the whole table of what Berth must reach, part by part, each by the program
// that measures it, and says row by row what was seen. A part leaves its outcome in a directory of its
// own and stays there until the part runs again, so parts can be run alone, on different days.
//
//	benchfull run [part...]     run parts, all when none is named; then the table
//	benchfull table             the table of what there is
//	benchfull check [part...]   compare with the accepted outcomes; an error says what got worse
//	benchfull accept [part...]  make the outcomes the accepted ones
//	benchfull docs              write docs/benchmarks.md, of accepted outcomes or newer ones
//
// Bounds are in test/perf/limits.yaml, accepted outcomes in test/perf/accepted. Run it with
// `make bench-full`. Start reading at parts.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/berth-scheduler/berth/test/perf/outcome"
	"github.com/berth-scheduler/berth/test/program"
)

func main() { os.Exit(program.Run("benchfull", mainErr)) }

// options are the command line.
type options struct {
	verb  string
	parts []part
	// programs is the directory of the programs that measure, upstream that of k8s.io/kubernetes.
	programs, upstream    string
	out, accepted, limits string
	docs, plots           string
	runs                  int
	steady                time.Duration
}

// verbs are what can be asked for.
var verbs = map[string]func(context.Context, options, []outcome.Limit) error{
	"run": run, "table": printTable, "check": check, "accept": accept, "docs": writeDocs,
}

func parse(args []string) (options, error) {
	var o options
	if len(args) > 0 {
		o.verb, args = args[0], args[1:]
	}
	if verbs[o.verb] == nil {
		return o, fmt.Errorf("%q: want run, table, check, accept or docs", o.verb)
	}
	set := flag.NewFlagSet("benchfull "+o.verb, flag.ContinueOnError)
	set.StringVar(&o.programs, "programs", ".build/bin", "directory of the programs that measure")
	set.StringVar(&o.upstream, "upstream", "", "directory of the module k8s.io/kubernetes, for scheduler_perf's files")
	set.StringVar(&o.out, "out", ".build/bench/full", "directory of the parts' reports")
	set.StringVar(&o.accepted, "accepted", "test/perf/accepted", "directory of accepted outcomes")
	set.StringVar(&o.limits, "limits", "test/perf/limits.yaml", "file of what must be reached")
	set.StringVar(&o.docs, "docs", "docs/benchmarks.md", "file that docs writes")
	set.StringVar(&o.plots, "plots", "", "file that docs writes what is to be plotted into; none when empty")
	set.IntVar(&o.runs, "runs", 3, "runs of each contender and setting, alternating")
	set.DurationVar(&o.steady, "steady", time.Hour, "length of the part of that name")
	if err := set.Parse(args); err != nil {
		return o, err
	}
	if o.runs < 1 {
		return o, fmt.Errorf("--runs %d: want at least 1", o.runs)
	}
	var err error
	o.parts, err = find(set.Args())
	return o, err
}

func mainErr(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	limits, err := outcome.ReadLimits(o.limits)
	if err != nil {
		return err
	}
	return verbs[o.verb](ctx, o, limits)
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
