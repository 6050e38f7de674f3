package monitoring

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/pkg/telemetry"
)

// shipped is the folder of what is checked.
const shipped = "../../deploy/monitoring"

// fromElsewhere are metrics that Prometheus, the Go library or component-base make.
var fromElsewhere = map[string][]string{
	"up":                            {"job", "instance"},
	"process_resident_memory_bytes": {"job", "instance"},
	"go_goroutines":                 {"job", "instance"},
}

// ofScraping are labels that every series gets from Prometheus.
var ofScraping = []string{"job", "instance", "namespace", "pod", "le"}

// query is one that is shipped.
type query struct{ where, expr string }

// TestQueries: every query of the alerts and the dashboards.
func TestQueries(t *testing.T) {
	known := telemetry.Labels()
	maps.Copy(known, labelsOfStores(t))
	for _, q := range append(alerts(t), panels(t)...) {
		for _, problem := range problems(q.expr, known) {
			t.Errorf("%s: %s: %s", q.where, q.expr, problem)
		}
	}
}

// labelsOfStores are the labels of what etcd and NATS have exposed.
func labelsOfStores(t *testing.T) map[string][]string {
	t.Helper()
	known := map[string][]string{}
	for job, file := range scrapesOfStores {
		for _, series := range readScrape(t, file, job) {
			var names []string
			series.labels.Range(func(l labels.Label) { names = append(names, l.Name) })
			known[series.labels.Get(model.MetricNameLabel)] = names
		}
	}
	return known
}

// alerts are the PrometheusRule's, of groups that Prometheus loads.
func alerts(t *testing.T) (list []query) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(shipped, "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var rule struct {
		Spec any `json:"spec"`
	}
	if err := yaml.Unmarshal(raw, &rule); err != nil {
		t.Fatal(err)
	}
	groups, err := yaml.Marshal(rule.Spec)
	if err != nil {
		t.Fatal(err)
	}
	loaded, errs := rulefmt.Parse(groups, false, model.UTF8Validation)
	for _, err := range errs {
		t.Error(err)
	}
	if loaded == nil || len(loaded.Groups) == 0 {
		t.Fatal("no groups")
	}
	for _, g := range loaded.Groups {
		for _, r := range g.Rules {
			list = append(list, query{r.Alert, r.Expr})
			if r.Annotations["summary"] == "" || r.Labels["severity"] == "" {
				t.Errorf("%s: no summary or no severity", r.Alert)
			}
		}
	}
	return list
}

// panels are the queries of the dashboards.
func panels(t *testing.T) (list []query) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(shipped, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d dashboards: %v", len(files), err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var board struct {
			Title  string
			Panels []struct {
				Title   string
				Targets []struct{ Expr string }
			}
		}
		if err := json.Unmarshal(raw, &board); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		queries := 0
		for _, p := range board.Panels {
			for _, target := range p.Targets {
				list = append(list, query{p.Title, target.Expr})
				queries++
			}
		}
		if queries == 0 {
			t.Errorf("%s has no queries", file)
		}
	}
	return list
}

// problems looks up what a query selects and groups by among known metrics and their labels.
func problems(query string, known map[string][]string) (list []string) {
	// Grafana fills this in; any duration will do.
	expr, err := parser.ParseExpr(strings.ReplaceAll(query, "$__rate_interval", "5m"))
	if err != nil {
		return []string{err.Error()}
	}
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector:
			list = append(list, wrongSelector(n, known)...)
		case *parser.AggregateExpr:
			list = append(list, wrongGrouping(n, known)...)
		}
		return nil
	})
	return list
}

func wrongSelector(s *parser.VectorSelector, known map[string][]string) (list []string) {
	labels, ok := labelsOf(known, s.Name)
	if !ok {
		return []string{"no metric " + s.Name}
	}
	for _, m := range s.LabelMatchers {
		if m.Name != model.MetricNameLabel && !slices.Contains(labels, m.Name) && !slices.Contains(ofScraping, m.Name) {
			list = append(list, fmt.Sprintf("%s has no label %s, but %v", s.Name, m.Name, labels))
		}
	}
	return list
}

// wrongGrouping: what an aggregation groups by is a label of something below it.
func wrongGrouping(a *parser.AggregateExpr, known map[string][]string) (list []string) {
	var below []string
	parser.Inspect(a.Expr, func(node parser.Node, _ []parser.Node) error {
		if s, ok := node.(*parser.VectorSelector); ok {
			labels, _ := labelsOf(known, s.Name)
			below = append(below, labels...)
		}
		return nil
	})
	for _, label := range a.Grouping {
		if !slices.Contains(below, label) && !slices.Contains(ofScraping, label) {
			list = append(list, fmt.Sprintf("grouped by %s, which is none of %v", label, below))
		}
	}
	return list
}

// ownJobs are those that the chart's monitors give Berth's targets.
var ownJobs = []string{
	"berth-queue", "berth-scheduler", "berth-binder", "berth-descheduler", "berth-single", "berth-etcd", "berth-nats",
}

// TestQueriesSelectBerth: kube-scheduler and the descheduler have metrics of the same names, and a cluster has other
// etcds.
func TestQueriesSelectBerth(t *testing.T) {
	for _, q := range append(alerts(t), panels(t)...) {
		expr, err := parser.ParseExpr(strings.ReplaceAll(q.expr, "$__rate_interval", "5m"))
		if err != nil {
			t.Errorf("%s: %v", q.where, err)
			continue
		}
		parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
			if s, ok := node.(*parser.VectorSelector); ok && !selectsBerth(s) {
				t.Errorf("%s: %s: want a matcher of job that selects Berth and no other", q.where, s)
			}
			return nil
		})
	}
}

func selectsBerth(s *parser.VectorSelector) bool {
	for _, m := range s.LabelMatchers {
		if m.Name == model.JobLabel && slices.ContainsFunc(ownJobs, m.Matches) {
			others := []string{"", "kube-scheduler", "descheduler", "kube-etcd", "nats"}
			return !slices.ContainsFunc(others, m.Matches)
		}
	}
	return false
}

// TestProblems: what is wrong is found.
func TestProblems(t *testing.T) {
	for query, want := range map[string]int{
		`sum by (queue) (scheduler_pending_pods)`:                0,
		`sum by (shard) (scheduler_pending_pods)`:                1,
		`scheduler_pending_pods{pool="active"}`:                  1,
		`rate(scheduler_pending_podz[$__rate_interval])`:         1,
		`sum(rate(berth_conflicts_total[5m])`:                    1,
		`rate(scheduler_pod_scheduling_attempts_bucket[5m]) > 0`: 0,
	} {
		if got := problems(query, telemetry.Labels()); len(got) != want {
			t.Errorf("%s: %v, want %d problems", query, got, want)
		}
	}
}

// labelsOf finds a metric, or the histogram that a series is part of.
func labelsOf(known map[string][]string, name string) ([]string, bool) {
	if labels, ok := fromElsewhere[name]; ok {
		return labels, true
	}
	for _, suffix := range []string{"", "_bucket", "_count", "_sum"} {
		if labels, ok := known[strings.TrimSuffix(name, suffix)]; ok {
			return labels, true
		}
	}
	return nil, false
}
