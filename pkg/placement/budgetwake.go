package placement

import (
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

// preempts stands for preemption among the rules: a pod that others could make room for, if a
// disruption budget or a plan did not keep them, counts as rejected by it, too. It waits for
// budgets with more room then. (Upstream has no such event: a pod whose victims a budget keeps
// has them evicted all the same.)
type preempts struct{ idle }

// newPreempts is the factory. The arguments are for Profile.Preempt (see preempting.limit).
func newPreempts(runtime.Object) (Plugin, error) {
	return preempts{idle{name: DefaultPreemption}}, nil
}

// Events implements Plugin.
func (preempts) Events() []Event {
	return []Event{{events.KindDisruptionBudget, Delete | UpdateBudget}}
}

// Hint implements Plugin. What makes no room has no actions.
func (preempts) Hint(*state.Pod, Change) bool { return true }

// interest implements classifier.
func (preempts) interest(*state.Pod) Interest { return Interest{} }

// budgetUpdate sorts a change of a disruption budget: whether it may let pods go that it kept.
func budgetUpdate(c state.ObjectChange) Action {
	switch {
	case c.Before == nil:
		return 0 // one more only ever keeps pods
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
