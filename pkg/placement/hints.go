package placement

import (
	"slices"

	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Hints decide which changes wake pods that custom plugins have rejected; rules have their own hints.
// Implementations must be safe for concurrent use. Source: EnqueueExtensions in k8s.io/kube-scheduler/framework.
type Hints interface {
	// Events lists the events that a plugin listens to; told is false for a plugin that listens to everything, and
	// for a name that is not a plugin's.
	Events(plugin string) (list []rule.Event, told bool)
	// Helps reports whether a change of a kind that Events lists could turn the plugin's rejection of a pod into a
	// pass. It is called for every such change and every pod that waits for the plugin, and has to be fast.
	Helps(plugin string, pod *state.Pod, c rule.Change) bool
}

// Hinted returns the profile with the hints of custom plugins. Without them, any change wakes the pods that custom
// plugins have rejected.
func (p *Profile) Hinted(h Hints) *Profile {
	hinted := *p
	hinted.hints = h
	return &hinted
}

// told returns the events that a plugin that is not a rule listens to; false means everything.
func (p *Profile) told(plugin string) (list []rule.Event, told bool) {
	if p.hints == nil {
		return nil, false
	}
	return p.hints.Events(plugin)
}

// helps is Wakes for a plugin that is not a rule.
func (p *Profile) helps(plugin string, pod *state.Pod, c rule.Change) bool {
	list, told := p.told(plugin)
	return !told || slices.ContainsFunc(list, c.Is) && p.hints.Helps(plugin, pod, c)
}

// customListens reports whether a plugin that is not a rule listens to changes of this kind.
func (p *Profile) customListens(plugin string, c rule.Change) bool {
	list, told := p.told(plugin)
	return !told || slices.ContainsFunc(list, c.Is)
}

// outsideListens reports whether any custom plugin, or an extender, listens to changes of this kind.
func (p *Profile) outsideListens(c rule.Change) bool {
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
