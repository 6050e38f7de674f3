package decide

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/berth-scheduler/berth/pkg/descheduling/plan"
	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
)

// TestDryRunIsTheRealPlan: what a dry run shows is what a real cycle asks for on the same facts,
// pod by pod and place by place, whatever was asked for before; showing it changes nothing, so
// that it may be done any number of times before.
func TestDryRunIsTheRealPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := randomCluster(t)
		for i := range rapid.IntRange(0, 2).Draw(t, "budgets") {
			all = append(all, &policyv1.PodDisruptionBudget{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: "default", Name: fmt.Sprint("b", i), UID: types.UID(fmt.Sprint("uid-b", i)),
				},
				Spec:   policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{}},
				Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: rapid.Int32Range(0, 3).Draw(t, "allowed")},
			})
		}
		p := taints(t, "", fmt.Sprintf("nodeFit: %t", rapid.Bool().Draw(t, "nodeFit")))
		p.Berth.MaxPerCycle = rapid.IntRange(0, 4).Draw(t, "maxPerCycle")
		var log []logged
		for range rapid.IntRange(1, 4).Draw(t, "cycles") {
			at := now.Add(time.Duration(len(log)) * time.Minute)
			dry := replayed(t, all, log)
			dry.Policy, dry.Now, dry.Explain = p, at, true
			shown := Cycle(dry)
			if diff := cmp.Diff(asks(shown), asks(Cycle(dry))); diff != "" {
				t.Fatalf("the second dry run shows something else:\n%s", diff)
			}
			really := replayed(t, all, log)
			really.Policy, really.Now = p, at
			done := Cycle(really)
			if diff := cmp.Diff(asks(shown), asks(done)); diff != "" {
				t.Fatalf("shown and done differ (-dry run +real):\n%s", diff)
			}
			if diff := cmp.Diff(shown.Refused, done.Refused); diff != "" {
				t.Fatalf("shown and refused differ (-dry run +real):\n%s", diff)
			}
			checkReport(t, shown.Report, done)
			for _, e := range done.Evict {
				log = append(log, logged{e.Decision, at})
			}
		}
	})
}

// asks are what a cycle writes to the log.
func asks(out Outcome) []events.Decision {
	var all []events.Decision
	for _, e := range out.Evict {
		all = append(all, e.Decision)
	}
	return all
}

// replayed is an input made anew of the same facts and decisions.
func replayed(t *rapid.T, all []state.APIObject, log []logged) Input {
	in := input(t, nil, statetest.Snapshot(t, all...))
	in.History = replay(log)
	return in
}

func checkReport(t *rapid.T, r *plan.Report, done Outcome) {
	if len(r.Evict) != len(done.Evict) {
		t.Fatalf("the report has %d evictions, %d were asked for", len(r.Evict), len(done.Evict))
	}
	for i, g := range r.Evict {
		d := done.Evict[i].Decision
		if g.Pod != d.Pod.Namespace+"/"+d.Pod.Name || g.Node != d.NodeName || g.Landing != d.Landing {
			t.Fatalf("the report has %+v, asked for was %s from %s to %q", g, d.Pod.Name, d.NodeName, d.Landing)
		}
	}
}
