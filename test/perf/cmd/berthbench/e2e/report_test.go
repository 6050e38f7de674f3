package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-scheduler/berth/test/perf/bench"
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
	p := podTimes{"a": {Appeared: at(0), Bound: at(500)}, "b": {Appeared: at(100), Bound: at(1100)}}
	got := result{Mode: live, Pods: 2}
	p.fill(&got, begin)
	want := result{Mode: live, Pods: 2, WallSeconds: 1.1, BindSeconds: 0.6, PodsPerSecond: 2 / 1.1}
	got.Latency, got.Distribution = bench.Latency{}, nil
	want.Curve = [][2]float64{{0, 0}, {0.5, 1}, {1.1, 2}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(result{})); diff != "" {
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
		{"--modes=failover --contenders=berth-processes", "kube-scheduler or berth"},
	} {
		if err := bench.Parse(&options{}, strings.Fields(test.args)...); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want an error with %q", test.args, err, test.want)
		}
	}
}

func TestArrivalSaysWhatPilesUp(t *testing.T) {
	begin := time.Unix(1000, 0)
	at := func(ms int) time.Time { return begin.Add(time.Duration(ms) * time.Millisecond) }
	p := podTimes{
		"a": {Appeared: at(0), Bound: at(10)}, "b": {Appeared: at(600), Bound: at(700)},
		"c": {Appeared: at(1000), Bound: at(3000)},
	}
	got := p.arrival(map[string]time.Time{"a": at(0), "b": at(400), "c": at(800)}, begin)
	if got.Rate != 2.5 || got.Arrived != 2 || got.BehindSeconds != 2 {
		t.Errorf("%+v, want 2.5/s asked for, 2/s arrived, 2 s behind", got)
	}
	if got.SinceDue.Max < 2199 || got.SinceDue.Max > 2202 {
		t.Errorf("since due: at most %v ms, want 2200", got.SinceDue.Max)
	}
}

func TestOutcomeComparesWithinTheRun(t *testing.T) {
	rows := report{Results: []result{
		{Contender: "kube-scheduler", Mode: drain, Pods: 10, PodsPerSecond: 100, WallSeconds: 10, EventSeconds: 2},
		{Contender: "berth", Mode: drain, Pods: 10, PodsPerSecond: 300, WallSeconds: 4, EventSeconds: 2},
		{Contender: "raw-8", Mode: drain, Pods: 10, PodsPerSecond: 350},
		{Contender: "raw-16", Mode: drain, Pods: 10, PodsPerSecond: 400},
	}}
	values := rows.outcome(1).Values
	for name, want := range map[string]float64{"ratio": 3, "rawShare": 0.75, "lastEventRatio": 0.5, "eventSeconds": 2} {
		if got := values["drain.berth."+name]; got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

func TestGapSaysWhatAKillDid(t *testing.T) {
	begin := time.Unix(1000, 0)
	at := func(ms int) time.Time { return begin.Add(time.Duration(ms) * time.Millisecond) }
	p := podTimes{
		"a": {Appeared: at(0), Bound: at(900)}, "b": {Appeared: at(1100), Bound: at(5000)},
		"c": {Appeared: at(2000), Bound: at(5500)}, "d": {Appeared: at(7000), Bound: at(7100)},
	}
	if none := p.gap(time.Time{}); none != nil {
		t.Errorf("%+v without a kill", none)
	}
	want := gap{SilenceSeconds: 4, LongestWaitSeconds: 3.9, Delayed: 2, RecoveredSeconds: 4.5}
	got := p.gap(at(1000))
	if diff := cmp.Diff(want, *got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	r := report{Results: []result{
		{Contender: "kube-scheduler", Mode: failover, Pods: 4, Gap: &gap{SilenceSeconds: 16, Delayed: 8}},
		{Contender: "berth", Mode: failover, Pods: 4, Gap: got},
	}}
	o := r.outcome(1)
	for name, want := range map[string]float64{
		"failover.berth.silenceSeconds": 4, "failover.berth.silenceRatio": 0.25, "failover.berth.delayedRatio": 0.25,
		"failover.kube-scheduler.delayed": 8,
	} {
		if o.Values[name] != want {
			t.Errorf("%s: %v, want %v", name, o.Values[name], want)
		}
	}
	if text := r.markdown(); !strings.Contains(text, "berth: no bind for 4.00 s after the kill") {
		t.Errorf("the report says nothing of it:\n%s", text)
	}
}
