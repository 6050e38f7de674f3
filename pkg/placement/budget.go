package placement

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Budget is one PodDisruptionBudget: whom it covers, and what is left of it. Immutable.
type Budget struct {
	UID, Namespace, Name string
	// Left is how many of its pods may still be disrupted; 0 or less for none.
	Left int32

	selector labels.Selector
	spec     *policyv1.PodDisruptionBudgetSpec
	// disrupted are the names of pods whose eviction the API server has counted already.
	disrupted map[string]metav1.Time
	// unready: pods that are not ready may be evicted without counting.
	unready bool
}

// Budgets are the disruption budgets of a cluster. Immutable; the same pointer means the same
// budgets to the engine. nil is none.
type Budgets struct {
	all         []Budget
	byNamespace map[string][]int
}

// NewBudgets reads the budgets among the objects. claimed is how many disruptions of a budget
// have been decided, by its UID, and do not show in its status yet; nil for none.
//
// What is left is status.disruptionsAllowed minus that. A status that is older than the spec
// allows nothing, as for the eviction API (registry/core/pod/storage/eviction.go). An empty
// selector covers every pod of the namespace and none covers none (policy/v1); one that cannot
// be read covers none here, and the API server refuses evictions until it is mended.
func NewBudgets(objects Objects, claimed func(uid string) int32) *Budgets {
	b := &Budgets{byNamespace: map[string][]int{}}
	for o := range orNoObjects(objects).Objects(events.KindDisruptionBudget) {
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

// covering are the indexes of the budgets whose selector covers a pod. A pod that nobody has
// described yet is covered by none that is known.
func (b *Budgets) covering(p *state.Pod) []int {
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

// charged are those of covering that the eviction of the pod takes from. The eviction API does
// not ask budgets about pods that have not started or are going anyway (canIgnorePDB). It does
// take twice for a pod of disruptedPods that is still there.
func (b *Budgets) charged(p *state.Pod) []int {
	if goesFreely(p) {
		return nil
	}
	list := b.covering(p)
	if len(list) == 1 && b.all[list[0]].unready && !p.Ready() {
		return nil
	}
	return list
}

// Charged are the budgets that the eviction of a pod takes from, often none.
func (b *Budgets) Charged(p *state.Pod) []*Budget {
	var list []*Budget
	for _, i := range b.charged(p) {
		list = append(list, &b.all[i])
	}
	return list
}

func goesFreely(p *state.Pod) bool {
	return p.Deleting || p.Terminal || p.NodeName == "" || p.Status().Phase == corev1.PodPending
}

// coversLike tells whether two sets of budgets cover the same pods, so that only what is left
// differs.
func (b *Budgets) coversLike(c *Budgets) bool {
	if b == nil || c == nil {
		return b == c
	}
	return slices.EqualFunc(b.all, c.all, func(x, y Budget) bool {
		return x.UID == y.UID && (x.spec == y.spec || x.selector.String() == y.selector.String())
	})
}
