package placement

import (
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// crossRuler is a plugin with hard rules about pods on other nodes.
type crossRuler interface {
	CrossRules(pod *state.Pod, objects rule.Objects) ([]rule.CrossRule, error)
}

// CrossRules returns the pod's hard rules about pods on other nodes that the profile enforces; rules that can
// reject nothing are left out. An error also makes Evaluate fail.
func (p *Profile) CrossRules(pod *state.Pod, objects rule.Objects) ([]rule.CrossRule, error) {
	var rules []rule.CrossRule
	for _, r := range p.rules {
		cross, ok := r.plugin.(crossRuler)
		if !ok || !r.points.has(Filtering) {
			continue
		}
		more, err := cross.CrossRules(pod, rule.OrNone(objects))
		if err != nil {
			return nil, err
		}
		rules = append(rules, more...)
	}
	return rules, nil
}
