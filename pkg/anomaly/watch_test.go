package anomaly

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	_ "github.com/berth-scheduler/berth/pkg/seedtest" // seed of rapid
)

// start is when these scenarios begin.
var start = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func at(minutes int) time.Time { return start.Add(time.Duration(minutes) * time.Minute) }

func decision(kind events.DecisionKind, pod string) events.Decision {
	return events.Decision{
		Kind: kind, NodeName: "n1", Pod: events.PodRef{UID: "uid-" + pod, Namespace: "shop", Name: pod},
	}
}

func wantFound(t *testing.T, r Report, want map[Rule]int) {
	t.Helper()
	for _, rule := range Rules {
		if _, listed := want[rule]; !listed {
			want[rule] = 0
		}
	}
	if diff := cmp.Diff(want, r.Found); diff != "" {
		t.Errorf("found (-want +got):\n%s%v", diff, r.Findings)
	}
}

func TestNothingIsWrong(t *testing.T) {
	w := NewWatch()
	for i := range 100 {
		pod := fmt.Sprint("pod-", i)
		w.RecordDecision(decision(events.DecisionPlaced, pod), at(1), Workload{})
		w.RecordDecision(decision(events.DecisionBound, pod), at(1), Workload{})
	}
	wantFound(t, w.Findings(at(2), nil, nil), map[Rule]int{})
}

func TestPreemptionInVain(t *testing.T) {
	w := NewWatch()
	for i := range 3 {
		wantFound(t, w.Findings(at(i), nil, nil), map[Rule]int{})
		w.RecordDecision(decision(events.DecisionNominated, "urgent"), at(i), Workload{})
	}
	r := w.Findings(at(3), nil, nil)
	wantFound(t, r, map[Rule]int{PreemptsInVain: 1})
	if f := r.Findings[0]; f.About != "shop/urgent" || !f.Since.Equal(at(0)) {
		t.Errorf("found %+v", f)
	}
	wantFound(t, w.Findings(at(11), nil, nil), map[Rule]int{})
	for range 3 {
		w.RecordDecision(decision(events.DecisionNominated, "lucky"), at(11), Workload{})
	}
	w.RecordDecision(decision(events.DecisionBound, "lucky"), at(11), Workload{})
	wantFound(t, w.Findings(at(11), nil, nil), map[Rule]int{})
}

// A hundred pods of one workload may go at once; that their replacements go, and those of the
// replacements, is what is wrong.
func TestPreemptedAgain(t *testing.T) {
	w := NewWatch()
	for i := range 100 {
		d := decision(events.DecisionEvicted, fmt.Sprint("first-", i))
		w.RecordDecision(d, at(1), Workload{Owner: "web", Created: at(0)})
	}
	wantFound(t, w.Findings(at(1), nil, nil), map[Rule]int{})
	for i := 2; i < 4; i++ {
		whose := Workload{Owner: "web", Created: at(i - 1).Add(1)}
		w.RecordDecision(decision(events.DecisionEvicted, fmt.Sprint("next-", i)), at(i), whose)
	}
	r := w.Findings(at(4), nil, nil)
	wantFound(t, r, map[Rule]int{PreemptedAgain: 1})
	if r.Findings[0].About != "web" {
		t.Errorf("found %+v", r.Findings[0])
	}
	descheduled := decision(events.DecisionEvicted, "moved")
	descheduled.Strategy = "RemoveDuplicates"
	for i := range 9 {
		w.RecordDecision(descheduled, at(i+4), Workload{Owner: "other", Created: at(i + 3).Add(1)})
	}
	wantFound(t, w.Findings(at(4), nil, nil), map[Rule]int{PreemptedAgain: 1})
}

func TestBindsRejected(t *testing.T) {
	w := NewWatch()
	w.RecordDecision(decision(events.DecisionReleased, "cart"), at(0), Workload{})
	w.RecordDecision(decision(events.DecisionRejected, "cart"), at(1), Workload{})
	w.RecordDecision(decision(events.DecisionReleased, "cart"), at(2), Workload{})
	w.RecordDecision(decision(events.DecisionReleased, "other"), at(2), Workload{})
	wantFound(t, w.Findings(at(3), nil, nil), map[Rule]int{BindsRejected: 1})
}

// A fence that is refused is found at once, as long as it is reported again, and until it ends.
func TestFenceRefused(t *testing.T) {
	w := NewWatch()
	refused := decision(events.DecisionFenceRefused, "cart")
	refused.NodeName, refused.Message = "n1", "patch of pods/status: frozen"
	for minute := 0; minute < 20; minute += 5 {
		w.RecordDecision(refused, at(minute), Workload{})
		r := w.Findings(at(minute), nil, nil)
		wantFound(t, r, map[Rule]int{FenceRefused: 1})
		if d := r.Findings[0].Detail; !strings.HasSuffix(d, "last on node n1: patch of pods/status: frozen") {
			t.Errorf("detail %q, want the node and what the API server says", d)
		}
	}
	for _, end := range []events.DecisionKind{events.DecisionReleased, events.DecisionBound} {
		w.RecordDecision(refused, at(20), Workload{})
		w.RecordDecision(decision(end, "cart"), at(21), Workload{})
		wantFound(t, w.Findings(at(21), nil, nil), map[Rule]int{})
	}
	w.RecordDecision(refused, at(22), Workload{})
	wantFound(t, w.Findings(at(33), nil, nil), map[Rule]int{})
}

func TestOverdue(t *testing.T) {
	w := NewWatch()
	pods := []TimedState{
		{Pod: "shop/quick", Where: "offered", Since: at(9), Limit: OverdueTrying},
		{Pod: "shop/slow", Where: "offered", Since: at(7), Limit: OverdueTrying},
		{Pod: "shop/patient", Where: "active", Since: at(1), Limit: OverdueActive},
	}
	doc := ledger.NodeDoc{NodeName: "n1"}
	entries := []TimedState{
		Entry(doc, ledger.Entry{Role: ledger.RoleReservation, State: ledger.Committed}, at(7)),
		Entry(doc, ledger.Entry{Role: ledger.RoleReservation, State: ledger.Held}, at(7)),
		Entry(doc, ledger.Entry{Role: ledger.RoleKeeper}, at(-1000)),
		Entry(doc, ledger.Entry{Role: ledger.RoleMove}, at(-10)),
		// The binder waits ten minutes for a volume to be made, or for devices to be ready.
		Entry(doc, ledger.Entry{
			Role: ledger.RoleReservation, State: ledger.Committed, Volumes: []ledger.VolumePick{{Claim: "data"}},
		}, at(0)),
		Entry(doc, ledger.Entry{
			Role: ledger.RoleReservation, State: ledger.Committed, Devices: []ledger.DevicePick{{Claim: "gpu"}},
		}, at(0)),
		// Nothing is to be made for a claim that has its volume.
		Entry(doc, ledger.Entry{
			Role: ledger.RoleReservation, State: ledger.Committed, Volumes: []ledger.VolumePick{{Claim: "d", HasVolume: true}},
		}, at(7)),
		Entry(doc, ledger.Entry{
			Role: ledger.RoleReservation, State: ledger.Fencing, Volumes: []ledger.VolumePick{{Claim: "data"}},
		}, at(-6)),
	}
	w.RecordSweep(2, at(9))
	r := w.Findings(at(10), pods, entries)
	wantFound(t, r, map[Rule]int{PodOverdue: 1, HoldOverdue: 4, CaughtBySweep: 1})
	if want := "offered for 3m0s, expected at most 2m0s"; r.Findings[0].Detail != want {
		t.Errorf("detail %q, want %q", r.Findings[0].Detail, want)
	}
}

// Whatever happens, the memory is bounded, findings are in the window, and time cleans up.
func TestBounded(t *testing.T) {
	kinds := []events.DecisionKind{
		events.DecisionNominated, events.DecisionBound, events.DecisionReleased, events.DecisionEvicted,
		events.DecisionFenceRefused,
	}
	rapid.Check(t, func(t *rapid.T) {
		w, now := NewWatch(), start
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 60).Draw(t, "seconds")) * time.Second)
			pod := fmt.Sprint(rapid.IntRange(0, 5).Draw(t, "pod"))
			whose := Workload{Owner: "owner-" + pod, Created: now.Add(-time.Second)}
			w.RecordDecision(decision(rapid.SampledFrom(kinds).Draw(t, "kind"), pod), now, whose)
			for _, f := range w.Findings(now, nil, nil).Findings {
				if f.Since.After(now) || now.Sub(f.Since) > Window {
					t.Fatalf("at %s: %+v", now, f)
				}
			}
		}
		if r := w.Findings(now.Add(2*Window), nil, nil); len(r.Findings) > 0 {
			t.Fatalf("still found after two windows: %+v", r.Findings)
		}
	})
	w := NewWatch()
	for i := range maxNames + 10 {
		w.RecordDecision(decision(events.DecisionNominated, fmt.Sprint(i)), start, Workload{})
	}
	if len(w.nominated) > maxNames {
		t.Errorf("%d names are remembered, want at most %d", len(w.nominated), maxNames)
	}
}
