package main

import (
	"strings"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/test/e2e/harness"
)

// path is a trace with the spans of a plain pod.
func path(id string) []harness.Span {
	spans := make([]harness.Span, 0, len(whole))
	for _, name := range whole {
		s := harness.Span{TraceID: id, SpanID: id + name, Name: name, ParentSpanID: id + "pod"}
		if name == "pod" {
			s.ParentSpanID = ""
		}
		spans = append(spans, s)
	}
	return spans
}

func TestTraces(t *testing.T) {
	all := append(path("a"), path("b")...)
	all = append(all, path("c")[:len(whole)-1]...) // the last span is missing
	orphan := path("d")
	orphan[3].ParentSpanID = "nobody"
	all = append(all, orphan...)
	all = append(all, harness.Span{TraceID: "e", SpanID: "e1", Name: "etcdserverpb.KV/Txn"})
	if received, complete := traces(all); received != 4 || complete != 2 {
		t.Errorf("%d received and %d complete, want 4 and 2", received, complete)
	}
}

func TestReport(t *testing.T) {
	b := bench{options: options{runs: 1, pods: 1000, ratio: 0.1, enforce: true}}
	for variant, cpu := range map[string]time.Duration{"plain": 103, "no-evidence": 99, "traced": 120} {
		b.results = append(b.results, result{variant: variant, cpu: cpu * time.Millisecond, wall: time.Second, complete: 80})
	}
	b.took = []time.Duration{time.Second}
	var text strings.Builder
	err := b.report(&text)
	for _, want := range []string{
		"records cost 4.0%", "tracing costs 16.5%", "8.00% of the pods have a complete trace", "berth explain pod takes 1s",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
	if want := "| plain | 103 | +0.0% | 1000 | 8.00% |"; !strings.Contains(text.String(), want) {
		t.Errorf("no %q in\n%s", want, text.String())
	}
}
