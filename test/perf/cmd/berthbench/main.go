// Command berthbench measures Berth: side by side with kube-scheduler on a real API server, alone where the API
// server costs nothing, and as a model of more shards than one machine runs.
//
// Each subcommand is a package below this one, named after it, and is run by a target of the Makefile that begins
// with bench-. The duels, in test/duel and test/draduel, are subcommands too.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/berth-scheduler/berth/test/draduel"
	"github.com/berth-scheduler/berth/test/duel"
	"github.com/berth-scheduler/berth/test/perf/bench"
	"github.com/berth-scheduler/berth/test/perf/cmd/berthbench/e2e"
	"github.com/berth-scheduler/berth/test/perf/cmd/berthbench/explain"
	"github.com/berth-scheduler/berth/test/perf/cmd/berthbench/full"
	"github.com/berth-scheduler/berth/test/perf/cmd/berthbench/log"
	"github.com/berth-scheduler/berth/test/perf/cmd/berthbench/memory"
	"github.com/berth-scheduler/berth/test/perf/cmd/berthbench/null"
	"github.com/berth-scheduler/berth/test/perf/cmd/berthbench/path"
	"github.com/berth-scheduler/berth/test/perf/cmd/berthbench/perf"
	"github.com/berth-scheduler/berth/test/perf/cmd/berthbench/pgo"
	"github.com/berth-scheduler/berth/test/perf/cmd/berthbench/scale"
	"github.com/berth-scheduler/berth/test/perf/cmd/berthbench/steady"
)

func main() { os.Exit(run()) }

// run returns the exit code: 1 for an error, which is printed in one line. The first SIGINT or SIGTERM ends the
// context of the measurement, a second one kills the process.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "berthbench:", err)
		return 1
	}
	return 0
}

func command() *cobra.Command {
	root := &cobra.Command{
		Use: "berthbench", Short: "Measure Berth, alone and side by side with kube-scheduler",
		SilenceErrors: true, SilenceUsage: true,
	}
	root.CompletionOptions.DisableDefaultCmd = true
	nullPath := bench.Command("null", "A path that does no scheduling; path --null starts it", null.New())
	nullPath.Hidden = true
	root.AddCommand(
		nullPath,
		bench.Command("e2e", "Schedulers side by side with kube-scheduler, on a real API server", e2e.New()),
		bench.Command("explain", "How long berth explain pod takes in a large cluster", explain.New()),
		bench.Command("full run|table|check|accept|docs [part...]", "The whole table of what Berth must reach",
			full.New()),
		bench.Command("log", "Appends to the log of facts, and their delivery, relative to the least they can cost",
			log.New()),
		bench.Command("memory", "The memory that one shard takes to hold a cluster", memory.New()),
		bench.Command("path", "Berth's own ceiling: real log, ledger and services, binds into a sink", path.New()),
		bench.Command("perf", "scheduler_perf's workloads, side by side, on a real API server", perf.New()),
		bench.Command("pgo file...", "The profile that builds are optimised with, from processor profiles", pgo.New()),
		bench.Command("scale", "A model of 10 to 64 shards and a million nodes, checked against real runs", scale.New()),
		bench.Command("steady", "Memory and processor time of berth up over a long time, idle or at a rate", steady.New()),
		bench.Command("duel", "One script against kube-scheduler with the descheduler, and against Berth", duel.New()),
		bench.Command("dra-duel", "As many claims as devices at once, two kube-schedulers and four shards", draduel.New()),
	)
	return root
}
