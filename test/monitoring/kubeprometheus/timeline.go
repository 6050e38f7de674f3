package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

const (
	// interval is that of scrapes and evaluations. The rounds of pages are taken one interval apart, and the last is
	// repeated to the end.
	interval = 30 * time.Second
	// steps is longer than the 15 minutes that the alerts about the control plane wait.
	steps = 60
	// maxSamples bounds one query.
	maxSamples = 1 << 23
)

// elsewhere are targets of other jobs, without which other alerts than the scheduler's would fire.
var elsewhere = []string{
	"apiserver", "kubelet", "kube-controller-manager", "kube-proxy", "kube-state-metrics", "node-exporter",
}

// timeline holds what a Prometheus would know, from the first scrape on.
type timeline struct {
	// rounds are the samples of each round.
	rounds [][]sample
	series map[string]*series
	// since is when each alert began to be active, by alert and labels; fires has the names of alerts that fire.
	since map[string]time.Time
	fires map[string]bool
	// made are the names of recording rules that have recorded something.
	made map[string]bool
}

// series is one series with its samples.
type series struct {
	labels  labels.Labels
	samples []chunks.Sample
}

func newTimeline(pages []page) *timeline {
	t := &timeline{
		series: map[string]*series{}, since: map[string]time.Time{}, fires: map[string]bool{}, made: map[string]bool{},
	}
	for _, p := range pages {
		for len(t.rounds) <= p.Round {
			t.rounds = append(t.rounds, nil)
		}
		t.rounds[p.Round] = append(t.rounds[p.Round], p.series...)
	}
	return t
}

// play scrapes and evaluates until the end.
func (t *timeline) play(ctx context.Context, rules []rule) error {
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: maxSamples, Timeout: time.Minute})
	defer engine.Close() //nolint:errcheck // in memory
	for step := range steps {
		at := time.Unix(0, 0).Add(time.Duration(step) * interval)
		t.scrape(step, at)
		active := map[string]bool{}
		for _, r := range rules {
			found, err := t.query(ctx, engine, r.expr, at)
			if err != nil {
				return fmt.Errorf("%s%s: %w", r.alert, r.record, err)
			}
			t.note(r, found, at, active)
		}
		maps.DeleteFunc(t.since, func(key string, _ time.Time) bool { return !active[key] })
	}
	return nil
}

func (t *timeline) scrape(step int, at time.Time) {
	if len(t.rounds) > 0 {
		for _, s := range t.rounds[min(step, len(t.rounds)-1)] {
			t.add(s, at)
		}
	}
	for _, job := range elsewhere {
		t.add(sample{labels.FromStrings(labels.MetricName, "up", "job", job, "instance", job), 1}, at)
	}
}

func (t *timeline) add(s sample, at time.Time) {
	key := s.labels.String()
	one := t.series[key]
	if one == nil {
		one = &series{labels: s.labels}
		t.series[key] = one
	}
	one.samples = append(one.samples, point{at.UnixMilli(), s.value})
}

// note records what a rule found, or that its alert has been active for long enough.
func (t *timeline) note(r rule, found promql.Vector, at time.Time, active map[string]bool) {
	for _, f := range found {
		if r.record != "" {
			b := labels.NewBuilder(f.Metric)
			b.Set(labels.MetricName, r.record)
			for name, value := range r.labels {
				b.Set(name, value)
			}
			t.add(sample{b.Labels(), f.F}, at)
			t.made[r.record] = true
			continue
		}
		key := r.alert + f.Metric.String()
		active[key] = true
		if _, known := t.since[key]; !known {
			t.since[key] = at
		}
		if at.Sub(t.since[key]) >= r.wait {
			t.fires[r.alert] = true
		}
	}
}

func (t *timeline) query(ctx context.Context, engine *promql.Engine, expr string, at time.Time) (promql.Vector, error) {
	q, err := engine.NewInstantQuery(ctx, t, nil, expr, at)
	if err != nil {
		return nil, err
	}
	defer q.Close()
	result := q.Exec(ctx)
	if result.Err != nil {
		return nil, result.Err
	}
	vector, err := result.Vector()
	return slices.Clone(vector), err
}

// firing are the alerts that have fired at some time.
func (t *timeline) firing() []string { return slices.Sorted(maps.Keys(t.fires)) }

// recorded are the recording rules about the scheduler that have recorded something.
func (t *timeline) recorded() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(t.made)), func(name string) bool {
		return !strings.Contains(name, "scheduler")
	})
}

// find returns the queries that find series at the end.
func (t *timeline) find(ctx context.Context, queries []string) (found []string, err error) {
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: maxSamples, Timeout: time.Minute})
	defer engine.Close() //nolint:errcheck // in memory
	end := time.Unix(0, 0).Add((steps - 1) * interval)
	for _, expr := range queries {
		vector, err := t.query(ctx, engine, expr, end)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", expr, err)
		}
		if len(vector) > 0 {
			found = append(found, expr)
		}
	}
	return found, nil
}

// Querier implements storage.Queryable.
func (t *timeline) Querier(_, _ int64) (storage.Querier, error) {
	return &storage.MockQuerier{SelectMockFunction: t.choose}, nil
}

func (t *timeline) choose(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	var list []storage.Series
	for _, key := range slices.Sorted(maps.Keys(t.series)) {
		one := t.series[key]
		fits := !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(one.labels.Get(m.Name)) })
		if fits {
			list = append(list, storage.NewListSeries(one.labels, one.samples))
		}
	}
	slices.SortFunc(list, func(a, b storage.Series) int { return labels.Compare(a.Labels(), b.Labels()) })
	return &chosen{rest: list}
}

// chosen implements storage.SeriesSet.
type chosen struct {
	rest []storage.Series
	now  storage.Series
}

func (c *chosen) Next() bool {
	if len(c.rest) == 0 {
		return false
	}
	c.now, c.rest = c.rest[0], c.rest[1:]
	return true
}

func (c *chosen) At() storage.Series                { return c.now }
func (c *chosen) Err() error                        { return nil }
func (c *chosen) Warnings() annotations.Annotations { return nil }

// point implements chunks.Sample.
type point struct {
	at    int64
	value float64
}

func (p point) T() int64                      { return p.at }
func (p point) F() float64                    { return p.value }
func (p point) H() *histogram.Histogram       { return nil }
func (p point) FH() *histogram.FloatHistogram { return nil }
func (p point) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (p point) Copy() chunks.Sample           { return p }
