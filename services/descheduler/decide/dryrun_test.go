package decide

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/berth-scheduler/berth/pkg/descheduling/plan"
	"github.com/berth-scheduler/berth/pkg/descheduling/policy"
	"github.com/berth-scheduler/berth/pkg/events"
	_ "github.com/berth-scheduler/berth/pkg/seedtest" // seed of rapid
	"github.com/berth-scheduler/berth/pkg/state"
)

// TestDryRunIsTheRealPlan: what a dry run shows is what a real cycle requests on the same facts and the same ledger,
// pod by pod and place by place, whatever was requested before and whatever guards and budgets there are. Showing it
// changes nothing, so it may be repeated any number of times before. The ledger then accepts every move of the plan.
func TestDryRunIsTheRealPlan(t *testing.T) {
	moved, guarded := 0, 0
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
		run := dryThenReal{cluster: known(t, all...), policy: randomPolicy(t), book: newBook(t)}
		at := now
		for range rapid.IntRange(1, 4).Draw(t, "cycles") {
			out := run.cycle(t, at)
			for _, e := range out.Evict {
				run.log = append(run.log, logged{e.Decision, at})
			}
			for r := range out.Refused {
				if strings.Contains(string(r.Reason), "owner") || strings.Contains(string(r.Reason), "budget") {
					guarded++
				}
			}
			moved += len(out.Evict)
			at = at.Add(time.Duration(rapid.IntRange(1, 900).Draw(t, "seconds")) * time.Second)
			run.settle(t, at)
		}
	})
	if moved == 0 || guarded == 0 {
		t.Errorf("%d pods were moved, guards and budgets kept some in %d cycles: want both", moved, guarded)
	}
}

// randomPolicy draws two strategies with guards and limits.
func randomPolicy(t *rapid.T) *policy.Policy {
	text := fmt.Sprintf(`{apiVersion: descheduler/v1alpha2, kind: DeschedulerPolicy,
berth: {cooldown: %s, maxPerOwner: %s, maxPerCycle: %d, waitForReady: %t, pauseDuringRollout: %t,
excludeNamespaces: [%s]},
%s profiles: [{name: p, pluginConfig: [{name: RemovePodsViolatingNodeTaints}, {name: RemoveDuplicates},
{name: DefaultEvictor, args: {nodeFit: %t, ignorePodsWithoutPDB: %t}}],
plugins: {deschedule: {enabled: [RemovePodsViolatingNodeTaints]}, balance: {enabled: [RemoveDuplicates]}}}]}`,
		rapid.SampledFrom([]string{"0s", "1m", "10m"}).Draw(t, "cooldown"),
		rapid.SampledFrom([]string{"1", "25%", "100%"}).Draw(t, "maxPerOwner"),
		rapid.IntRange(0, 4).Draw(t, "maxPerCycle"), rapid.Bool().Draw(t, "waitForReady"),
		rapid.Bool().Draw(t, "pauseDuringRollout"), rapid.SampledFrom([]string{"", "other"}).Draw(t, "exclude"),
		rapid.SampledFrom([]string{"", "maxNoOfPodsToEvictPerNode: 1,", "maxNoOfPodsToEvictTotal: 2,"}).Draw(t, "limit"),
		rapid.Bool().Draw(t, "nodeFit"), rapid.Bool().Draw(t, "ignorePodsWithoutPDB"))
	p, err := policy.Parse("test", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// dryThenReal is a cluster on which each cycle is shown before it is carried out.
type dryThenReal struct {
	cluster *state.Snapshot
	policy  *policy.Policy
	book    *book
	log     []logged
}

// input builds a new input from what is known.
func (r *dryThenReal) input(t *rapid.T, at time.Time) Input {
	in := input(t, r.policy, r.cluster)
	in.History, in.Now = replay(r.log), at
	in.Promises = NewPromises(r.cluster, r.book.view.Clone())
	return in
}

// cycle shows a cycle twice, and then carries it out.
func (r *dryThenReal) cycle(t *rapid.T, at time.Time) Outcome {
	dry := r.input(t, at)
	dry.Explain = true
	shown := Cycle(dry)
	if diff := cmp.Diff(asks(shown), asks(Cycle(dry))); diff != "" {
		t.Fatalf("the second dry run shows something else:\n%s", diff)
	}
	really := r.input(t, at)
	done := Cycle(really)
	if diff := cmp.Diff(asks(shown), asks(done)); diff != "" {
		t.Fatalf("shown and done differ (-dry run +real):\n%s", diff)
	}
	if diff := cmp.Diff(shown.Refused, done.Refused); diff != "" {
		t.Fatalf("shown and refused differ (-dry run +real):\n%s", diff)
	}
	checkReport(t, shown.Report, done)
	if refused := r.book.keepAll(t, really.Promises, done.Evict); len(refused) > 0 {
		t.Fatalf("the ledger refuses what was shown: %v\n%s", refused, summary(done))
	}
	return done
}

// settle ends some of the requested evictions.
func (r *dryThenReal) settle(t *rapid.T, at time.Time) {
	for _, l := range slices.Clone(r.log) {
		if l.Kind == events.DecisionEvict && rapid.Bool().Draw(t, "ends") {
			l.Kind = rapid.SampledFrom([]events.DecisionKind{
				events.DecisionEvicted, events.DecisionEvictRefused,
			}).Draw(t, "as")
			r.log = append(r.log, logged{l.Decision, at})
		}
	}
}

// asks returns what a cycle writes to the log.
func asks(out Outcome) []events.Decision {
	var all []events.Decision
	for _, e := range out.Evict {
		all = append(all, e.Decision)
	}
	return all
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

// A budget's status may allow more than the facts about its pods do, which the ledger uses from the second claim on.
// The plan takes that into account, so that it shows no move that could not be made.
func TestBudgetWhoseStatusIsBehind(t *testing.T) {
	ready := func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	}
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "b", UID: "uid-b"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{}},
		Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 4, DesiredHealthy: 1, CurrentHealthy: 5},
	}
	// Pods that are not ready are evicted without a check of the budget (unhealthyPodEvictionPolicy).
	for healthy, want := range map[int]int{5: 4, 3: 2 + 2, 2: 1 + 3, 0: 5} {
		all := []state.APIObject{tainted("a"), roomy("b"), budget.DeepCopy()}
		for i := range 5 {
			p := running(fmt.Sprint("p", i), "a")
			if i < healthy {
				ready(p)
			}
			all = append(all, p)
		}
		cluster, b := known(t, all...), newBook(t)
		in := input(t, taints(t, "", landing), cluster)
		in.Promises = NewPromises(cluster, b.view.Clone())
		out := Cycle(in)
		if refused := b.keepAll(t, in.Promises, out.Evict); len(out.Evict) != want || len(refused) > 0 {
			t.Errorf("%d healthy: want %d moved, the ledger refused %v:\n%s", healthy, want, refused, summary(out))
		}
	}
}
