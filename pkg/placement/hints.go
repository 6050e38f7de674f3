package placement

import (
	"slices"

	"github.com/berth-scheduler/berth/pkg/state"
)

// Hints say what wakes pods that custom plugins have turned down, as rules do by themselves. Safe for concurrent
// use. Source: EnqueueExtensions in k8s.io/kube-scheduler/framework.
type Hints interface {
	// Events lists what a plugin listens to; told is false for one that listens to everything, and for a
	// name that is none of a plugin.
	Events(plugin string) (list []Event, told bool)
	// Helps tells whether a change of a sort that Events lists could turn the plugin's no to a pod into a yes. It is
	// asked for every such change and every pod that waits for the plugin, and has to be quick.
	Helps(plugin string, pod *state.Pod, c Change) bool
}

// Hinted is the profile with what custom plugins say of changes; without it, any change wakes whom they have
// turned down.
func (p *Profile) Hinted(h Hints) *Profile {
	hinted := *p
	hinted.hints = h
	return &hinted
}

// told is what a name that belongs to no rule listens to; false for everything.
func (p *Profile) told(plugin string) (list []Event, told bool) {
	if p.hints == nil {
		return nil, false
	}
	return p.hints.Events(plugin)
}

// helps is Wakes for a name that belongs to no rule.
func (p *Profile) helps(plugin string, pod *state.Pod, c Change) bool {
	list, told := p.told(plugin)
	return !told || slices.ContainsFunc(list, c.is) && p.hints.Helps(plugin, pod, c)
}

// customListens tells whether a name that belongs to no rule listens to changes of this sort.
func (p *Profile) customListens(plugin string, c Change) bool {
	list, told := p.told(plugin)
	return !told || slices.ContainsFunc(list, c.is)
}

// outsideListens tells whether any custom plugin, or an extender, listens to changes of this sort.
func (p *Profile) outsideListens(c Change) bool {
	if len(p.extenders) > 0 {
		return true
	}
	if p.custom == nil {
		return false
	}
	for _, plugins := range p.custom.Points {
		if slices.ContainsFunc(plugins, func(plugin CustomPlugin) bool { return p.customListens(plugin.Name, c) }) {
			return true
		}
	}
	return false
}
