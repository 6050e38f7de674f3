package config

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	schedulerv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/strictyaml"
)

// allPlugins in a disabled list removes everything that came from the defaults (in multiPoint) or from multiPoint
// (at one extension point).
const allPlugins = "*"

// resolvePlugins determines which plugins run at which point, and in which order, from the defaults and the file.
// Entries that checkPlugins refuses are left out, so that further mistakes can be found in the rest.
//
// Rules: KubeSchedulerConfiguration's mergePluginSet (pkg/scheduler/apis/config/v1) for the defaults, the
// framework's expandMultiPointPlugins (pkg/scheduler/framework/runtime) for each point.
//
// Example: a file that disables ImageLocality in multiPoint, and at score enables NodeAffinity with the weight 5.
// At score, NodeAffinity comes first with the weight 5, because the point itself names it; then the other scoring
// defaults in their order, without ImageLocality. At filter nothing changes.
//
// order lists every plugin that runs at any point, once: those of multiPoint, then the others as the points name
// them.
func (k catalogue) resolvePlugins(custom *schedulerv1.Plugins) (byPoint map[Point][]EnabledPlugin, order []string) {
	if custom == nil {
		custom = &schedulerv1.Plugins{}
	}
	// The set that applies at every point, before the points' own entries.
	everywhere := mergeMultiPoint(defaultMultiPoint(), custom.MultiPoint)
	byPoint = make(map[Point][]EnabledPlugin, len(points))
	runs := map[string]bool{}
	var elsewhere []string
	for _, at := range points {
		byPoint[at] = k.expand(at, pluginSet(custom, at), everywhere)
		for _, p := range byPoint[at] {
			if !runs[p.Name] && index(everywhere, p.Name) < 0 {
				elsewhere = append(elsewhere, p.Name)
			}
			runs[p.Name] = true
		}
	}
	for _, p := range everywhere {
		if runs[p.Name] {
			order = append(order, p.Name)
		}
	}
	return byPoint, append(order, elsewhere...)
}

// mergeMultiPoint keeps each default at its position, with the file's weight if the file names it too, drops the
// disabled ones and appends the other plugins of the file.
func mergeMultiPoint(defaults []schedulerv1.Plugin, custom schedulerv1.PluginSet) []schedulerv1.Plugin {
	var merged []schedulerv1.Plugin
	replaced := map[string]bool{}
	if !pluginNames(custom.Disabled)[allPlugins] {
		for _, p := range defaults {
			if pluginNames(custom.Disabled)[p.Name] {
				continue
			}
			// The file's entry replaces the default one in its place, with the file's weight.
			if i := index(custom.Enabled, p.Name); i >= 0 {
				p = custom.Enabled[i]
				replaced[p.Name] = true
			}
			merged = append(merged, p)
		}
	}
	for i, p := range custom.Enabled {
		if !replaced[p.Name] && index(custom.Enabled, p.Name) == i {
			merged = append(merged, p)
		}
	}
	return merged
}

// expand orders the plugins of one point: first those given both here and by multiPoint (in this point's order,
// with this point's weight), then the rest of multiPoint, then the rest given here.
func (k catalogue) expand(at Point, here schedulerv1.PluginSet, everywhere []schedulerv1.Plugin) []EnabledPlugin {
	disabled, specific := pluginNames(here.Disabled), pluginNames(here.Enabled)
	// The middle: what multiPoint gives at this point and the point itself does not name.
	fromMulti := map[string]bool{}
	var middle []EnabledPlugin
	if !disabled[allPlugins] {
		for _, p := range everywhere {
			if !slices.Contains(k.acts(p.Name), at) || disabled[p.Name] {
				continue
			}
			fromMulti[p.Name] = true
			if !specific[p.Name] {
				middle = append(middle, enabled(p))
			}
		}
	}
	// The point's own entries: those that multiPoint gives as well come first.
	var first, last []EnabledPlugin
	for i, p := range here.Enabled {
		switch {
		case !slices.Contains(k.acts(p.Name), at) || index(here.Enabled, p.Name) < i:
		case fromMulti[p.Name]:
			first = append(first, enabled(p))
		default:
			last = append(last, enabled(p))
		}
	}
	return slices.Concat(first, middle, last)
}

// pluginNames returns the names in a list as a set.
func pluginNames(ps []schedulerv1.Plugin) map[string]bool {
	set := make(map[string]bool, len(ps))
	for _, p := range ps {
		set[p.Name] = true
	}
	return set
}

// index returns the position of a plugin in a list of the file, -1 for none.
func index(ps []schedulerv1.Plugin, name string) int {
	return slices.IndexFunc(ps, func(p schedulerv1.Plugin) bool { return p.Name == name })
}

// checkPlugins records every name that is unknown, out of place or given twice.
func (k catalogue) checkPlugins(ps *schedulerv1.Plugins, path *field.Path, r *strictyaml.Report) {
	if ps == nil {
		return
	}
	for _, at := range append(slices.Clone(points), multiPoint) {
		set, setPath := pluginSet(ps, at), path.Child(string(at))
		for i, p := range set.Enabled {
			entry := setPath.Child("enabled").Index(i)
			if k.checkPluginName(p.Name, at, entry, r) && index(set.Enabled, p.Name) < i {
				r.AddKind(field.ErrorTypeDuplicate, entry, p.Name, "given twice; want each plugin once")
			}
			if p.Weight != nil && *p.Weight < 0 {
				r.Add(entry.Child("weight"), *p.Weight, "want 1 or more (0 means 1)")
			}
		}
		for i, p := range set.Disabled {
			// A removed plugin may be disabled, so that old files still work.
			known := p.Name == allPlugins || k.acts(p.Name) != nil || slices.Contains(removed, p.Name)
			if !known {
				r.AddKind(field.ErrorTypeNotSupported, setPath.Child("disabled").Index(i), p.Name,
					"want * or one of "+k.names())
			}
		}
	}
}

// checkPluginName reports whether a plugin of that name can be enabled at the point. It records why not: the
// plugin was removed upstream, is unknown, or does not act at this point.
func (k catalogue) checkPluginName(name string, at Point, path *field.Path, r *strictyaml.Report) bool {
	acts := k.acts(name)
	known := acts != nil
	switch {
	case !known && slices.Contains(removed, name):
		r.Add(path, name, "removed before "+apiVersion+"; want one of "+k.names())
	case !known:
		r.AddKind(field.ErrorTypeNotSupported, path, name, "want one of "+k.names())
	case at != multiPoint && !slices.Contains(acts, at):
		r.Add(path, name, "implements "+joinPoints(acts)+", not this extension point")
	default:
		return true
	}
	return false
}

// checkPoints records points that cannot work with the plugins enabled there.
func checkPoints(at map[Point][]EnabledPlugin, path *field.Path, r *strictyaml.Report) {
	if n := len(at[QueueSort]); n != 1 {
		r.AddKind(field.ErrorTypeRequired, path.Child(string(QueueSort)), strictyaml.Words(fmt.Sprintf("%d plugins", n)),
			"want exactly one")
	}
	if len(at[Bind]) == 0 {
		r.AddKind(field.ErrorTypeRequired, path.Child(string(Bind)), strictyaml.Words("no plugins"), "want at least one")
	}
	checkPrepared(at, PreFilter, Filter, path, r)
	checkPrepared(at, PreScore, Score, path, r)
}

// checkPrepared records plugins that are enabled at a point but not at the one before it, although they need it.
// kube-scheduler accepts that, and then fails every attempt to place a pod.
func checkPrepared(at map[Point][]EnabledPlugin, before, point Point, path *field.Path, r *strictyaml.Report) {
	for _, p := range at[point] {
		if slices.Contains(needsBefore[point], p.Name) && !isIn(at[before], p.Name) {
			r.AddKind(field.ErrorTypeRequired, path.Child(string(before)), p.Name,
				fmt.Sprintf("enabled at %s but not here; want both or neither", point))
		}
	}
}

// queueSorts returns how many plugins a profile enables at queueSort.
func queueSorts(p *schedulerv1.Plugins) int {
	if p == nil {
		return 0
	}
	return len(p.QueueSort.Enabled)
}

// sameQueueSort compares the two profiles' entries for queueSort literally, as upstream does: profiles that differ
// there could differ in what they enable.
func sameQueueSort(a, b *schedulerv1.Plugins) bool {
	of := func(p *schedulerv1.Plugins) (enabled, disabled []string) {
		if p == nil {
			return nil, nil
		}
		for _, e := range p.QueueSort.Enabled {
			enabled = append(enabled, fmt.Sprintf("%s %d", e.Name, ptr.Deref(e.Weight, 0)))
		}
		for _, d := range p.QueueSort.Disabled {
			disabled = append(disabled, d.Name)
		}
		return enabled, disabled
	}
	enabledA, disabledA := of(a)
	enabledB, disabledB := of(b)
	return slices.Equal(enabledA, enabledB) && slices.Equal(disabledA, disabledB)
}
