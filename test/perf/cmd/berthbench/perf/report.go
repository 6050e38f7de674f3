package perf

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/test/perf/bench"
	"github.com/berth-scheduler/berth/test/perf/contend"
)

// reportName is the file name of both reports, without the suffix.
const reportName = "bench-perf"

// report is the JSON report.
type report struct {
	bench.Head
	Scale   float64  `json:"scale"`
	Config  string   `json:"config"`
	Results []result `json:"results"`
}

func (m *measurement) report(ctx context.Context, results []result) error {
	head, err := bench.NewHead(ctx, m.programs)
	if err != nil {
		return err
	}
	head.Platform = "" // not part of this report
	r := report{Head: head, Scale: m.scale, Config: contend.Config, Results: results}
	return bench.Write(m.out, reportName, r, r.markdown(), r.outcome(m.runs))
}

// markdown is the report for people: medians over the runs.
func (r report) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Upstream's workloads, side by side\n\n%s, %s. %s\n", r.Berth, contend.PeerVersion, r.Where())
	fmt.Fprintf(&b, "Nodes and pods are %g times the workload's. All placements passed the audit. "+
		"Medians over the runs.\n\n", r.Scale)
	b.WriteString("| workload | contender | runs | pods | wall s | pods/s | ratio | p50 ms | p99 ms | CPU s |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|---|\n")
	for _, rows := range r.rows() {
		for _, row := range rows {
			ratio := "–"
			if rows[0].Contender == contend.Contenders[0].Name {
				ratio = fmt.Sprintf("%.2f", row.PodsPerSecond/rows[0].PodsPerSecond)
			}
			fmt.Fprintf(&b, "| %s | %s | %d | %d | %.1f | %.0f | %s | %.0f | %.0f | %.1f |\n", row.Workload, row.Contender,
				row.Run, row.Pods, row.WallSeconds, row.PodsPerSecond, ratio, row.P50Millis, row.P99Millis, row.CPUSeconds)
		}
	}
	return b.String()
}

// rows are the medians, by workload in the order of the runs, and by contender.
func (r report) rows() [][]result {
	var all [][]result
	var seen []string
	for _, one := range r.Results {
		if slices.Contains(seen, one.Workload) {
			continue
		}
		seen = append(seen, one.Workload)
		var rows []result
		for _, name := range contend.Names() {
			runs := slices.DeleteFunc(slices.Clone(r.Results), func(o result) bool {
				return o.Workload != one.Workload || o.Contender != name
			})
			if len(runs) > 0 {
				rows = append(rows, middle(runs))
			}
		}
		all = append(all, rows)
	}
	return all
}

// middle is the run with the median throughput (of an even number, the slower one in the middle);
// Run is the number of runs.
func middle(runs []result) result {
	slices.SortFunc(runs, func(a, b result) int {
		if a.PodsPerSecond < b.PodsPerSecond {
			return -1
		}
		return 1
	})
	one := runs[(len(runs)-1)/2]
	one.Run = len(runs)
	return one
}
