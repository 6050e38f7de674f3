package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/test/e2e/harness"
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
	Time       time.Time `json:"time"`
	Processors int       `json:"processors"`
	Platform   string    `json:"platform"`
	// Load is the machine's load average at the end, for telling a busy machine from a quiet one.
	Load    string   `json:"load"`
	Berth   string   `json:"berth"`
	Pods    int      `json:"pods"`
	Nodes   int      `json:"nodes"`
	Shards  int      `json:"shards"`
	Binders int      `json:"binders"`
	Results []result `json:"results"`

	out    string
	budget budget
}

func newReport(o options, version string, results []result, limits budget) report {
	return report{
		Time: time.Now().UTC().Truncate(time.Second), Processors: runtime.NumCPU(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH, Load: harness.LoadAverage(),
		Berth: strings.TrimSpace(version), Pods: o.pods, Nodes: o.nodes, Shards: o.shards, Binders: o.binders,
		Results: results, out: o.out, budget: limits,
	}
}

// write writes both reports, prints the table and says what is over its budget.
func (r report) write() error {
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	text := r.markdown()
	fmt.Print(text)
	base := filepath.Join(r.out, reportName)
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	err = errors.Join(os.WriteFile(base+".json", append(raw, '\n'), 0o644), os.WriteFile(base+".md", []byte(text), 0o644))
	return errors.Join(err, r.overdrawn())
}

func (r report) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# The path without the API server\n\n%s. %s; %d processors, %s, load %s.\n\n",
		r.Berth, r.Time.Format(time.RFC3339), r.Processors, r.Platform, r.Load)
	fmt.Fprintf(&b, "%d pods on %d nodes, %d shards, %d binders, each a process. Median of %d runs: **%.0f pods/s**.\n\n",
		r.Pods, r.Nodes, r.Shards, r.Binders, len(r.Results),
		harness.Median(r.each(func(x result) float64 { return x.PodsPerSecond })))
	b.WriteString("| service | µs of processor time a pod | budget |\n|---|---|---|\n")
	for _, service := range r.services() {
		limit := "–"
		if most, ok := r.budget[service]; ok {
			limit = fmt.Sprintf("%.0f", most)
		}
		fmt.Fprintf(&b, "| %s | %.0f | %s |\n", service, r.micros(service), limit)
	}
	fmt.Fprintf(&b, "| all but the %s | %.0f | – |\n", ownService, harness.Median(r.each(result.all)))
	return b.String()
}

func (r report) each(of func(result) float64) []float64 {
	list := make([]float64, len(r.Results))
	for i, x := range r.Results {
		list[i] = of(x)
	}
	return list
}

func (r report) services() []string { return slices.Sorted(maps.Keys(r.Results[0].Micros)) }

func (r report) micros(service string) float64 {
	return harness.Median(r.each(func(x result) float64 { return x.Micros[service] }))
}

// overdrawn is an error that names every service over its budget, or that the budget does not know.
func (r report) overdrawn() error {
	var errs []error
	for _, service := range slices.Sorted(maps.Keys(r.budget)) {
		if !slices.Contains(r.services(), service) {
			errs = append(errs, fmt.Errorf("budget: %q: want some of %s", service, strings.Join(r.services(), ", ")))
			continue
		}
		if spent := r.micros(service); spent > r.budget[service] {
			errs = append(errs, fmt.Errorf("budget: %s took %.0f µs a pod, want at most %.0f",
				service, spent, r.budget[service]))
		}
	}
	return errors.Join(errs...)
}
