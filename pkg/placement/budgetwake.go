package placement

import (
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement/internal/nodes"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// preemptionRule represents preemption among the rules. If a pod could be placed by preemption, but a disruption
// budget or a plan protects the victims, preemption also counts as having rejected it, and the pod waits for
// budgets that allow more. (Upstream has no such event: it evicts victims even against their budget.)
type preemptionRule struct{ nodes.Idle }

// newPreemptionRule is the factory. Package preempt uses the arguments (see PreemptionRules.limit).
func newPreemptionRule(runtime.Object) (rule.Plugin, error) {
	return preemptionRule{nodes.Idle{Plugin: names.DefaultPreemption}}, nil
}

// Events implements Plugin.
func (preemptionRule) Events() []rule.Event {
	return []rule.Event{{Kind: events.KindDisruptionBudget, Actions: rule.Delete | rule.UpdateBudget}}
}

// Hint implements Plugin. Changes that allow no further eviction have no actions.
func (preemptionRule) Hint(*state.Pod, rule.Change) bool { return true }

// Interest implements rule.Classifier.
func (preemptionRule) Interest(*state.Pod) rule.Interest { return rule.Interest{} }
