package e2e

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/test/e2e/harness"
	"github.com/berth-scheduler/berth/test/perf/bench"
	"github.com/berth-scheduler/berth/test/perf/contend"
)

// leastRequests is how many requests per pod of one kind are worth a mention.
const leastRequests = 0.005

// reportName is the file name of both reports, without the suffix.
const reportName = "bench-e2e"

// report is the JSON report.
type report struct {
	bench.Head
	// Peer is the version that Berth is compared with.
	Peer string `json:"peer"`
	// Nodes is the node file, Config what every contender got.
	Nodes string `json:"nodes"`
	// Blocked and Leaving are how many other pods there are.
	Blocked int `json:"blocked,omitempty"`
	Leaving int `json:"leaving,omitempty"`
	// Sync reports whether the API server's etcd synced every write.
	Sync   bool   `json:"fsync,omitempty"`
	Config string `json:"config"`

	Results []result `json:"results"`
}

// report writes both reports and prints the table.
func (m *measurement) report(ctx context.Context, results []result) error {
	head, err := bench.NewHead(ctx, m.programs)
	if err != nil {
		return err
	}
	r := report{
		Head: head, Peer: contend.PeerVersion, Nodes: m.nodes, Config: contend.Config, Results: results,
		Blocked: m.blocked, Leaving: m.leaving, Sync: m.fsync,
	}
	return bench.Write(m.out, reportName, r, r.markdown(), r.outcome(m.runs))
}

// markdown is the report for people: one table per mode.
func (r report) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Side by side with kube-scheduler\n\n%s, %s. %s\n", r.Berth, r.Peer, r.Where())
	fmt.Fprintf(&b, "Nodes: `%s`. All placements of all runs passed the audit. Medians over the runs.\n", r.Nodes)
	if r.Sync {
		b.WriteString("The API server's etcd synced every write.\n")
	}
	if r.Blocked+r.Leaving > 0 {
		fmt.Fprintf(&b, "Beside them, %d pods that fit nowhere, and %d that are deleted.\n", r.Blocked, r.Leaving)
	}
	for _, mode := range modesInOrder {
		rows := r.rows(mode)
		if len(rows) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n## Mode %s\n\n", mode)
		if mode == preempt {
			r.victims(&b, rows)
		}
		b.WriteString("| contender | runs | wall s | pods/s | ratio | p50 ms | p90 ms | p99 ms | max ms |" +
			" events after s | CPU s | API server's CPU s |\n")
		b.WriteString("|---|---|---|---|---|---|---|---|---|---|---|---|\n")
		for _, row := range rows {
			fmt.Fprintf(&b, "| %s | %d | %.1f | %.0f | %s | %.0f | %.0f | %.0f | %.0f | %.1f | %.1f | %.1f |\n",
				row.Contender, row.Run, row.WallSeconds, row.PodsPerSecond, ratio(row, rows[0]),
				row.Latency.P50, row.Latency.P90, row.Latency.P99, row.Latency.Max,
				row.EventSeconds, row.CPUSeconds, row.Cluster.ServerSeconds)
		}
		r.arrivals(&b, rows)
		r.gaps(&b, rows)
		for _, t := range memoryTables(mode, rows) {
			fmt.Fprintf(&b, "\n%s\n\n", t.Title)
			t.Markdown(&b)
		}
		r.requests(&b, mode)
	}
	return b.String()
}

// requests lists what the API server answered in each contender's first run, per pod.
func (r report) requests(b *strings.Builder, mode string) {
	b.WriteString("\nRequests to the API server per pod, in the first run:\n\n")
	for _, one := range r.Results {
		if one.Mode != mode || one.Run != 1 {
			continue
		}
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(one.Cluster.Requests)) {
			each := float64(one.Cluster.Requests[name]) / float64(one.Pods)
			if each >= leastRequests {
				parts = append(parts, fmt.Sprintf("%s %.2f", name, each))
			}
		}
		fmt.Fprintf(b, "- %s: %s\n", one.Contender, strings.Join(parts, ", "))
	}
}

// arrivals writes how pods arrived, of rows in mode open.
func (r report) arrivals(b *strings.Builder, rows []result) {
	b.WriteString("\n")
	for _, row := range rows {
		if a := row.Arrival; a != nil {
			fmt.Fprintf(b, "- %s: %.1f of %.0f pods/s arrived; the last was bound %.2f s after it; since they were due: "+
				"p50 %.0f ms, p99 %.0f ms\n", row.Contender, a.Arrived, a.Rate, a.BehindSeconds, a.SinceDue.P50, a.SinceDue.P99)
		}
	}
}

// gaps writes the effect of the kill, of rows in mode failover.
func (r report) gaps(b *strings.Builder, rows []result) {
	for _, row := range rows {
		if g := row.Gap; g != nil {
			fmt.Fprintf(b, "- %s: no bind for %.2f s after the kill, %.2f s the longest wait; %d pods waited for more than %s, "+
				"the last of them was bound %.1f s after the kill\n", row.Contender, g.SilenceSeconds, g.LongestWaitSeconds,
				g.Delayed, waitsLong, g.RecoveredSeconds)
		}
	}
}

// victims writes how many pods were evicted for how many.
func (r report) victims(b *strings.Builder, rows []result) {
	for _, row := range rows {
		fmt.Fprintf(b, "%s evicted %d pods for %d.\n", row.Contender, row.Evicted, row.Pods)
	}
	b.WriteString("\n")
}

// ratio is a row's throughput by that of kube-scheduler's row, if there is one.
func ratio(row, first result) string {
	if first.Contender != contend.Contenders[0].Name {
		return "–"
	}
	return fmt.Sprintf("%.2f", row.PodsPerSecond/first.PodsPerSecond)
}

// rows are the medians of one mode, one per contender; Run is the number of runs.
func (r report) rows(mode string) []result {
	var rows []result
	for _, c := range contend.Contenders {
		runs := slices.DeleteFunc(slices.Clone(r.Results), func(one result) bool {
			return one.Mode != mode || one.Contender != c.Name
		})
		if len(runs) > 0 {
			rows = append(rows, medians(runs))
		}
	}
	return rows
}

// middleOf is the run with the median throughput; of an even number, the faster one in the middle.
func middleOf(runs []result) result {
	sorted := slices.SortedFunc(slices.Values(runs), func(a, b result) int {
		return cmp.Compare(a.PodsPerSecond, b.PodsPerSecond)
	})
	return sorted[len(sorted)/2]
}

func median(runs []result, value func(result) float64) float64 {
	values := make([]float64, 0, len(runs))
	for _, run := range runs {
		values = append(values, value(run))
	}
	return harness.Median(values)
}

func medians(runs []result) result {
	of := func(value func(result) float64) float64 { return median(runs, value) }
	middle := middleOf(runs)
	return result{
		Arrival: middle.Arrival, Gap: medianGap(runs), shape: middle.shape, Memory: medianHeld(runs),
		Contender: runs[0].Contender, Mode: runs[0].Mode, Run: len(runs), Pods: runs[0].Pods,
		WallSeconds:   of(func(r result) float64 { return r.WallSeconds }),
		BindSeconds:   of(func(r result) float64 { return r.BindSeconds }),
		PodsPerSecond: of(func(r result) float64 { return r.PodsPerSecond }),
		CPUSeconds:    of(func(r result) float64 { return r.CPUSeconds }),
		EventSeconds:  of(func(r result) float64 { return r.EventSeconds }),
		Evicted:       int(of(func(r result) float64 { return float64(r.Evicted) })),
		Cluster:       clusterLoad{ServerSeconds: of(func(r result) float64 { return r.Cluster.ServerSeconds })},
		Latency: bench.Latency{
			P50: of(func(r result) float64 { return r.Latency.P50 }),
			P90: of(func(r result) float64 { return r.Latency.P90 }),
			P99: of(func(r result) float64 { return r.Latency.P99 }),
			Max: of(func(r result) float64 { return r.Latency.Max }),
		},
	}
}
