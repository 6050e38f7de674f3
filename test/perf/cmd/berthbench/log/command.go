package log

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/berth-scheduler/berth/test/e2e/harness"
	"github.com/berth-scheduler/berth/test/perf/bench"
)

// options are the command line.
type options struct {
	runs, rounds, facts, together int
	out                           string
	timeout                       time.Duration
}

// New returns the subcommand.
func New() bench.Subcommand { return &options{} }

// Flags implements bench.Subcommand.
func (o *options) Flags(set *pflag.FlagSet) {
	set.IntVar(&o.runs, "runs", 1, "runs of each setting; 3 or more to report")
	set.IntVar(&o.rounds, "rounds", 6, "rounds of a run; in each, appends of both sizes and both readers have their turn")
	set.IntVar(&o.facts, "facts", 25600, "facts that readers read")
	set.IntVar(&o.together, "together", 64, "facts in the larger append, and in a message that the bare reader counts")
	set.StringVar(&o.out, "out", ".build/bench/log", "directory for the JSON and Markdown reports")
	set.DurationVar(&o.timeout, "timeout", 5*time.Minute, "time one run may take")
}

// Validate implements bench.Subcommand.
func (o *options) Validate() error {
	if o.runs < 1 || o.rounds < 1 || o.together < 2 || o.facts < o.together {
		return fmt.Errorf("--runs %d, --rounds %d, --together %d, --facts %d: want at least 1, 1, 2, and --together",
			o.runs, o.rounds, o.together, o.facts)
	}
	return nil
}

// Run implements bench.Subcommand.
func (o *options) Run(ctx context.Context) error {
	programs, err := harness.Find()
	if err != nil {
		return err
	}
	m := measurement{options: *o, programs: programs}
	results, err := m.all(ctx)
	if err != nil {
		return err
	}
	head, err := bench.NewHead(ctx, programs)
	if err != nil {
		return err
	}
	r := report{Head: head, Facts: o.facts, Together: o.together, Results: results}
	return bench.Write(o.out, reportName, r, r.markdown(), r.outcome(o.runs))
}
