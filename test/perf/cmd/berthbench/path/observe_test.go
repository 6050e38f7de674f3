package path

import (
	"io"
	"math"
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/test/e2e/harness"
)

// path is a trace with the spans of a plain pod.
func path(id string) []harness.Span {
	spans := make([]harness.Span, 0, len(wholeTrace))
	for _, name := range wholeTrace {
		s := harness.Span{TraceID: id, SpanID: id + name, Name: name, ParentSpanID: id + "pod"}
		if name == "pod" {
			s.ParentSpanID = ""
		}
		spans = append(spans, s)
	}
	return spans
}

func TestComplete(t *testing.T) {
	all := append(path("a"), path("b")...)
	all = append(all, path("c")[:len(wholeTrace)-1]...) // the last span is missing
	orphan := path("d")
	orphan[3].ParentSpanID = "nobody"
	all = append(all, orphan...)
	all = append(all, harness.Span{TraceID: "e", SpanID: "e1", Name: "etcdserverpb.KV/Txn"})
	if received, whole := complete(all); received != 4 || whole != 2 {
		t.Errorf("%d received and %d complete, want 4 and 2", received, whole)
	}
}

// What the machine does to both runs of a round is no difference between them, and no uncertainty.
func TestPairedCostIsOfRounds(t *testing.T) {
	c := pairedCost([]float64{103, 206, 51.5}, []float64{100, 200, 50})
	if math.Abs(c.share-0.03) > 1e-9 || c.unsure > 1e-9 {
		t.Errorf("%v, want +3.0%% for certain", c)
	}
	// Two rounds of 0% and 4%: 2% on average, with Student's t of one degree of freedom at 12.7.
	c = pairedCost([]float64{100, 104}, []float64{100, 100})
	if want := 12.7062 * math.Log(1.04) / 2; math.Abs(c.unsure-want) > 1e-4 {
		t.Errorf("give or take %.4f, want %.4f", c.unsure, want)
	}
	if one := pairedCost([]float64{1}, []float64{1}); one.judge("records", 1) == nil {
		t.Error("one round is enough for a verdict")
	}
}

func TestObservingFailsPastItsLimits(t *testing.T) {
	r := report{options: options{
		observed: []string{records, nothing, traces}, warm: 100, runs: 3}, Pods: 300}
	add := func(run int, observed string, micros float64, complete int) {
		r.Results = append(r.Results, result{
			setting: setting{Observed: observed}, Run: run, Micros: map[string]float64{"queue": micros}, Complete: complete})
	}
	for run := range 5 {
		slow := float64(1 + run)
		add(run, records, 102*slow, 0)
		add(run, nothing, 100*slow, 0)
		add(run, traces, 104*slow, 100)
	}
	if err := r.observing(io.Discard); err != nil {
		t.Errorf("all is within limits: %v", err)
	}
	add(6, records, 1, 0)
	add(6, nothing, 1, 0)
	add(6, traces, 1.5, 0)
	for i := range r.Results {
		r.Results[i].Complete = 80
	}
	err := r.observing(io.Discard)
	for _, want := range []string{"what traces cost is too uncertain", "8.00% of the pods have a complete trace"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
	if err := (cost{share: 0.031, unsure: 0.01}).judge("records", mostForRecords); err == nil {
		t.Error("3.1% is within 3%")
	}
}
