package plan

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

// byRequest makes a pod one whose eviction can only be requested.
func byRequest(p *corev1.Pod) { annotating(p, state.AnnotationRequestEvictOnly) }

// migrating makes it one that a controller is migrating.
func migrating(p *corev1.Pod) {
	byRequest(p)
	annotating(p, state.AnnotationEvictionInProgress)
}

func annotating(p *corev1.Pod, key string) {
	if p.Annotations == nil {
		p.Annotations = map[string]string{}
	}
	p.Annotations[key] = ""
}

// budgetFor returns a budget for the pods of an app.
func budgetFor(name, app string, allowed int32) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-pdb-" + name)},
		Spec: policyv1.PodDisruptionBudgetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
		},
		Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed},
	}
}

// A budget that allows nothing keeps ordinary pods, not those whose eviction can only be requested; they take from it
// like any other. Two budgets keep both.
func TestRequestsAndBudgets(t *testing.T) {
	const taints = "deschedule/RemovePodsViolatingNodeTaints: {}"
	p := policyOf(t, "berth: "+noOwnerLimits+",", "nodeFit: false", taints)
	old, young := node("old", tainted(corev1.TaintEffectNoSchedule)), node("young")
	vm, other := pod("a-vm", "old", "vm", byRequest), pod("b-vm", "old", "vm")
	expect(t, input(t, p, old, young, vm, other, budgetFor("vm", "vm", 0)),
		"a-vm from old to anywhere\nkept 1: its disruption budget allows no disruption\n")
	expect(t, input(t, p, old, young, vm, other, budgetFor("vm", "vm", 1)),
		"a-vm from old to anywhere\nkept 1: its disruption budget allows no disruption\n")
	expect(t, input(t, p, old, young, vm, other, budgetFor("vm", "vm", 2)),
		"a-vm from old to anywhere\nb-vm from old to anywhere\n")
	expect(t, input(t, p, old, young, vm, budgetFor("vm", "vm", 0), budgetFor("vm2", "vm", 0)),
		"kept 1: more than one disruption budget covers it\n")
}

// Pods that controllers are making leave count against upstream's limits in each cycle, whoever has requested it, until
// they are gone; those that a binder waits for count for as long as a request is valid. They are not requested again.
func TestRequestsCountAgainstLimits(t *testing.T) {
	const taints = "deschedule/RemovePodsViolatingNodeTaints: {}"
	asked := func(since time.Duration) func(*Input) {
		return func(in *Input) {
			for _, k := range []events.DecisionKind{events.DecisionEvict, events.DecisionEvictBackground} {
				in.History.Observe(events.Decision{
					Kind: k, Attempt: 1, Pod: events.PodRef{UID: "uid-vm", Namespace: "default", Name: "vm"},
				}, now.Add(-since))
			}
		}
	}
	nothing := func(*Input) {}
	const other = "web from old to anywhere\nkept 1: eviction under way\n"
	for name, tt := range map[string]struct {
		limit  string
		vm     func(*corev1.Pod)
		before func(*Input)
		want   string
	}{
		"no limit":    {"", migrating, nothing, other},
		"total":       {"maxNoOfPodsToEvictTotal: 1,", migrating, nothing, "total"},
		"node":        {"maxNoOfPodsToEvictPerNode: 1,", migrating, nothing, "node"},
		"namespace":   {"maxNoOfPodsToEvictPerNamespace: 1,", migrating, nothing, "namespace"},
		"room":        {"maxNoOfPodsToEvictTotal: 2,", migrating, nothing, other},
		"waited for":  {"maxNoOfPodsToEvictTotal: 1,", byRequest, asked(time.Minute), "total"},
		"an ordinary": {"", func(*corev1.Pod) {}, asked(time.Minute), other},
		"too long ago": {"maxNoOfPodsToEvictTotal: 1,", byRequest, asked(InFlight + time.Second),
			"vm from old to anywhere\nkept 1: maximum number of evicted pods per a descheduling cycle reached\n"},
	} {
		t.Run(name, func(t *testing.T) {
			p := policyOf(t, tt.limit+"berth: "+noOwnerLimits+",", "nodeFit: false", taints)
			in := input(t, p, node("old", tainted(corev1.TaintEffectNoSchedule)), node("young"),
				pod("vm", "old", "vm", tt.vm), pod("web", "old", "web"))
			tt.before(&in)
			got := Make(in)
			switch tt.want {
			case "total", "node", "namespace":
				if len(got.Moves) != 0 {
					t.Errorf("moves beyond the limit:\n%s", summary(got))
				}
			default:
				if text := summary(got); text != tt.want {
					t.Errorf("got:\n%swant:\n%s", text, tt.want)
				}
			}
		})
	}
}

// A request in the background is under way until its outcome, in whatever order its reports come.
func TestRequestInTheBackground(t *testing.T) {
	of := func(k events.DecisionKind) events.Decision {
		return events.Decision{
			Kind: k, Attempt: 1, Owner: "rs", Pod: events.PodRef{UID: "uid-vm", Namespace: "default", Name: "vm"},
		}
	}
	for _, end := range []events.DecisionKind{events.DecisionEvicted, events.DecisionEvictRefused} {
		h := NewHistory()
		h.Observe(of(events.DecisionEvict), now)
		if !h.Observe(of(events.DecisionEvictBackground), now.Add(time.Minute)) {
			t.Fatal("the report changes nothing")
		}
		if h.Observe(of(events.DecisionEvictBackground), now.Add(2*time.Minute)) {
			t.Error("a repeated report counts")
		}
		later := now.Add(InFlight)
		if r := h.refuse("uid-vm", later); r != UnderWay || !h.InProgress("uid-vm", 1, later) ||
			!h.InBackground("uid-vm", later) || !h.awaitingOutcome(ownerIn("default", "rs"), later) {
			t.Errorf("%s after the request: %q, in progress %t", InFlight, r, h.InProgress("uid-vm", 1, later))
		}
		h.Observe(of(end), later)
		if h.Observe(of(events.DecisionEvictBackground), later) || h.InBackground("uid-vm", later) {
			t.Errorf("in the background after %s", end)
		}
		if r := h.refuse("uid-vm", later); r != CoolingDown {
			t.Errorf("after %s: %q, want %q", end, r, CoolingDown)
		}
	}
}
