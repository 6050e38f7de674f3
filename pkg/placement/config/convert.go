package config

import (
	"slices"

	"github.com/berth-scheduler/berth/pkg/placement"
)

// toPlacement turns a resolved profile into the engine's form. The engine keeps one list
// for all points, of which the order matters for filtering alone: the plugins keep the
// order of multiPoint, with those that filter in the order of that point.
//
// A plugin that neither filters nor scores by nature (it acts in the queue or the binder)
// is listed as it is; one that could but has been disabled at both points is left out.
func toPlacement(p resolved) placement.ProfileConfig {
	out := placement.ProfileConfig{SchedulerName: p.SchedulerName}
	inOrder := p.Plugins[Filter]
	for _, name := range p.order {
		if isIn(p.Plugins[Filter], name) {
			name, inOrder = inOrder[0].Name, inOrder[1:]
		}
		c := placement.PluginConfig{Name: name, Args: p.Args[name]}
		if isIn(p.Plugins[Filter], name) {
			c.Points |= placement.Filtering
		}
		if i := find(p.Plugins[Score], name); i >= 0 {
			c.Points |= placement.Scoring
			c.Weight = p.Plugins[Score][i].Weight
		}
		acts := implemented[name]
		if c.Points != 0 || !slices.Contains(acts, Filter) && !slices.Contains(acts, Score) {
			out.Plugins = append(out.Plugins, c)
		}
	}
	return out
}

func find(ps []EnabledPlugin, name string) int {
	return slices.IndexFunc(ps, func(p EnabledPlugin) bool { return p.Name == name })
}

func isIn(ps []EnabledPlugin, name string) bool { return find(ps, name) >= 0 }
