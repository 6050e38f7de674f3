package placement

import (
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Expects asks the rules whether an object is being created for a pod that must exist before the pod is worth
// trying; see Expecter. plugin is the rule that waits for it; what is empty if there is none.
func (p *Profile) Expects(pod *state.Pod, objects rule.Objects) (plugin, what string) {
	for _, r := range p.rules {
		e, ok := r.plugin.(rule.Expecter)
		if !ok || !r.points.has(Narrowing) {
			continue
		}
		if what = e.Expects(pod, objects); what != "" {
			return r.plugin.Name(), what
		}
	}
	return "", ""
}
