package config

import (
	"slices"

	schedulerv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/names"
)

// toPlacement converts the profiles of a complete file to the engine's form. A profile's own percentage of nodes
// wins over that of the file.
func toPlacement(in *schedulerv1.KubeSchedulerConfiguration, profiles []Profile) []placement.ProfileConfig {
	out := make([]placement.ProfileConfig, len(profiles))
	for i, p := range profiles {
		out[i] = placement.ProfileConfig{
			SchedulerName:            p.SchedulerName,
			Plugins:                  enginePlugins(p),
			PercentageOfNodesToScore: *in.PercentageOfNodesToScore,
			Preemption:               p.Preemption,
			HomeNodesFirst:           p.HomeNodesFirst,
			Extenders:                in.Extenders,
			Custom:                   p.Custom,
		}
		if !limitsPreemption(in.Profiles[i].PluginConfig) {
			tryAllNodes(out[i].Plugins)
		}
		if own := in.Profiles[i].PercentageOfNodesToScore; own != nil {
			out[i].PercentageOfNodesToScore = *own
		}
	}
	return out
}

// enginePlugins merges the lists of all points into one, as the engine expects. Its order matters only for
// filtering: the plugins keep the order of multiPoint, except that those that filter are in the order of that
// point.
//
// A plugin that by nature neither filters nor scores (it acts in the queue or the binder) is listed as it is; one
// that could, but has been disabled at both points, is left out.
func enginePlugins(p Profile) []placement.PluginConfig {
	var out []placement.PluginConfig
	// A filtering plugin takes the next name of the filter point in place of its own: positions of filtering
	// plugins keep their places among the others, and their order becomes that of the point.
	inOrder := withoutCustom(p.Plugins[Filter])
	for _, name := range p.Order {
		if implemented[name] == nil {
			continue // see Profile.Custom
		}
		if isIn(p.Plugins[Filter], name) {
			name, inOrder = inOrder[0].Name, inOrder[1:]
		}
		c := placement.PluginConfig{Name: name, Args: p.Args[name]}
		if isIn(p.Plugins[PreFilter], name) {
			c.Points |= placement.Narrowing
		}
		if isIn(p.Plugins[Filter], name) {
			c.Points |= placement.Filtering
		}
		if i := find(p.Plugins[Score], name); i >= 0 {
			c.Points |= placement.Scoring
			c.Weight = p.Plugins[Score][i].Weight
		}
		acts := implemented[name]
		if name == names.DefaultPreemption && !isIn(p.Plugins[PostFilter], name) {
			continue // its part in the queue is useless without the rest
		}
		// A plugin that could filter or score and does neither was disabled at both points.
		if c.Points != 0 || !slices.Contains(acts, Filter) && !slices.Contains(acts, Score) {
			out = append(out, c)
		}
	}
	return out
}

// tryAllNodes removes the limit from preemption: the engine's default is none. It changes the converted profile
// only, so that Configuration.Resolved still shows upstream's defaults.
func tryAllNodes(plugins []placement.PluginConfig) {
	for i := range plugins {
		if plugins[i].Name == names.DefaultPreemption {
			plugins[i].Args = nil
		}
	}
}
