package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/test/e2e/harness"
)

// Limits.
const (
	// mostForEvidence and mostForTraces are shares of the processor time of a pod.
	mostForEvidence = 0.03
	mostForTraces   = 0.05
	// tracesOff is how far the share of pods with a complete trace may be from the ratio, as a
	// share of that: with 10,000 pods chance alone gives a third of it.
	tracesOff = 0.1
	// mostForExplain bounds `berth explain pod`, as what nine of ten take.
	mostForExplain = 200 * time.Millisecond
)

// whole are the spans that a plain pod's trace has: none is missing in a complete one.
var whole = []string{"pod", "seen", "queued", "attempt", "filter", "score", "reserve", "bind", "HTTP POST"}

// traces counts the pods of which a span was received, and those of which all were, each below
// one that was received too.
func traces(spans []harness.Span) (received, complete int) {
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
		lacks := slices.ContainsFunc(whole, func(name string) bool { return !names[name] })
		orphan := slices.ContainsFunc(path, func(s harness.Span) bool { return !ids[s.ParentSpanID] })
		if !lacks && !orphan {
			complete++
		}
	}
	return received, complete
}

// report writes a table, and with --enforce returns what is over its limit.
func (b *bench) report(w io.Writer) error {
	var over []error
	fmt.Fprintf(w, "%d pods, %d runs of each\n\n", b.pods, b.runs)
	fmt.Fprintln(w, "| variant | µs of processor time a pod | against plain | pods/s | pods with a complete trace |")
	fmt.Fprintln(w, "|---|---|---|---|---|")
	plain := b.perPod("plain")
	for _, name := range variantNames() {
		perPod := b.perPod(name)
		if perPod == 0 {
			continue
		}
		share := perPod/plain - 1
		complete := b.median(name, func(r result) float64 { return float64(r.complete) }) / float64(b.pods)
		fmt.Fprintf(w, "| %s | %.0f | %+.1f%% | %.0f | %.2f%% |\n", name, perPod, 100*share,
			b.median(name, func(r result) float64 { return float64(b.pods) / r.wall.Seconds() }), 100*complete)
		over = append(over, b.excess(name, perPod/plain, complete)...)
	}
	if len(b.took) > 0 {
		fmt.Fprint(w, "\nberth explain pod, the whole process\n")
		times(w, "right after the last bind", b.atWork)
		most := times(w, "when the ledger promises nothing any more", b.took)
		if most > mostForExplain {
			over = append(over, fmt.Errorf("berth explain pod takes %s, want at most %s", most, mostForExplain))
		}
	}
	fmt.Fprintf(w, "\nlimits: records %.0f%%, traces %.0f%%, complete traces %.0f to %.0f%%, explanations %s\n",
		100*mostForEvidence, 100*mostForTraces, 100*b.ratio*(1-tracesOff), 100*b.ratio*(1+tracesOff), mostForExplain)
	for _, err := range over {
		fmt.Fprintf(w, "over its limit: %v\n", err)
	}
	if len(over) == 0 {
		fmt.Fprintln(w, "verdict: what was measured is within its limits")
	}
	if !b.enforce {
		return nil
	}
	return errors.Join(over...)
}

// excess is what is over its limit in a variant that takes so many times what plain takes.
func (b *bench) excess(variant string, ratio, complete float64) (over []error) {
	if records := 1/ratio - 1; variant == "no-evidence" && records > mostForEvidence {
		over = append(over, fmt.Errorf("records cost %.1f%%, want at most %.0f%%", 100*records, 100*mostForEvidence))
	}
	if variant != "traced" {
		return over
	}
	if ratio-1 > mostForTraces {
		over = append(over, fmt.Errorf("tracing costs %.1f%%, want at most %.0f%%", 100*(ratio-1), 100*mostForTraces))
	}
	if complete < b.ratio*(1-tracesOff) || complete > b.ratio*(1+tracesOff) {
		over = append(over, fmt.Errorf("%.2f%% of the pods have a complete trace, want about %.0f%%",
			100*complete, 100*b.ratio))
	}
	return over
}

func (b *bench) perPod(variant string) float64 {
	return b.median(variant, func(r result) float64 { return float64(r.cpu.Microseconds()) / float64(b.pods) })
}

// median over the runs of a variant, 0 if there is none.
func (b *bench) median(variant string, value func(result) float64) float64 {
	var values []float64
	for _, r := range b.results {
		if r.variant == variant {
			values = append(values, value(r))
		}
	}
	return harness.Median(values)
}

// times tells how long something took, and returns what nine of ten took at most.
func times(w io.Writer, when string, took []time.Duration) (most time.Duration) {
	if len(took) == 0 {
		return 0
	}
	took = slices.Sorted(slices.Values(took))
	most = took[len(took)*9/10]
	fmt.Fprintf(w, "  %s: median %s, nine of ten within %s, at most %s\n", when,
		took[len(took)/2].Round(time.Millisecond), most.Round(time.Millisecond), took[len(took)-1].Round(time.Millisecond))
	return most
}
