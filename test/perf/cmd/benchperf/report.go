package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/berth-scheduler/berth/test/e2e/harness"
	"github.com/berth-scheduler/berth/test/perf/contend"
)

// reportName is the file name of both reports, without the suffix.
const reportName = "bench-perf"

// report is the JSON report.
type report struct {
	Time       time.Time `json:"time"`
	Processors int       `json:"processors"`
	Go         string    `json:"go"`
	// Load is the machine's load average at the end.
	Load    string   `json:"load"`
	Berth   string   `json:"berth"`
	Scale   float64  `json:"scale"`
	Config  string   `json:"config"`
	Results []result `json:"results"`
}

func (b *bench) report(ctx context.Context, results []result) error {
	version, err := b.programs.Command(ctx, "version")
	if err != nil {
		return err
	}
	r := report{
		Time: time.Now().UTC().Truncate(time.Second), Processors: runtime.NumCPU(), Go: runtime.Version(),
		Load: harness.LoadAverage(), Berth: strings.TrimSpace(version.Stdout), Scale: b.scale,
		Config: contend.Config, Results: results,
	}
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(b.out, 0o755); err != nil {
		return err
	}
	if err := r.outcome(b.runs).Write(b.out); err != nil {
		return err
	}
	base, text := filepath.Join(b.out, reportName), r.markdown()
	if err := os.WriteFile(base+".json", append(raw, '\n'), 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(base+".md", []byte(text), 0o644); err != nil {
		return err
	}
	fmt.Print(text)
	fmt.Fprintf(os.Stderr, "written: %s.md and %s.json\n", base, base)
	return nil
}

// markdown is the report for people: medians over the runs.
func (r report) markdown() string {
	var b strings.Builder
	b.WriteString("# Upstream's workloads, side by side\n\n")
	fmt.Fprintf(&b, "%s, %s. %s; %d processors, %s, load %s.\n", r.Berth, contend.PeerVersion,
		r.Time.Format(time.RFC3339), r.Processors, r.Go, r.Load)
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
