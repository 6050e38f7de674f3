package placement

import (
	"slices"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
)

// EventsOf lists the events that a rule or a custom plugin listens to, in the format of Change.Label. It returns none
// for a plugin that listens to everything.
func (p *Profile) EventsOf(plugin string) []string {
	heard, _ := p.hintedEvents(plugin)
	if r, ok := p.byName[plugin]; ok {
		heard = r.plugin.Events()
	}
	var list []string
	for _, e := range heard {
		for action := range e.Actions.Each() {
			name := rule.Change{Kind: e.Kind, Actions: action}.Label()
			if e.Kind == events.KindPod && action != rule.UpdatePodToleration && action != rule.UpdatePodGatesEliminated {
				name = "AssignedPod" + action.String()
			}
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}
