package main

import (
	"strings"
	"testing"
	"time"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/features"

	"github.com/berth-scheduler/berth/pkg/placement/placementbench"
)

// Every workload runs at a small size, places its pods on both sides, and the answers agree.
func TestWorkloadsRunAndAgree(t *testing.T) {
	for _, w := range placementbench.All() {
		t.Run(w.Name, func(t *testing.T) {
			w.Decisions = 60
			b := bench{options: options{nodes: 60, box: time.Minute, samples: 30}, load: w}
			r, err := b.workload(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, differences := range r.Differences {
				t.Error(differences)
			}
			if r.Checked != 30 || r.Berth.Decisions != 60 {
				t.Errorf("%d checked of %d decisions, want 30 of 60", r.Checked, r.Berth.Decisions)
			}
			for side, f := range map[string]figures{"Berth": r.Berth, "sampled": r.Sampled, "all": r.All} {
				if f.Unplaced > 0 || f.Rate() <= 0 || f.P99 < f.P50 {
					t.Errorf("%s: %+v, want every pod placed in some time", side, f)
				}
			}
		})
	}
}

// An engine that answers something else is found out.
func TestDisagreementIsFound(t *testing.T) {
	w, err := placementbench.Named("basic")
	if err != nil {
		t.Fatal(err)
	}
	w.Decisions = 40
	b := bench{options: options{nodes: 30, samples: 40}, load: w}
	var chosen []string
	if _, err := b.ours(t.Context(), &chosen); err != nil {
		t.Fatal(err)
	}
	o, err := newOurs(w.Cluster(30))
	if err != nil {
		t.Fatal(err)
	}
	if err := o.accept(t.Context(), w.Pending(0)); err != nil {
		t.Fatal(err)
	}
	name, err := o.decide(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	total, count := o.last.Feasible[0].Total, o.last.FeasibleCount
	totals := func(of int64, others int) map[string]int64 {
		m := map[string]int64{name: of}
		for i := range others {
			m[string(rune('a'+i))] = total
		}
		return m
	}
	for want, v := range map[string]verdict{
		"nodes are feasible":  {totals: totals(total, count), best: total},
		"is not feasible":     {totals: map[string]int64{}, best: total},
		"its best is":         {totals: totals(total, count-1), best: total + 1},
		"kube-scheduler's is": {totals: totals(total+1, count-1), best: total + 1},
		"":                    {totals: totals(total, count-1), best: total},
	} {
		if len(v.totals) == 0 {
			for i := range count {
				v.totals[string(rune('a'+i))] = total
			}
		}
		if got := v.disagrees(o); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	chosen[3] = "elsewhere"
	if _, differences, err := b.check(t.Context(), chosen); err != nil || len(differences) != 1 {
		t.Errorf("%d differences, %v: want the one that was planted", len(differences), err)
	}
}

// The page states that batching is on and not used: a pod without a signature is never batched. Where that changes,
// the page is wrong.
func TestBatchingIsNotUsed(t *testing.T) {
	if !utilfeature.DefaultFeatureGate.Enabled(features.OpportunisticBatching) {
		t.Error("batching is off by default")
	}
	for _, w := range placementbench.All() {
		u, err := newUpstream(t.Context(), w.Cluster(3), sampled)
		if err != nil {
			t.Fatal(err)
		}
		if err := u.accept(t.Context(), w.Pending(0)); err != nil {
			t.Fatal(err)
		}
		if u.pending.PodSignature != nil {
			t.Errorf("%s: pods have signatures", w.Name)
		}
	}
}

// The page has every workload with its verdict, and no number that is not there.
func TestPage(t *testing.T) {
	fast := figures{
		Decisions: 50_000, Processor: time.Second, Clock: time.Second, Arrival: time.Second,
		P50: 20 * time.Microsecond, P99: time.Millisecond, Allocations: 2,
	}
	slow := figures{Decisions: 100, Processor: time.Second, Clock: time.Second, P50: time.Millisecond, P99: time.Second}
	r := report{Nodes: 5000, Rows: []row{
		{Name: "basic", Title: "A", Berth: fast, Sampled: slow, All: slow, Checked: 50},
		{Name: "basic-unowned", Title: "B", Berth: fast, Sampled: slow, All: slow},
		{Name: "mixed", Title: "C", Berth: slow, Sampled: slow, All: slow},
	}}
	text, err := r.markdown()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| A | 50,000/s | 20 | 1,000 | 2 | 100/s | 500x | 100/s | 500x | 30,000/s, 50x | yes |",
		"| – | – |", "**no**", "None differed", "its processor 100% of",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	for _, unwanted := range []string{"Memory of a shard", "was busy", "NaN", "%!"} {
		if strings.Contains(text, unwanted) {
			t.Errorf("%q in\n%s", unwanted, text)
		}
	}
	r.Rows[0].Differences = []string{"pod 1: elsewhere"}
	r.Rows[0].Berth.Clock = 2 * time.Second
	r.Memory = []memoryReport{{Nodes: 5000, Pods: 150_000, MemoryLimit: 620 << 20}}
	r.Memory[0].Decided.Resident = 701e6
	if text, err = r.markdown(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"this table is void", "Other work shared the machine", "its processor 50% of",
		"| 620MiB |", "| at most 700 MB | **no** |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestParseRefusesWhatCannotBe(t *testing.T) {
	for _, args := range [][]string{{"--nodes", "0"}, {"--workloads", "none"}, {"--box", "-1s"}, {"--samples", "-1"}} {
		if _, err := parse(args); err == nil || !strings.Contains(err.Error(), args[0]) {
			t.Errorf("%v: %v, want an error that names the flag", args, err)
		}
	}
}
