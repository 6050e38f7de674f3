// Command duel plays one script against kube-scheduler with the descheduler, and against Berth, and
// lets a neutral observer (package observe) count what each does to pods that it should not.
//
// A script comes from its seed alone: which pods of what size, priority and scheduler arrive when,
// which of them leave again, and when somebody else evicts a pod of which application. The cluster
// is full from the beginning, of applications with disruption budgets and of others without, some of
// whose pods take their time to stop. kube-scheduler runs twice, as it does where teams have
// schedulers of their own, each for the pods that name it; Berth gets the same two profiles in one
// file and runs them with two shards. Both have a descheduler with the same policy, which wants the
// pods with budgets too, because they have run for a while. kube-scheduler-alone, which is not played
// unless asked for, is one kube-scheduler with both profiles.
//
// Run it with `make duel`. Start reading at script.go, then duel.play.
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

func main() { os.Exit(program.Run("duel", mainErr)) }

// options are the command line.
type options struct {
	seed       int64
	seeds      int
	length     time.Duration
	contenders []string
	out        string
}

func mainErr(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	programs, err := harness.Find()
	if err != nil {
		return err
	}
	d := &duel{options: o, programs: programs}
	results, err := d.all(ctx)
	if err != nil {
		return err
	}
	return d.report(ctx, results)
}

func parse(args []string) (options, error) {
	var o options
	var list string
	set := flag.NewFlagSet("duel", flag.ContinueOnError)
	set.Int64Var(&o.seed, "seed", 1, "the first seed")
	set.IntVar(&o.seeds, "seeds", 3, "how many seeds are played, counting up")
	set.DurationVar(&o.length, "length", time.Minute, "how long pods arrive for in one play")
	set.StringVar(&list, "contenders", "kube-scheduler,berth", "who plays, separated by commas")
	set.StringVar(&o.out, "out", "", "file for the report in Markdown; empty for standard output only")
	if err := set.Parse(args); err != nil {
		return o, err
	}
	var err error
	if o.contenders, err = program.Choice("contenders", list, contenderNames()); err != nil {
		return o, err
	}
	if o.seeds < 1 || o.length < time.Second {
		return o, fmt.Errorf("--seeds: %d, --length: %s: want at least 1 and 1s", o.seeds, o.length)
	}
	return o, nil
}
