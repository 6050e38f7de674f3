package duel

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/berth-scheduler/berth/test/observe"
	"github.com/berth-scheduler/berth/test/perf/bench"
)

// kinds in the order of the table's columns.
var kinds = []observe.Kind{observe.BudgetExceeded, observe.EvictedTwice, observe.EvictedForNothing}

func (r result) String() string {
	var parts []string
	for _, kind := range kinds {
		parts = append(parts, fmt.Sprintf("%s %d", kind, r.count(kind)))
	}
	return fmt.Sprintf("%d arrived, %d bound, %d wait; %d evictions, %d for another pod; %s",
		r.arrived, r.bound, len(r.waiting), r.evictions, r.preempted, strings.Join(parts, ", "))
}

// report prints the report, and writes it to the file if one is wanted.
func (d *duel) report(ctx context.Context, results []result) error {
	head, err := bench.NewHead(ctx, d.programs)
	if err != nil {
		return err
	}
	text := markdown(head.Berth, d.length, results)
	fmt.Print(text)
	if d.out == "" {
		return nil
	}
	return os.WriteFile(d.out, []byte(text), 0o644)
}

func markdown(version string, length time.Duration, results []result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s; kube-scheduler v1.36.3, descheduler v0.36.0. Pods arrive for %s.\n\n", version, length)
	b.WriteString("| seed | who | arrived | bound | waiting at the end | evictions | for another pod |")
	for _, kind := range kinds {
		fmt.Fprintf(&b, " %s |", kind)
	}
	b.WriteString("\n|---|---|---|---|---|---|---|---|---|---|\n")
	for _, r := range results {
		fmt.Fprintf(&b, "| %d | %s | %d | %d | %d | %d | %d |", r.seed, r.contender, r.arrived, r.bound, len(r.waiting),
			r.evictions, r.preempted)
		for _, kind := range kinds {
			fmt.Fprintf(&b, " %d |", r.count(kind))
		}
		b.WriteString("\n")
	}
	for _, r := range results {
		if len(r.findings)+len(r.refused)+len(r.waiting) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\nSeed %d, %s:\n\n", r.seed, r.contender)
		for _, f := range r.findings {
			fmt.Fprintf(&b, "- %s: %s\n", f.Kind, f.Text)
		}
		for _, text := range r.waiting {
			fmt.Fprintf(&b, "- (waits at the end: %s)\n", text)
		}
		for _, text := range r.refused {
			fmt.Fprintf(&b, "- (the API server refused a step of the script: %s)\n", text)
		}
	}
	return b.String()
}
