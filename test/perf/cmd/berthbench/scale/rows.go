package scale

import (
	"context"
	"fmt"

	"github.com/berth-scheduler/berth/test/perf/outcome"
	"github.com/berth-scheduler/berth/test/perf/scale"
)

const (
	// podsPerShard is how many pods each run has for a shard: several windows of offers.
	podsPerShard = 600
	// managed and largest are binds a second that API servers were seen to take: one managed cluster
	// of 130,000 nodes, and five API servers of 192 processors over a store without a disk.
	managed, largest = 1_000, 14_000
)

var (
	// shardCounts are by workload: leaning pods only get slower with more shards, and take the longer to play.
	shardCounts = map[string][]int{scale.Plain: {10, 16, 32, 64}, scale.Leaning: {1, 2, 4, 10, 32}}
	splits      = []int{2, 4, 8}
)

func (o options) nodeCounts(workload string) []int {
	if o.rows == "some" || workload == scale.Leaning {
		return []int{10_000, 100_000}
	}
	return []int{10_000, 100_000, 1_000_000}
}

// base is a row with everything once and a processor for each process.
func (o options) base(shards, nodes int, workload string) scale.Scenario {
	return scale.Scenario{
		Shards: shards, Nodes: nodes, Pods: podsPerShard * shards, Full: 50, Workload: workload, Binders: shards,
		Split: scale.Split{Ledgers: 1, Logs: 1}, Even: true, Seed: o.seed,
	}
}

// project plays all rows.
func project(ctx context.Context, o options, costs scale.Costs, to *outcome.Outcome) error {
	rates := outcome.Plot{Name: "scale-rate", Title: "Plain pods per second, one ledger and one log",
		X: outcome.Axis{Label: "shards"}, Y: outcome.Axis{Label: "pods/s"}}
	refused := outcome.Plot{Name: "scale-conflicts", Title: "Refused transactions, leaning pods",
		X: outcome.Axis{Label: "shards"}, Y: outcome.Axis{Label: "% of transactions"}}
	for _, workload := range []string{scale.Plain, scale.Leaning} {
		t := outcome.Table{Title: fmt.Sprintf("One ledger, one log, %s pods", workload), Head: head("shards", "nodes")}
		for _, nodes := range o.nodeCounts(workload) {
			rate, share, err := o.overShards(ctx, nodes, workload, costs, &t)
			if err != nil {
				return err
			}
			if workload == scale.Plain {
				rates.Lines = append(rates.Lines, rate)
			} else {
				refused.Lines = append(refused.Lines, share)
			}
		}
		to.Tables = append(to.Tables, t)
	}
	to.Plots = append(to.Plots, rates, refused)
	if err := projectSplits(ctx, o, costs, to); err != nil {
		return err
	}
	return projectServers(ctx, o, costs, to)
}

// overShards plays a number of nodes with every number of shards.
func (o options) overShards(
	ctx context.Context, nodes int, workload string, costs scale.Costs, t *outcome.Table,
) (rate, share outcome.Line, err error) {
	rate.Name = outcome.Number(float64(nodes)) + " nodes"
	share.Name = rate.Name
	for _, shards := range shardCounts[workload] {
		r, err := play(ctx, o.base(shards, nodes, workload), costs)
		if err != nil {
			return rate, share, err
		}
		t.Rows = append(t.Rows, append([]string{fmt.Sprint(shards), outcome.Number(float64(nodes))}, cells(r)...))
		rate.Points = append(rate.Points, [2]float64{float64(shards), r.Steady})
		share.Points = append(share.Points, [2]float64{float64(shards), r.ConflictPercent()})
	}
	return rate, share, nil
}

// projectSplits has several ledgers, several logs, and shards that read their own range alone.
func projectSplits(ctx context.Context, o options, costs scale.Costs, to *outcome.Outcome) error {
	const shards, nodes = 64, 100_000
	t := outcome.Table{
		Title: "64 shards, 100,000 nodes: what moves the bottleneck", Head: head("ledgers", "logs", "shards read", "pods")}
	plot := outcome.Plot{Name: "scale-splits", Title: "64 shards, 100,000 nodes, plain pods",
		X: outcome.Axis{Label: "ranges of nodes"}, Y: outcome.Axis{Label: "pods/s"}}
	ways := []struct {
		name, workload string
		split          func(n int) scale.Split
	}{
		{"ledgers", scale.Plain, func(n int) scale.Split { return scale.Split{Ledgers: n, Logs: 1} }},
		{"logs", scale.Plain, func(n int) scale.Split { return scale.Split{Ledgers: 1, Logs: n} }},
		{"ledgers and logs", scale.Plain, func(n int) scale.Split { return scale.Split{Ledgers: n, Logs: n} }},
		{"both, own range only", scale.Plain, func(n int) scale.Split {
			return scale.Split{Ledgers: n, Logs: n, OwnRange: true}
		}},
	}
	for _, way := range ways {
		line := outcome.Line{Name: way.name}
		for _, n := range append([]int{1}, splits...) {
			s := o.base(shards, nodes, way.workload)
			s.Split = way.split(n)
			r, err := play(ctx, s, costs)
			if err != nil {
				return err
			}
			line.Points = append(line.Points, [2]float64{float64(n), r.Steady})
			if n == 1 && way.name != "ledgers" {
				continue // the same as the first row
			}
			read := "all"
			if s.OwnRange {
				read = "their range"
			}
			t.Rows = append(t.Rows, append([]string{fmt.Sprint(s.Ledgers), fmt.Sprint(s.Logs), read, way.workload}, cells(r)...))
		}
		if way.workload == scale.Plain {
			plot.Lines = append(plot.Lines, line)
		}
	}
	to.Tables, to.Plots = append(to.Tables, t), append(to.Plots, plot)
	return nil
}

// projectServers puts an API server in the way that takes as many binds as some were seen to take.
func projectServers(ctx context.Context, o options, costs scale.Costs, to *outcome.Outcome) error {
	t := outcome.Table{
		Title: "With an API server in the way, 100,000 nodes, plain pods", Head: head("shards", "binds/s it takes")}
	for _, binds := range []float64{managed, largest} {
		for _, shards := range []int{10, 64} {
			s := o.base(shards, 100_000, scale.Plain)
			s.BindsPerSecond = binds
			r, err := play(ctx, s, costs)
			if err != nil {
				return err
			}
			t.Rows = append(t.Rows, append([]string{fmt.Sprint(shards), outcome.Number(binds)}, cells(r)...))
		}
	}
	to.Tables = append(to.Tables, t)
	return nil
}

// head is the head of a table of projections, after the columns that identify its rows.
func head(columns ...string) []string {
	return append(columns, "pods/s", "refused", "searches a pod", "ledger unseen, p50 / p99 ms", "revisions unseen",
		"binds unseen, p50 ms", "a shard's GB", "busiest", "busy", "next")
}

func cells(r scale.Result) []string {
	n := outcome.Number
	next, busy := "", 0.0
	for _, kind := range []string{"scheduler", "queue", "binder", "etcd", "nats", "API server"} {
		if u := r.Utilisation[kind]; kind != r.Wall && u > busy {
			next, busy = kind, u
		}
	}
	return []string{
		n(r.Steady), fmt.Sprintf("%.1f%%", r.ConflictPercent()),
		fmt.Sprintf("%.2f", float64(r.Searches)/float64(max(1, r.Placed))),
		fmt.Sprintf("%.1f / %.1f", r.Age.LedgerP50, r.Age.LedgerP99), n(r.Age.Revisions), n(r.Age.FactsP50),
		n(r.MemoryBytes / 1e9), r.Wall, fmt.Sprintf("%.0f%%", 100*r.Busy), fmt.Sprintf("%s %.0f%%", next, 100*busy),
	}
}
