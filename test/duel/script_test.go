package duel

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-scheduler/berth/test/observe"
	"github.com/berth-scheduler/berth/test/perf/bench"
)

func TestAScriptComesFromItsSeed(t *testing.T) {
	allow := cmp.AllowUnexported(step{})
	one := script(7, time.Minute)
	if diff := cmp.Diff(one, script(7, time.Minute), allow); diff != "" {
		t.Errorf("the same seed gives another script:\n%s", diff)
	}
	if cmp.Equal(one, script(8, time.Minute), allow) {
		t.Error("another seed gives the same script")
	}
}

// A script tempts both schedulers, with every class of priority, and no pod leaves that has not arrived.
func TestAScriptIsAdversarial(t *testing.T) {
	seen := map[string]bool{}
	for seed := range int64(20) {
		there, last := map[string]bool{}, time.Duration(0)
		for _, s := range script(seed, time.Minute) {
			if s.at < last || s.at >= time.Minute {
				t.Fatalf("seed %d: %+v comes after %s", seed, s, last)
			}
			last = s.at
			seen[string(s.do)], seen[s.scheduler], seen[s.class] = true, true, true
			if s.do == arrive {
				there[s.pod] = true
			}
			if s.do == arrive && (s.cpu < 1 || s.cpu > nodeCPU) {
				t.Errorf("seed %d: %+v fits no node", seed, s)
			}
			if s.do == leave && !there[s.pod] {
				t.Errorf("seed %d: %s leaves and was not there", seed, s.pod)
			}
		}
	}
	for _, want := range []string{"arrive", "leave", "evict", "first", "second", "middle", "high", "top"} {
		if !seen[want] {
			t.Errorf("nothing of %q in 20 scripts", want)
		}
	}
}

func TestTheReportCountsByKind(t *testing.T) {
	text := markdown("berth v1", time.Minute, []result{{
		contender: "kube-scheduler", seed: 3, arrived: 9, bound: 8, waiting: []string{"urgent-1: no room"},
		evictions: 7, preempted: 6,
		findings: []observe.Finding{{Kind: observe.BudgetExceeded, Text: "x"}, {Kind: observe.BudgetExceeded, Text: "y"}},
	}})
	for _, want := range []string{"| 3 | kube-scheduler | 9 | 8 | 1 | 7 | 6 | 2 | 0 | 0 |", "- budget exceeded: y"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestBadCommandLines(t *testing.T) {
	for args, want := range map[string]string{
		"--contenders=volcano": "kube-scheduler-alone, berth", "--seeds=0": "at least 1",
	} {
		if err := bench.Parse(&options{}, args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %q", args, err, want)
		}
	}
}
