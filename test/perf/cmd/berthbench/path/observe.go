package path

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/combin"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/berth-scheduler/berth/test/e2e/harness"
)

// Ways to be observed.
const (
	// records: attempts leave records of their considerations, as is the default.
	records = "records"
	// nothing: attempts leave no records, and no pod is traced.
	nothing = "nothing"
	// traces: in addition to records, a share of the pods is traced.
	traces = "traces"
)

// Limits.
const (
	// mostForRecords and mostForTraces are shares of the processor time of a pod.
	mostForRecords = 0.03
	mostForTraces  = 0.05
	// tracedShare is the share of the pods that is traced.
	tracedShare = 0.1
	// tracesOff is how far the share of pods with a complete trace may be from the ratio, as a
	// share of that: of 10,000 pods 10% are traced, give or take 0.3 by chance alone.
	tracesOff = 0.1
	// confidence is that of the interval that is reported with a cost.
	confidence = 0.95
	// mostUnsure is half of the widest interval of which a verdict is given.
	mostUnsure = 0.03
)

// wholeTrace are the spans of a plain pod's trace: none is missing in a complete one.
var wholeTrace = []string{"pod", "seen", "queued", "attempt", "filter", "score", "reserve", "bind", "HTTP POST"}

// observe runs one Berth for each way to be observed, all at the same time, and creates pods for one after the other:
// the state of a machine changes within seconds by more than the cost to be measured, so that compared runs must be
// moments apart. A Berth without pods costs next to nothing.
func (m *measurement) observe(ctx context.Context) (results []result, err error) {
	ctx, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	var all []*watched
	defer func() {
		for _, w := range all {
			err = errors.Join(err, w.end(ctx))
		}
	}()
	for _, s := range m.settings() {
		w, err := m.watch(ctx, s)
		all = append(all, w)
		if err != nil {
			return nil, err
		}
	}
	// The order cycles through all permutations: the aftermath of one run slows the next.
	orders := combin.Permutations(len(all), len(all))
	for round := range m.runs {
		for _, i := range orders[round%len(orders)] {
			w := all[i]
			r, err := w.measure(ctx, fmt.Sprintf("r%d", round))
			if err != nil {
				return nil, fmt.Errorf("%s, round %d: %w", w.setting, round+1, err)
			}
			r.setting, r.Run = w.setting, round+1
			results = append(results, r)
		}
	}
	for _, w := range all {
		if err := w.account(ctx, results); err != nil {
			return nil, fmt.Errorf("%s: %w", w.setting, err)
		}
	}
	return results, nil
}

// watched is a track whose traces may be collected.
type watched struct {
	*track
	collector *harness.Collector
	traces    string
}

// watch starts a watched track, warm. It returns the track even on error, so that the caller can end it.
func (m *measurement) watch(ctx context.Context, s setting) (w *watched, err error) {
	w = &watched{}
	if s.Observed == traces {
		if w.traces, err = os.MkdirTemp("", "berth-traces-"); err != nil {
			return w, err
		}
		if w.collector, err = m.programs.Collect(ctx, w.traces); err != nil {
			return w, err
		}
		defer sendTo(w.collector, tracedShare)()
	}
	if w.track, err = m.open(ctx, s); err != nil {
		return w, err
	}
	return w, w.arrive(ctx, "warm", m.warm)
}

// account ends the processes and adds to their results the values that are known only at the end.
func (w *watched) account(ctx context.Context, results []result) error {
	c, err := w.contention(ctx)
	if err != nil {
		return err
	}
	if err := check(w.api, w.all.warm+w.all.runs*w.all.pods); err != nil {
		return err
	}
	if err := w.Stop(ctx); err != nil {
		return err
	}
	received, whole := 0, 0
	if w.collector != nil { // all services have ended, and sent their spans
		spans, err := w.collector.Spans()
		if err != nil {
			return err
		}
		received, whole = complete(spans)
	}
	for i := range results {
		if results[i].setting == w.setting {
			results[i].contention, results[i].Traced, results[i].Complete = c, received, whole
		}
	}
	return nil
}

// end stops the processes and removes the written files.
func (w *watched) end(ctx context.Context) (err error) {
	if w.track != nil {
		err = w.Close(ctx)
	}
	if w.collector != nil {
		w.collector.Kill()
	}
	if w.traces != "" {
		err = errors.Join(err, os.RemoveAll(w.traces))
	}
	return err
}

// sendTo makes processes that are started next send their traces, and returns how to end that.
func sendTo(c *harness.Collector, ratio float64) (restore func()) {
	env := map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + c.GRPC, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
		"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": fmt.Sprint(ratio),
	}
	for name, value := range env {
		_ = os.Setenv(name, value) // the names are valid
	}
	return func() {
		for name := range env {
			_ = os.Unsetenv(name)
		}
	}
}

// complete counts the pods of which a span was received, and those of which all were, each below
// one that was received too.
func complete(spans []harness.Span) (received, whole int) {
	paths := map[string][]harness.Span{}
	for _, s := range spans {
		paths[s.TraceID] = append(paths[s.TraceID], s)
	}
	for _, path := range paths {
		names, ids := map[string]bool{}, map[string]bool{"": true}
		for _, s := range path {
			names[s.Name], ids[s.SpanID] = true, true
		}
		if !names["pod"] && !names["attempt"] {
			continue // of no pod: a call to a store
		}
		received++
		lacks := slices.ContainsFunc(wholeTrace, func(name string) bool { return !names[name] })
		orphan := slices.ContainsFunc(path, func(s harness.Span) bool { return !ids[s.ParentSpanID] })
		if !lacks && !orphan {
			whole++
		}
	}
	return received, whole
}

// cost is how much more processor time a pod takes for one thing, as a share, with half the width
// of its interval of confidence.
type cost struct {
	share, unsure float64
	rounds        int
}

// pairedCost compares runs of the same round. It averages the logarithm of the ratio of two runs, because the state
// of the machine affects both alike.
func pairedCost(with, without []float64) cost {
	logs := make([]float64, min(len(with), len(without)))
	for i := range logs {
		logs[i] = math.Log(with[i] / without[i])
	}
	mean, deviation := stat.MeanStdDev(logs, nil)
	c := cost{share: math.Expm1(mean), unsure: math.Inf(1), rounds: len(logs)}
	if n := float64(len(logs)); n > 1 {
		t := distuv.StudentsT{Sigma: 1, Nu: n - 1}.Quantile((1 + confidence) / 2)
		c.unsure = t * deviation / math.Sqrt(n)
	}
	return c
}

func (c cost) String() string {
	return fmt.Sprintf("%+.1f%%, give or take %.1f (%d rounds)", 100*c.share, 100*c.unsure, c.rounds)
}

// judge returns an error if the cost is too high, or too uncertain to judge.
func (c cost) judge(what string, most float64) error {
	switch {
	case !(c.unsure <= mostUnsure):
		return fmt.Errorf("what %s cost is too uncertain: %s; want at most %.0f: more --runs, on a machine of its own",
			what, c, 100*mostUnsure)
	case c.share > most:
		return fmt.Errorf("%s cost %s, want at most %.0f%%", what, c, 100*most)
	default:
		return nil
	}
}

// observing writes the cost of being observed, and returns an error for costs over their limits. It writes nothing if
// all runs are observed alike.
func (r report) observing(w io.Writer) error {
	if len(r.observed) < 2 {
		return nil
	}
	var over []error
	tell := func(what, with, without string, most float64) {
		if !slices.Contains(r.observed, with) || !slices.Contains(r.observed, without) {
			return
		}
		c := pairedCost(r.each(with), r.each(without))
		fmt.Fprintf(w, "%s: %s of a pod's processor time; limit %.0f%%\n", what, c, 100*most)
		over = append(over, c.judge(what, most))
	}
	fmt.Fprintln(w)
	tell("records", records, nothing, mostForRecords)
	tell("traces", traces, records, mostForTraces)
	over = append(over, r.completeTraces(w))
	err := errors.Join(over...)
	verdict := "what was measured is within its limits"
	if err != nil {
		verdict = strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	fmt.Fprintf(w, "verdict: %s\n", verdict)
	return err
}

// completeTraces writes which share of the pods has a complete trace.
func (r report) completeTraces(w io.Writer) error {
	i := slices.IndexFunc(r.Results, func(x result) bool { return x.Observed == traces })
	if i < 0 {
		return nil
	}
	share := float64(r.Results[i].Complete) / float64(r.warm+r.runs*r.Pods)
	fmt.Fprintf(w, "%.2f%% of the pods have a complete trace, %d any\n", 100*share, r.Results[i].Traced)
	if math.Abs(share/tracedShare-1) > tracesOff {
		return fmt.Errorf("%.2f%% of the pods have a complete trace, want %.0f%% give or take %.0f",
			100*share, 100*tracedShare, 100*tracedShare*tracesOff)
	}
	return nil
}

// each is the processor time per pod in each run that was observed in a way, in the order of the runs.
func (r report) each(observed string) (micros []float64) {
	for _, x := range r.Results {
		if x.Observed == observed {
			micros = append(micros, x.all())
		}
	}
	return micros
}
