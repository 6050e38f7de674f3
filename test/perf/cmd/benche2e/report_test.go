package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestReportComparesMediansWithKubeScheduler(t *testing.T) {
	r := report{Results: []result{
		{Contender: "kube-scheduler", Mode: live, PodsPerSecond: 100},
		{Contender: "berth", Mode: live, PodsPerSecond: 900},
		{Contender: "kube-scheduler", Mode: live, PodsPerSecond: 200},
		{Contender: "berth", Mode: live, PodsPerSecond: 300},
		{Contender: "kube-scheduler", Mode: live, PodsPerSecond: 10000},
		{Contender: "berth", Mode: drain, PodsPerSecond: 7},
	}}
	text := r.markdown()
	for _, want := range []string{
		"| kube-scheduler | 3 | 0.0 | 200 | 1.00 |",
		"| berth | 2 | 0.0 | 600 | 3.00 |",
		"| berth | 1 | 0.0 | 7 | – |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no row %q in\n%s", want, text)
		}
	}
}

func TestTimesOfARun(t *testing.T) {
	begin := time.Unix(1000, 0)
	at := func(ms int) time.Time { return begin.Add(time.Duration(ms) * time.Millisecond) }
	p := &podWatch{
		appeared: map[string]time.Time{"a": at(0), "b": at(100)},
		bound:    map[string]time.Time{"a": at(500), "b": at(1100)},
	}
	got := result{Mode: live, Pods: 2}
	p.fill(&got, begin)
	want := result{Mode: live, Pods: 2, WallSeconds: 1.1, BindSeconds: 0.6, PodsPerSecond: 2 / 1.1}
	got.Latency, want.Latency = latency{}, latency{}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("live (-want +got):\n%s", diff)
	}
	drained := result{Mode: drain, Pods: 2}
	p.fill(&drained, begin)
	if drained.PodsPerSecond < 3.33 || drained.PodsPerSecond > 3.34 || drained.Latency.Max < 1099 {
		t.Errorf("drain: %+v, want 2 pods in 0.6 s and 1100 ms at most", drained)
	}
}

func TestBadCommandLinesNameWhatIsAccepted(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"--contenders=volcano", "kube-scheduler, berth"},
		{"--modes=fast", "live, drain"},
		{"--runs=0", "at least 1"},
	} {
		if _, err := parse([]string{test.args}); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want an error with %q", test.args, err, test.want)
		}
	}
}
