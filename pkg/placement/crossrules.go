package placement

import (
	"github.com/berth-scheduler/berth/pkg/state"
)

// crossRuler is a plugin with hard rules about pods on other nodes.
type crossRuler interface {
	crossRules(pod *state.Pod, objects Objects) ([]CrossRule, error)
}

// CrossRules returns the pod's hard rules about pods on other nodes that the profile enforces; rules that can
// reject nothing are left out. An error also makes Evaluate fail.
func (p *Profile) CrossRules(pod *state.Pod, objects Objects) ([]CrossRule, error) {
	var rules []CrossRule
	for _, r := range p.rules {
		cross, ok := r.plugin.(crossRuler)
		if !ok || !r.points.has(Filtering) {
			continue
		}
		more, err := cross.crossRules(pod, orNoObjects(objects))
		if err != nil {
			return nil, err
		}
		rules = append(rules, more...)
	}
	return rules, nil
}
