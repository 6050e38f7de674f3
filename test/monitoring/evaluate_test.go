package monitoring

import (
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// scrapeFile is the exposition of a running `berth up` with a descheduler, after it had scheduled, preempted and
// evicted pods: TestMetricsAreKubeSchedulers in test/e2e writes it.
var scrapeFile = flag.String("scrape", "testdata/berth.prom", "exposition that queries are evaluated on")

// scrapesOfStores are expositions of one etcd 3.7.3 and one NATS 2.15.2 with prometheus-nats-exporter 0.20.1, started
// as the chart starts them, by the job that the chart's monitors give them. Most of the metrics are left out.
var scrapesOfStores = map[string]string{"berth-etcd": "testdata/etcd.prom", "berth-nats": "testdata/nats.prom"}

// notAlways are metrics of which there may be no series, and why.
var notAlways = map[string]string{
	"berth_budget_claims":                           "a series is there while something is claimed from the budget",
	"berth_certificate_not_after_timestamp_seconds": "a process without TLS, as the one that was scraped, has no series",
	"berth_ledger_authentication_off":               "a process without TLS does not ask",
}

// The samples: one scrape, taken again and again, so that rates and ranges have something to go by.
const (
	scrapes  = 241
	interval = 30 * time.Second
)

// TestQueriesFindSomething: every query of alerts and dashboards, evaluated by Prometheus' engine
// on what a real process exposes, finds series. Comparisons are made to answer 0 or 1, so that a
// condition that does not hold is not taken for a metric that is not there.
func TestQueriesFindSomething(t *testing.T) {
	series := readScrape(t, *scrapeFile, "berth-single")
	for job, file := range scrapesOfStores {
		series = append(series, readScrape(t, file, job)...)
	}
	slices.SortFunc(series, func(a, b oneSeries) int { return labels.Compare(a.labels, b.labels) })
	engine := newEngine(t)
	queries := append(alerts(t), panels(t)...)
	for _, q := range queries {
		expr, err := parser.ParseExpr(strings.ReplaceAll(q.expr, "$__rate_interval", "5m"))
		if err != nil {
			t.Errorf("%s: %v", q.where, err)
			continue
		}
		if skip := excused(expr); skip != "" {
			t.Logf("%s: %s", q.where, skip)
			continue
		}
		for _, part := range parts(expr) {
			found, err := evaluate(t.Context(), engine, series, part)
			if err != nil {
				t.Errorf("%s: %s: %v", q.where, part, err)
			} else if found == 0 {
				t.Errorf("%s: %s: finds nothing", q.where, part)
			}
		}
	}
	t.Logf("%d queries on %d series", len(queries), len(series))
}

func newEngine(t *testing.T) *promql.Engine {
	t.Helper()
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1 << 22, Timeout: time.Minute})
	t.Cleanup(func() { _ = engine.Close() })
	return engine
}

// parts are the selectors of a query, and the whole; without selectors whose absence is the finding (absent), and
// without those that find nothing as long as all is well (unless).
func parts(expr parser.Expr) []string {
	var list []string
	absent := false
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector:
			list = append(list, n.String())
		case *parser.BinaryExpr:
			scalars := n.LHS.Type() == parser.ValueTypeScalar && n.RHS.Type() == parser.ValueTypeScalar
			n.ReturnBool = n.ReturnBool || n.Op.IsComparisonOperator() && !scalars
		case *parser.Call:
			absent = absent || n.Func.Name == "absent"
		}
		return nil
	})
	if _, only := expr.(*parser.Call); absent && only {
		return list
	}
	if both, ok := expr.(*parser.BinaryExpr); ok && both.Op == parser.LUNLESS {
		return list
	}
	return append(list, expr.String())
}

func excused(expr parser.Expr) (why string) {
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if s, ok := node.(*parser.VectorSelector); ok && notAlways[s.Name] != "" {
			why = s.Name + ": " + notAlways[s.Name]
		}
		return nil
	})
	return why
}

// evaluate counts what a query finds at the end of the samples. A range selector cannot be evaluated alone.
func evaluate(ctx context.Context, engine *promql.Engine, series storage.Queryable, query string) (int, error) {
	at := time.Unix(0, 0).Add((scrapes - 1) * interval)
	q, err := engine.NewInstantQuery(ctx, series, nil, query, at)
	if err != nil {
		return 0, err
	}
	defer q.Close()
	r := q.Exec(ctx)
	if r.Err != nil {
		return 0, r.Err
	}
	vector, err := r.Vector()
	return len(vector), err
}

// scraped is a storage of what was exposed.
type scraped []oneSeries

type oneSeries struct {
	labels labels.Labels
	value  float64
}

// readScrape reads an exposition, as Prometheus does with a target of a job.
func readScrape(t *testing.T, file, job string) scraped {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	p, err := textparse.New(raw, "text/plain", labels.NewSymbolTable(), textparse.ParserOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var all scraped
	for {
		entry, err := p.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if entry != textparse.EntrySeries {
			continue
		}
		_, _, value := p.Series()
		var set labels.Labels
		p.Labels(&set)
		b := labels.NewBuilder(set)
		b.Set("job", job).Set("instance", "127.0.0.1:10351").Set("namespace", "berth-system").Set("pod", job+"-0")
		all = append(all, oneSeries{b.Labels(), value})
	}
	if len(all) == 0 {
		t.Fatalf("%s has no series", file)
	}
	// Prometheus adds a series of its own for a target that answers.
	return append(all, oneSeries{labels.FromStrings(
		labels.MetricName, "up", "job", job, "instance", "127.0.0.1:10351", "namespace", "berth-system", "pod", job+"-0"), 1})
}

// Querier implements storage.Queryable.
func (s scraped) Querier(_, _ int64) (storage.Querier, error) {
	return &storage.MockQuerier{SelectMockFunction: s.choose}, nil
}

func (s scraped) choose(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	var found []storage.Series
	for _, one := range s {
		fits := !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(one.labels.Get(m.Name)) })
		if !fits {
			continue
		}
		samples := make([]chunks.Sample, scrapes)
		for i := range samples {
			samples[i] = sample{at: int64(i) * interval.Milliseconds(), value: one.value}
		}
		found = append(found, storage.NewListSeries(one.labels, samples))
	}
	return &seriesSet{rest: found}
}

// seriesSet implements storage.SeriesSet.
type seriesSet struct {
	rest []storage.Series
	now  storage.Series
}

func (s *seriesSet) Next() bool {
	if len(s.rest) == 0 {
		return false
	}
	s.now, s.rest = s.rest[0], s.rest[1:]
	return true
}

func (s *seriesSet) At() storage.Series                { return s.now }
func (s *seriesSet) Err() error                        { return nil }
func (s *seriesSet) Warnings() annotations.Annotations { return nil }

// sample implements chunks.Sample.
type sample struct {
	at    int64
	value float64
}

func (s sample) T() int64                      { return s.at }
func (s sample) F() float64                    { return s.value }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample           { return s }
