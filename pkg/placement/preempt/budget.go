package preempt

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Budget is one PodDisruptionBudget: the pods it covers and how many disruptions it still allows. Immutable.
type Budget struct {
	UID, Namespace, Name string
	// Left is how many of its pods may still be disrupted; 0 or less means none.
	Left int32

	selector labels.Selector
	// spec is compared by identity, to find budgets that cover the same pods without comparing selectors.
	spec *policyv1.PodDisruptionBudgetSpec
	// disrupted holds the names of pods whose eviction the API server has already counted in the status.
	disrupted map[string]metav1.Time
	// unready reports whether pods that are not ready may be evicted without being counted
	// (unhealthyPodEvictionPolicy AlwaysAllow).
	unready bool
}

// Budgets holds the disruption budgets of a cluster. It is immutable; the engine takes the same pointer to mean the
// same budgets. nil means none.
type Budgets struct {
	// all holds the budgets in the order of the objects; byNamespace holds indexes in it.
	all         []Budget
	byNamespace map[string][]int
}

// NewBudgets reads the budgets among the objects. claimed returns how many disruptions of a budget, by its UID,
// have been decided but do not show in its status yet; nil means none.
//
// Left is status.disruptionsAllowed minus that number. A status older than the spec allows nothing, as in the
// eviction API (registry/core/pod/storage/eviction.go). An empty selector covers every pod of the namespace, and an
// absent one covers no pod (policy/v1). A selector that cannot be parsed covers no pod here; the API server refuses
// evictions until it is corrected.
func NewBudgets(objects rule.Objects, claimed func(uid string) int32) *Budgets {
	b := &Budgets{byNamespace: map[string][]int{}}
	for o := range rule.OrNone(objects).Objects(events.KindDisruptionBudget) {
		pdb, ok := o.API.(*policyv1.PodDisruptionBudget)
		if !ok {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(pdb.Spec.Selector)
		if err != nil {
			continue
		}
		budget := Budget{
			UID: o.UID, Namespace: o.Namespace, Name: o.Name, Left: state.DisruptionsAllowed(pdb),
			selector: selector, spec: &pdb.Spec, disrupted: pdb.Status.DisruptedPods, unready: state.SparesUnready(pdb),
		}
		if claimed != nil {
			budget.Left -= claimed(o.UID)
		}
		b.byNamespace[o.Namespace] = append(b.byNamespace[o.Namespace], len(b.all))
		b.all = append(b.all, budget)
	}
	return b
}

// Covering returns the indexes of the budgets whose selector covers a pod. A pod that no fact has described yet is
// covered by no budget.
func (b *Budgets) Covering(p *state.Pod) []int {
	if b == nil || !p.Selectable() || len(b.byNamespace[p.Namespace]) == 0 {
		return nil
	}
	var list []int
	for _, i := range b.byNamespace[p.Namespace] {
		if state.MayMatch(b.all[i].selector, p.Template.Labels) {
			list = append(list, i)
		}
	}
	return list
}

// charged returns those of the covering budgets that an eviction of the pod is charged to. The eviction API does
// not check budgets for pods that have not started or are already terminating (canIgnorePDB). It charges a second
// time for a pod in disruptedPods that still exists.
func (b *Budgets) charged(p *state.Pod) []int {
	if evictionIsFree(p) {
		return nil
	}
	list := b.Covering(p)
	if len(list) == 1 && b.all[list[0]].unready && !p.Ready() {
		return nil
	}
	return list
}

// Charged returns the budgets that an eviction of the pod is charged to; often there are none. A pod with two or
// more budgets cannot be evicted through the API at all; see Search.budgetProtects.
func (b *Budgets) Charged(p *state.Pod) []*Budget {
	var list []*Budget
	for _, i := range b.charged(p) {
		list = append(list, &b.all[i])
	}
	return list
}

// evictionIsFree reports whether the eviction API does not check budgets for a pod: it is terminating, has ended,
// or has not started. Source: canIgnorePDB in registry/core/pod/storage/eviction.go.
func evictionIsFree(p *state.Pod) bool {
	return p.Deleting || p.Terminal || p.NodeName == "" || p.Status().Phase == corev1.PodPending
}

// CoversLike reports whether two sets of budgets cover the same pods, so that they differ only in what is left.
func (b *Budgets) CoversLike(c *Budgets) bool {
	if b == nil || c == nil {
		return b == c
	}
	return slices.EqualFunc(b.all, c.all, func(x, y Budget) bool {
		return x.UID == y.UID && (x.spec == y.spec || x.selector.String() == y.selector.String())
	})
}
