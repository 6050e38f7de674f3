package telemetry

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"go/doc/comment"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/pkg/telemetry/internal/declare"
)

var update = flag.Bool("update", false, "write docs/metrics.md instead of comparing it")

const (
	metricReference = "../../docs/metrics.md"
	shippedAlerts   = "../../deploy/monitoring/alerts.yaml"
	dashboard       = "../../deploy/monitoring/dashboard.json"
	// recordedScrape is a scrape of a `berth up`; make monitoring-live RECORD=1 writes it.
	recordedScrape = "../../test/monitoring/testdata/berth.prom"
	// lineLength is the line length of the page.
	lineLength = 120
)

const referenceHead = `<!-- Written by "make generate" from the metrics: manual changes are lost. -->
# Metrics

Every metric that the services export, with its type, stability level, unit and labels, and with the alerts of
[alerts.yaml](../deploy/monitoring/alerts.yaml) and the panels of
[dashboard.json](../deploy/monitoring/dashboard.json) that query it. Which service sets which metric, and where a
number means something else than upstream's, is in [observing](observing.md#metrics).

Each process serves them under ` + "`/metrics`" + ` of its ` + "`--http-address`" + `, except those of
[/metrics/resources](#pod-resources). Series whose labels are known beforehand exist from the start with the value 0;
other series appear when a service first sets them. The stability level of a metric that upstream has is upstream's. A
metric with the level ALPHA may change in any release.
`

// section is a part of the page: the metrics whose names begin with a prefix.
type section struct{ heading, prefix, text string }

var sections = []section{
	{"kube-scheduler's metrics", "scheduler_", "Names, labels, buckets and stability levels are kube-scheduler's " +
		"(`pkg/scheduler/metrics/metrics.go` of Kubernetes 1.36), so dashboards and alerts made for it keep working."},
	{"Pod resources", "kube_pod_resource_", "The queue serves these under `/metrics/resources`, as kube-scheduler " +
		"does (`pkg/scheduler/metrics/resources/resources.go`). Only the queue that leads has series."},
	{"The descheduler's metrics", "descheduler_", "Names, labels and buckets are those of sigs.k8s.io/descheduler " +
		"0.36 (`metrics/metrics.go`)."},
	{"Berth's own metrics", "berth_", "No other program has these."},
}

// described is a metric as a registry gathers it.
type described struct {
	name, kind, stability, help string
	labels                      []string
	// bounds are the bounds of a histogram, without infinity.
	bounds []float64
}

func TestMetricReferenceIsCurrent(t *testing.T) {
	all := gatherEveryMetric(t)
	used := usesOf(t)
	var b bytes.Buffer
	b.WriteString(referenceHead)
	written := 0
	for _, s := range sections {
		fmt.Fprintf(&b, "\n## %s\n\n%s", s.heading, wrapped(s.text))
		for _, m := range all {
			if strings.HasPrefix(m.name, s.prefix) {
				m.write(&b, used[m.name])
				written++
			}
		}
	}
	if written != len(all) {
		t.Errorf("%d metrics are in a section, %d were gathered: does one have a new prefix?", written, len(all))
	}
	fmt.Fprintf(&b, "\n## Metrics of libraries\n\n%s", wrapped("Every process also exports the metrics of the Go runtime "+
		"(`go_…`), of the process (`process_…`), of requests to the API server (`rest_client_…`), of reviews of tokens "+
		"(`authentication_…`, `authorization_…`, `apiserver_…`), of the Lease (`leader_election_…`), of the feature gates "+
		"that matter to scheduling (`kubernetes_feature_enabled`: 1 if Berth does what the feature is for, wherever "+
		"objects use it), and of Kubernetes' library for metrics: `"+strings.Join(ofTheLibrary(t, all), "`, `")+
		"`. What checks of health find is under `/metrics/slis`: `kubernetes_healthcheck`, `kubernetes_healthchecks_total`."))
	if *update {
		if err := os.WriteFile(metricReference, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(metricReference)
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(string(have), b.String()); diff != "" {
		t.Errorf("docs/metrics.md is stale, run make generate; file (-) and metrics (+):\n%s", diff)
	}
}

// TestReferenceHasWhatWasScraped checks that the page lists every metric that a real process has exposed.
func TestReferenceHasWhatWasScraped(t *testing.T) {
	page, err := os.ReadFile(metricReference)
	if err != nil {
		t.Fatal(err)
	}
	scrape, err := os.Open(recordedScrape)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = scrape.Close() }()
	lines, seen := bufio.NewScanner(scrape), 0
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) != 4 || fields[1] != "TYPE" || ofTheRuntime(fields[2]) {
			continue
		}
		seen++
		if !bytes.Contains(page, []byte("`"+fields[2]+"`")) {
			t.Errorf("%s was scraped and is not in docs/metrics.md", fields[2])
		}
	}
	if lines.Err() != nil || seen == 0 {
		t.Errorf("%d metrics in %s: %v", seen, recordedScrape, lines.Err())
	}
}

func ofTheRuntime(name string) bool {
	for _, prefix := range []string{
		"go_", "process_", "rest_client_", "authenticat", "authorization_", "apiserver_", "leader_election_",
	} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// gatherEveryMetric gathers one series of every metric, and removes the series again.
func gatherEveryMetric(t *testing.T) []described {
	t.Helper()
	registry := metrics.NewKubeRegistry()
	for _, d := range declare.All() {
		registry.MustRegister(d.Metric)
		touch(d.Metric, make([]string, len(d.Labels)))
	}
	expiry := newCertificates()
	expiry.watch([]CertificateFile{{Path: certFile(t, filepath.Join(t.TempDir(), "tls.crt"), time.Unix(1, 0))}})
	registry.CustomMustRegister(newResources(onePod), expiry)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	registry.Reset()
	var all []described
	for _, f := range families {
		level, help, _ := strings.Cut(strings.TrimPrefix(f.GetHelp(), "["), "] ")
		one := described{
			name: f.GetName(), kind: strings.ToLower(f.GetType().String()), stability: level, help: help,
		}
		for _, pair := range f.GetMetric()[0].GetLabel() {
			one.labels = append(one.labels, pair.GetName())
		}
		for _, bucket := range f.GetMetric()[0].GetHistogram().GetBucket() {
			one.bounds = append(one.bounds, bucket.GetUpperBound())
		}
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b described) int { return cmp.Compare(a.name, b.name) })
	return all
}

// touch creates the series with these label values. A metric without labels always has its series.
func touch(m metrics.Registerable, values []string) {
	switch vector := m.(type) {
	case *metrics.CounterVec:
		vector.WithLabelValues(values...).Add(0)
	case *metrics.GaugeVec:
		vector.WithLabelValues(values...).Set(0)
	case *metrics.HistogramVec:
		vector.WithLabelValues(values...).Observe(0)
	}
}

func onePod() iter.Seq[PodResources] {
	amounts := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	spec := &corev1.PodSpec{Containers: []corev1.Container{
		{Resources: corev1.ResourceRequirements{Requests: amounts, Limits: amounts}},
	}}
	return func(yield func(PodResources) bool) { yield(PodResources{Name: "pod", Spec: spec}) }
}

// ofTheLibrary returns the names of the other metrics in the registry of a process.
func ofTheLibrary(t *testing.T, ours []described) (names []string) {
	t.Helper()
	Register()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		isOurs := slices.ContainsFunc(ours, func(m described) bool { return m.name == f.GetName() })
		if !isOurs && !ofTheRuntime(f.GetName()) {
			names = append(names, f.GetName())
		}
	}
	return names
}

// write writes the metric's part of the page.
func (m described) write(b *bytes.Buffer, u uses) {
	facts := m.kind + ", " + m.stability + "; unit: " + m.unit()
	if n := len(m.bounds); n > 0 {
		facts += fmt.Sprintf("; %d buckets from %.4g to %.4g", n, m.bounds[0], m.bounds[n-1])
	}
	lines := []string{facts}
	if len(m.labels) > 0 {
		lines = append(lines, "labels: `"+strings.Join(m.labels, "`, `")+"`")
	}
	if len(u.alerts) > 0 {
		lines = append(lines, "alerts: "+strings.Join(u.alerts, ", "))
	}
	if len(u.panels) > 0 {
		lines = append(lines, "panels: "+strings.Join(u.panels, "; "))
	}
	fmt.Fprintf(b, "\n### `%s`\n\n%s\n", m.name, wrapped(m.help))
	for _, line := range lines {
		// The line after the first of an item is indented.
		item := strings.TrimSuffix(wrapped("- "+line), "\n")
		b.WriteString(strings.ReplaceAll(item, "\n", "\n  ") + "\n")
	}
}

// unit returns the unit of a metric. By Prometheus' convention it is at the end of the name, before _total.
func (m described) unit() string {
	switch name := strings.TrimSuffix(m.name, "_total"); {
	case strings.HasPrefix(name, "kube_pod_resource_"):
		return "the value of the label `unit`"
	case strings.HasSuffix(name, "_seconds"):
		return "seconds"
	case strings.HasSuffix(name, "_bytes"):
		return "bytes"
	}
	return "number"
}

// uses are the alerts and the panels that query a metric, in the order of their files.
type uses struct{ alerts, panels []string }

// identifier matches the names of metrics in a query, and other words.
var identifier = regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*`)

// usesOf finds the uses of every metric by its name.
func usesOf(t *testing.T) map[string]uses {
	t.Helper()
	found := map[string]uses{}
	for _, q := range alertQueries(t) {
		link := fmt.Sprintf("[%s](runbook.md#%s)", q.name, strings.ToLower(q.name))
		for name := range q.metrics() {
			u := found[name]
			u.alerts = append(u.alerts, link)
			found[name] = u
		}
	}
	for _, q := range panelQueries(t) {
		for name := range q.metrics() {
			u := found[name]
			u.panels = append(u.panels, q.name)
			found[name] = u
		}
	}
	return found
}

// named is an alert or a panel with its queries.
type named struct {
	name    string
	queries []string
}

// metrics returns the metrics of the queries. A histogram is queried by names with a suffix.
func (n named) metrics() map[string]bool {
	known, found := Labels(), map[string]bool{}
	for _, word := range identifier.FindAllString(strings.Join(n.queries, "\n"), -1) {
		for _, suffix := range []string{"", "_bucket", "_count", "_sum"} {
			name := strings.TrimSuffix(word, suffix)
			if _, ok := known[name]; ok {
				found[name] = true
			}
		}
	}
	return found
}

func alertQueries(t *testing.T) (list []named) {
	t.Helper()
	raw, err := os.ReadFile(shippedAlerts)
	if err != nil {
		t.Fatal(err)
	}
	var rule struct {
		Spec struct {
			Groups []struct {
				Rules []struct{ Alert, Expr string }
			}
		}
	}
	if err := yaml.Unmarshal(raw, &rule); err != nil {
		t.Fatalf("%s: %v", shippedAlerts, err)
	}
	for _, g := range rule.Spec.Groups {
		for _, r := range g.Rules {
			list = append(list, named{r.Alert, []string{r.Expr}})
		}
	}
	if len(list) == 0 {
		t.Fatalf("%s has no alerts", shippedAlerts)
	}
	return list
}

// panel is a panel of the dashboard, or a row of several.
type panel struct {
	Title   string
	Targets []struct{ Expr string }
	Panels  []panel
}

func panelQueries(t *testing.T) (list []named) {
	t.Helper()
	raw, err := os.ReadFile(dashboard)
	if err != nil {
		t.Fatal(err)
	}
	var board panel
	if err := json.Unmarshal(raw, &board); err != nil {
		t.Fatalf("%s: %v", dashboard, err)
	}
	list = board.below()
	if len(list) == 0 {
		t.Fatalf("%s has no panels", dashboard)
	}
	return list
}

// below returns the panels with queries inside a panel or a dashboard.
func (p panel) below() (list []named) {
	for _, inner := range p.Panels {
		one := named{name: inner.Title}
		for _, target := range inner.Targets {
			one.queries = append(one.queries, target.Expr)
		}
		if len(one.queries) > 0 {
			list = append(list, one)
		}
		list = append(list, inner.below()...)
	}
	return list
}

// wrapped returns a paragraph in lines that are no longer than the page's.
func wrapped(text string) string {
	var p comment.Parser
	printer := comment.Printer{TextWidth: lineLength - len("  ")}
	return string(printer.Text(p.Parse(text)))
}
