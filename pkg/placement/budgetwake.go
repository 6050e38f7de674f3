package placement

import (
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
