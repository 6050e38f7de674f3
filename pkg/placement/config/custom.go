package config

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	schedulerv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/strictyaml"
)

// catalogue holds the plugins that a file may name: kube-scheduler's own, and those that are compiled into this
// program in addition. The zero value knows kube-scheduler's alone.
type catalogue struct{ custom []string }

// customPoints are the points where a custom plugin may act. All profiles share one order of pods (queueSort),
// which is kube-scheduler's; pod groups are not placed as groups.
var customPoints = []Point{
	PreEnqueue, PreFilter, Filter, PostFilter, PreScore, Score, Reserve, Permit, PreBind, Bind, PostBind,
}

// acts returns the points at which a plugin may act; nil for an unknown one.
func (k catalogue) acts(name string) []Point {
	if own := implemented[name]; own != nil {
		return own
	}
	if slices.Contains(k.custom, name) {
		return customPoints
	}
	return nil
}

// names lists all plugins that a file may name, for messages.
func (k catalogue) names() string {
	all := slices.AppendSeq(slices.Clone(k.custom), maps.Keys(implemented))
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// customOf returns the custom plugins of a profile, with their arguments as upstream passes them: JSON that the
// plugin decodes (runtime.Convert_runtime_RawExtension_To_runtime_Object).
func (k catalogue) customOf(
	given []schedulerv1.PluginConfig, enabled map[Point][]EnabledPlugin, path *field.Path, r *strictyaml.Report,
) *placement.Custom {
	c := &placement.Custom{Points: map[string][]placement.CustomPlugin{}, Args: map[string]runtime.Object{}}
	for _, at := range customPoints {
		for _, p := range enabled[at] {
			if slices.Contains(k.custom, p.Name) {
				c.Points[string(at)] = append(c.Points[string(at)], placement.CustomPlugin(p))
			}
		}
	}
	if len(c.Points) == 0 {
		return nil
	}
	c.Binder = find(enabled[Bind], names.DefaultBinder)
	if c.NoBinder = c.Binder < 0; c.NoBinder {
		c.Binder = 0
	}
	for i, p := range given {
		if !slices.Contains(k.custom, p.Name) {
			continue
		}
		var args runtime.Object
		err := runtime.Convert_runtime_RawExtension_To_runtime_Object(&p.Args, &args, nil)
		if err == nil && len(p.Args.Raw) > 0 {
			err = json.Unmarshal(p.Args.Raw, &map[string]any{})
		}
		if err != nil {
			r.AddError(path.Index(i).Child("args"), p.Name, err)
		}
		if args != nil {
			c.Args[p.Name] = args
		}
	}
	return c
}
