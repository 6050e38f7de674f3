// Command benche2e measures schedulers side by side on a real API server: kube-scheduler, Berth
// in one process, Berth as separate processes. Every run has a fresh cluster of plain nodes
// without kubelets, the same pods, the same client and the same KubeSchedulerConfiguration;
// runs alternate between the contenders, so that a slow phase of the machine hits all of them.
//
// In mode live the scheduler runs and pods arrive as fast as parallel clients can create them;
// latency is from the watch event that shows the pod to the one that shows its node, both at the
// time this program received them. In mode drain the pods exist before the scheduler starts, so
// what is measured is how fast it works when nothing but itself limits it; raw contenders, which
// bind without deciding anything, show how fast anybody could be, and in mode open how soon. Other pods can be
// there in mode live: blocked ones that fit nowhere, and ones that go while it runs. In mode
// open pods arrive at a rate, each when it is due, however slow the answers are. In mode
// preempt every node is full of pods of low priority, and those that arrive have a high one; each
// of them has room on a node as soon as one of the others has gone. In mode failover there are two
// replicas of the scheduler, pods arrive at a rate, and the replica that leads is killed in the middle.
//
// After each run the cluster is audited from the API server's own state; a finding fails the
// whole measurement, because a fast wrong placement is not a result.
//
// Run it with `make bench-e2e`. Start reading at bench.run, then contender.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/berth-scheduler/berth/test/e2e/harness"
	"github.com/berth-scheduler/berth/test/perf/contend"
	"github.com/berth-scheduler/berth/test/program"
)

func main() { os.Exit(program.Run("benche2e", mainErr)) }

// options are the command line.
type options struct {
	runs, pods        int
	blocked, leaving  int
	standing          int
	contenders, modes []string
	nodes, out        string
	rate              float64
	timeout           time.Duration
	profiling         bool
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
	b := bench{options: o, programs: programs}
	results, err := b.all(ctx)
	if err != nil {
		return err
	}
	return b.report(ctx, results)
}

// pairs says whether a contender was asked for and can have two replicas.
func (o options) pairs(c contend.Contender) bool {
	return c.StartPair != nil && slices.Contains(o.contenders, c.Name)
}

func parse(args []string) (options, error) {
	var o options
	var list, modes string
	set := flag.NewFlagSet("benche2e", flag.ContinueOnError)
	set.IntVar(&o.runs, "runs", 1, "runs of each contender in each mode; 3 or more to report")
	set.IntVar(&o.pods, "pods", 5000, "pods per run, 100m CPU and 500Mi each")
	set.IntVar(&o.blocked, "blocked", 0, "pods beside them that fit nowhere, in mode live")
	set.IntVar(&o.leaving, "leaving", 0, "pods beside them that are deleted meanwhile, in mode live")
	set.IntVar(&o.standing, "standing", 4, "pods of low priority that fill each node, in mode preempt")
	set.StringVar(&list, "contenders", strings.Join(contend.Rivals(), ","),
		"who runs, separated by commas; raw-8, raw-16, raw-32 and raw-64 only bind, in modes drain and open")
	set.StringVar(&modes, "modes", "live,drain", "live, drain or both; or preempt, open or failover")
	set.Float64Var(&o.rate, "rate", 50, "pods that arrive per second in modes open and failover")
	set.StringVar(&o.nodes, "nodes", "tools/cluster/examples/bench-nodes.yaml", "node file of the cluster driver")
	set.StringVar(&o.out, "out", ".build/bench", "directory for the JSON and Markdown reports")
	set.DurationVar(&o.timeout, "timeout", 10*time.Minute, "time one run may take to place its pods")
	set.BoolVar(&o.profiling, "profiling", false, "let Berth serve /debug/pprof, at the --http-address of its processes")
	if err := set.Parse(args); err != nil {
		return o, err
	}
	o.contenders, o.modes = strings.Split(list, ","), strings.Split(modes, ",")
	for _, name := range o.contenders {
		if !slices.Contains(contend.Names(), name) {
			return o, fmt.Errorf("--contenders: %q: want some of %s", name, strings.Join(contend.Names(), ", "))
		}
	}
	for _, name := range o.modes {
		if !slices.Contains(modesInOrder, name) {
			return o, fmt.Errorf("--modes: %q: want some of %s", name, strings.Join(modesInOrder, ", "))
		}
	}
	if slices.Contains(o.modes, failover) && !slices.ContainsFunc(contend.Contenders, o.pairs) {
		return o, fmt.Errorf("--contenders: %s: in mode %s want one that can have two replicas: kube-scheduler or berth",
			list, failover)
	}
	if slices.Contains(o.modes, preempt) && len(o.modes) > 1 {
		return o, errors.New("--modes: preempt wants nodes of its own: give it alone, and --nodes with it")
	}
	if o.blocked+o.leaving > 0 && !slices.Equal(o.modes, []string{live}) {
		return o, errors.New("--blocked, --leaving: want --modes live with them")
	}
	if o.runs < 1 || o.pods < 1 || o.rate <= 0 {
		return o, fmt.Errorf("--runs: %d, --pods: %d, --rate: %g: want at least 1 of each, and more than 0",
			o.runs, o.pods, o.rate)
	}
	return o, nil
}
