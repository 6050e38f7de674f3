package placement

import (
	"slices"

	"github.com/berth-scheduler/berth/pkg/events"
)

// Awaits lists the events that a rule listens to, in the words of Change.Label; none for a rule
// that the profile does not have.
func (p *Profile) Awaits(plugin string) []string {
	r, ok := p.byName[plugin]
	if !ok {
		return nil
	}
	var list []string
	for _, e := range r.plugin.Events() {
		for i := range actionNames {
			action := Action(1 << i)
			if e.Actions&action == 0 {
				continue
			}
			name := Change{Kind: e.Kind, Actions: action}.Label()
			if e.Kind == events.KindPod && action != UpdatePodToleration && action != UpdatePodGatesEliminated {
				name = "AssignedPod" + action.String()
			}
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}
