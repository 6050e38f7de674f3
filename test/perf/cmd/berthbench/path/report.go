package path

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/test/e2e/harness"
	"github.com/berth-scheduler/berth/test/perf/bench"
)

// reportName is the file name of both reports, without the suffix.
const reportName = "bench-path"

// budget is the most processor time per pod, in microseconds, by service.
type budget map[string]float64

// readBudget reads a file of `service: microseconds`; an empty path is no budget.
func readBudget(path string) (budget, error) {
	if path == "" {
		return nil, nil
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--budget: %w", err)
	}
	var b budget
	if err := yaml.UnmarshalStrict(raw, &b); err != nil {
		return nil, fmt.Errorf("--budget: %s: %w: want lines of `service: microseconds`", path, err)
	}
	return b, nil
}

// report is the JSON report.
type report struct {
	bench.Head
	Pods     int      `json:"pods"`
	Nodes    int      `json:"nodes"`
	Workload string   `json:"workload"`
	Binders  int      `json:"binders"`
	Results  []result `json:"results"`

	options
	budget budget
}

func newReport(o options, head bench.Head, results []result, limits budget) report {
	head.Go = "" // not part of this report
	return report{
		Head: head, Pods: o.pods, Nodes: o.nodes, Workload: o.workload, Binders: o.binders,
		Results: results, options: o, budget: limits,
	}
}

func (r report) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# The path without the API server\n\n%s. %s\n\n", r.Berth, r.Where())
	fmt.Fprintf(&b, "%d %s pods on %d nodes, %d binders, each a process. Medians of %d runs.\n",
		r.Pods, r.Workload, r.Nodes, r.Binders, r.runs)
	for _, t := range r.tables() {
		fmt.Fprintf(&b, "\n%s\n\n", t.Title)
		t.Markdown(&b)
	}
	return b.String()
}

// settings are those that were run, each once.
func (r report) settings() []setting {
	var all []setting
	for _, x := range r.Results {
		if !slices.Contains(all, x.setting) {
			all = append(all, x.setting)
		}
	}
	return all
}

// median of a number over the runs of a setting.
func (r report) median(s setting, of func(result) float64) float64 {
	var list []float64
	for _, x := range r.Results {
		if x.setting == s {
			list = append(list, of(x))
		}
	}
	return harness.Median(list)
}

// worst is the largest of a number over the runs of a setting.
func (r report) worst(s setting, of func(result) float64) (most float64) {
	for _, x := range r.Results {
		if x.setting == s {
			most = max(most, of(x))
		}
	}
	return most
}

func (r report) services() []string { return slices.Sorted(maps.Keys(r.Results[0].Micros)) }

func (r report) micros(s setting, service string) float64 {
	return r.median(s, func(x result) float64 { return x.Micros[service] })
}

// overdrawn is an error that names every service over its budget, or that the budget does not know.
func (r report) overdrawn() error {
	var errs []error
	for _, service := range slices.Sorted(maps.Keys(r.budget)) {
		if !slices.Contains(r.services(), service) {
			errs = append(errs, fmt.Errorf("budget: %q: want some of %s", service, strings.Join(r.services(), ", ")))
			continue
		}
		for _, s := range r.settings() {
			if spent := r.micros(s, service); spent > r.budget[service] {
				errs = append(errs, fmt.Errorf("budget: %s took %.0f µs a pod, want at most %.0f",
					service, spent, r.budget[service]))
			}
		}
	}
	return errors.Join(errs...)
}
