package placement

import (
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

// preempts represents preemption among the rules. If a pod could be placed by preemption, but a disruption budget
// or a plan protects the victims, preemption also counts as having rejected it, and the pod waits for budgets that
// allow more. (Upstream has no such event: it evicts victims even against their budget.)
type preempts struct{ idle }

// newPreempts is the factory. Profile.Preempt uses the arguments (see preempting.limit).
func newPreempts(runtime.Object) (Plugin, error) {
	return preempts{idle{name: DefaultPreemption}}, nil
}

// Events implements Plugin.
func (preempts) Events() []Event {
	return []Event{{events.KindDisruptionBudget, Delete | UpdateBudget}}
}

// Hint implements Plugin. Changes that allow no further eviction have no actions.
func (preempts) Hint(*state.Pod, Change) bool { return true }

// interest implements classifier.
func (preempts) interest(*state.Pod) Interest { return Interest{} }

// budgetUpdate classifies a change of a disruption budget: whether it may allow evictions that were not allowed
// before.
func budgetUpdate(c state.ObjectChange) Action {
	switch {
	case c.Before == nil:
		return 0 // another budget can only protect more pods
	case c.After == nil:
		return Delete
	}
	before, knewBefore := c.Before.API.(*policyv1.PodDisruptionBudget)
	after, knows := c.After.API.(*policyv1.PodDisruptionBudget)
	switch {
	case !knewBefore || !knows,
		state.DisruptionsAllowed(after) > state.DisruptionsAllowed(before),
		state.SparesUnready(after) && !state.SparesUnready(before),
		!equality.Semantic.DeepEqual(before.Spec.Selector, after.Spec.Selector):
		return UpdateBudget
	}
	return 0
}
