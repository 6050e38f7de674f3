package placement

import (
	"slices"

	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Wakes reports whether a change could make a pod fit that the named rules rejected (Diagnosis.Plugins). Any
// change wakes a pod that no rule rejected, or that was rejected by a plugin that is not a rule of this profile
// and has no Hints. It is enough that one of the rules would pass: the others may have changed before. Source:
// scheduling_queue.go isPodWorthRequeuing.
func (p *Profile) Wakes(pod *state.Pod, rejectedBy []string, c rule.Change) bool {
	if c.Actions == 0 {
		return false
	}
	if len(rejectedBy) == 0 {
		return true
	}
	for _, name := range rejectedBy {
		r, ok := p.byName[name]
		switch {
		case !ok && p.helps(name, pod, c):
			return true
		case ok && slices.ContainsFunc(r.plugin.Events(), c.Is) && r.plugin.Hint(pod, c):
			return true
		}
	}
	return false
}

// Interest returns what a rule's hints depend on for a pod. A plugin that is not a rule of the profile is
// interested in everything (see Wakes), and equally for all pods unless there are Hints.
func (p *Profile) Interest(plugin string, pod *state.Pod) rule.Interest {
	i := rule.Interest{Pods: rule.Everything, Nodes: rule.Everything, Claims: rule.Everything}
	r, ok := p.byName[plugin]
	if !ok {
		if _, known := p.hintedEvents(plugin); known {
			i.Class = pod.UID // it is unknown which parts of a pod the plugin reads
		}
		return i
	}
	if c, ok := r.plugin.(rule.Classifier); ok {
		return c.Interest(pod)
	}
	i.Class = rule.WholePod(pod)
	return i
}

// Listens reports whether a rule listens to changes of this kind. A plugin that is not a rule of the profile and
// has no Hints listens to all.
func (p *Profile) Listens(plugin string, c rule.Change) bool {
	r, ok := p.byName[plugin]
	if !ok {
		return p.customListens(plugin, c)
	}
	return slices.ContainsFunc(r.plugin.Events(), c.Is)
}

// AnyListens reports whether any rule, custom plugin or extender of the profile listens to changes of this kind.
func (p *Profile) AnyListens(c rule.Change) bool {
	if c.Actions == 0 {
		return false
	}
	return p.outsideListens(c) || slices.ContainsFunc(p.rules, func(r enabledPlugin) bool {
		return slices.ContainsFunc(r.plugin.Events(), c.Is)
	})
}

// Preempts reports whether the profile preempts at all.
func (p *Profile) Preempts() bool { return p.preemption.Enabled }

// ExceedsBudgets reports whether the profile treats disruption budgets as best effort: its decisions may take more
// from a budget than is left.
func (p *Profile) ExceedsBudgets() bool { return p.preemption.PDB == PDBBestEffort }

// Hinted returns the profile with the hints of custom plugins. Without them, any change wakes the pods that
// custom plugins have rejected. The receiver is not changed.
func (p *Profile) Hinted(h Hints) *Profile {
	hinted := *p
	hinted.hints = h
	return &hinted
}

// hintedEvents returns the events that a plugin that is not a rule listens to; known is false if it is unknown,
// and the plugin then listens to everything.
func (p *Profile) hintedEvents(plugin string) (list []rule.Event, known bool) {
	if p.hints == nil {
		return nil, false
	}
	return p.hints.Events(plugin)
}

// helps is Wakes for a plugin that is not a rule.
func (p *Profile) helps(plugin string, pod *state.Pod, c rule.Change) bool {
	list, known := p.hintedEvents(plugin)
	return !known || slices.ContainsFunc(list, c.Is) && p.hints.Helps(plugin, pod, c)
}

// customListens reports whether a plugin that is not a rule listens to changes of this kind.
func (p *Profile) customListens(plugin string, c rule.Change) bool {
	list, known := p.hintedEvents(plugin)
	return !known || slices.ContainsFunc(list, c.Is)
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
