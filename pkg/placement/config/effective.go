package config

import (
	"encoding/json"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	schedulerv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/names"
)

// effective returns the completed file as an API object, which means to kube-scheduler and to Berth what the file
// means: the plugins of each point are listed as they run, and the arguments of plugins are complete. Three settings
// stay as open as the file leaves them, because the two programs fill them in differently: percentageOfNodesToScore and
// the rates of clientConnection, where 0 is each program's own default, and the arguments of DefaultPreemption that
// limit how many nodes are tried.
//
// It is called after the profiles have been resolved, and before extenders change their arguments. It cannot fail for a
// file without mistakes; of any other, what cannot be encoded is left out.
func effective(in *schedulerv1.KubeSchedulerConfiguration, profiles []Profile) *schedulerv1.KubeSchedulerConfiguration {
	out := in.DeepCopy()
	out.APIVersion, out.Kind = apiVersion, kind
	completeLeaderElection(&out.LeaderElection)
	if out.ClientConnection.ContentType == "" {
		out.ClientConnection.ContentType = defaultContentType
	}
	for i := range out.Profiles {
		p := &out.Profiles[i]
		p.SchedulerName = ptr.To(profiles[i].SchedulerName)
		p.Plugins = profiles[i].listed()
		p.PluginConfig = profiles[i].arguments(p.PluginConfig)
	}
	return out
}

// listed returns the plugins at each point explicitly, and none that would be added to them.
func (p *Profile) listed() *schedulerv1.Plugins {
	out := &schedulerv1.Plugins{MultiPoint: schedulerv1.PluginSet{Disabled: []schedulerv1.Plugin{{Name: allPlugins}}}}
	for _, at := range points {
		set := setOf(out, at)
		for _, e := range p.Plugins[at] {
			plugin := schedulerv1.Plugin{Name: e.Name}
			if at == Score || at == placementScore {
				plugin.Weight = ptr.To(e.Weight)
			}
			set.Enabled = append(set.Enabled, plugin)
		}
	}
	return out
}

// arguments returns the arguments of the plugins that run or that the file names, by name: those of kube-scheduler's
// and Berth's own are complete, those of custom plugins are as given.
func (p *Profile) arguments(given []schedulerv1.PluginConfig) []schedulerv1.PluginConfig {
	all := map[string]any{berthSettings: p.settings()}
	for name, args := range p.Args {
		named := slices.ContainsFunc(given, func(c schedulerv1.PluginConfig) bool { return c.Name == name })
		open := name == names.DefaultPreemption && !limitsPreemption(given)
		switch {
		case open && named:
			all[name] = nil
		case !open && (named || slices.Contains(p.Order, name)):
			all[name] = typed(name, args)
		}
	}
	for _, c := range given {
		if argsByPlugin[c.Name].fresh == nil && c.Name != berthSettings && len(c.Args.Raw) > 0 {
			all[c.Name] = json.RawMessage(c.Args.Raw)
		}
	}
	out := make([]schedulerv1.PluginConfig, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if all[name] == nil {
			out = append(out, schedulerv1.PluginConfig{Name: name})
		} else if raw, err := json.Marshal(all[name]); err == nil {
			out = append(out, schedulerv1.PluginConfig{Name: name, Args: runtime.RawExtension{Raw: raw}})
		}
	}
	return out
}

// typed returns a copy of arguments that names its type.
func typed(plugin string, args runtime.Object) runtime.Object {
	out := args.DeepCopyObject()
	out.GetObjectKind().SetGroupVersionKind(schedulerv1.SchemeGroupVersion.WithKind(plugin + "Args"))
	return out
}

// settings returns Berth's own settings of the profile, as they are written in a file (berthArgs).
func (p *Profile) settings() map[string]any {
	c := p.Preemption
	out := map[string]any{"preemption": preemptionArgs{
		PDB:           c.PDB,
		ChargeLeaving: c.ChargeLeaving,
		CrossNode: crossNodeArgs{
			Enabled: ptr.To(!c.SameNodeOnly), MaxBlockers: ptr.To(c.MaxBlockers), MaxTargets: ptr.To(c.MaxTargets),
		},
		Keepers: keeperArgs{Enabled: ptr.To(!c.NoKeepers), Choices: ptr.To(c.KeeperChoices)},
		Devices: deviceArgs{Enabled: ptr.To(!c.KeepDevices)},
	}}
	if p.HomeNodesFirst != placement.HomePolicy("") {
		out["homeNodesFirst"] = p.HomeNodesFirst
	}
	return out
}
