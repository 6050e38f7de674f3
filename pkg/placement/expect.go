package placement

import "github.com/berth-scheduler/berth/pkg/state"

// Expects asks the rules whether something is being made for a pod that has to be there before it is
// worth trying: see Expecter. plugin is who waits for it; what is empty for nothing.
func (p *Profile) Expects(pod *state.Pod, objects Objects) (plugin, what string) {
	for _, r := range p.rules {
		e, ok := r.plugin.(Expecter)
		if !ok || !r.points.has(Narrowing) {
			continue
		}
		if what = e.Expects(pod, objects); what != "" {
			return r.plugin.Name(), what
		}
	}
	return "", ""
}
