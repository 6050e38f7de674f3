package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The strategies at each extension point, and the functions that read their arguments.
var (
	descheduling = map[string]func(*resolver, located) Args{
		PluginPodLifeTime:          (*resolver).podLifeTime,
		PluginFailedPods:           (*resolver).failedPods,
		PluginTooManyRestarts:      (*resolver).tooManyRestarts,
		PluginInterPodAntiAffinity: (*resolver).interPodAntiAffinity,
		PluginNodeAffinity:         (*resolver).nodeAffinity,
		PluginNodeTaints:           (*resolver).nodeTaints,
	}
	balancing = map[string]func(*resolver, located) Args{
		PluginDuplicates:          (*resolver).duplicates,
		PluginTopologySpread:      (*resolver).topologySpread,
		PluginLowNodeUtilization:  (*resolver).lowUtilization,
		PluginHighNodeUtilization: (*resolver).highUtilization,
	}
)

// Supported lists the plugins a policy may name, sorted.
func Supported() []string {
	names := []string{PluginDefaultEvictor}
	names = slices.AppendSeq(names, maps.Keys(descheduling))
	return slices.Sorted(slices.Values(slices.AppendSeq(names, maps.Keys(balancing))))
}

// Balances reports whether a strategy is one that balances: the pods that it picks are not wrong where they are,
// but are picked because of the other pods there.
func Balances(strategy string) bool {
	_, is := balancing[strategy]
	return is
}

// profile reads the plugins of one profile. It reads all arguments first, used or not, so that mistakes in those of
// a plugin that is not enabled are found as well; then it goes through the extension points. A strategy without an
// entry in pluginConfig is a mistake, as in upstream, even if it needs no arguments. The evictor is always active:
// naming it at filter or preEvictionFilter changes nothing.
func (r *resolver) profile(in *profile, path *field.Path) Profile {
	out := Profile{Name: in.Name}
	args := r.pluginConfigs(in.PluginConfig, &out, path.Child("pluginConfig"))
	at := path.Child("plugins")
	r.ignored("presort", in.Plugins.PreSort, at)
	r.ignored("sort", in.Plugins.Sort, at)
	for _, set := range []struct {
		point string
		given pluginSet
		known []string
	}{
		{"deschedule", in.Plugins.Deschedule, slices.Sorted(maps.Keys(descheduling))},
		{"balance", in.Plugins.Balance, slices.Sorted(maps.Keys(balancing))},
		{"filter", in.Plugins.Filter, []string{PluginDefaultEvictor}},
		{"preEvictionFilter", in.Plugins.PreEvictionFilter, []string{PluginDefaultEvictor}},
	} {
		here := at.Child(strings.ToLower(set.point))
		if len(set.given.Disabled) > 0 {
			r.warn(here.Child("disabled"), "plugins run only if they are enabled")
		}
		known := r.enabled(set.point, set.given.Enabled, set.known, here.Child("enabled"))
		for _, i := range known {
			s := Strategy{Name: set.given.Enabled[i]}
			if s.Name == PluginDefaultEvictor {
				continue // it is active whether or not it is named
			}
			var configured bool
			if s.Args, configured = args[s.Name]; !configured {
				r.Add(here.Child("enabled").Index(i), s.Name, fmt.Sprintf("unable to find %q plugin config; want an "+
					"entry of that name in %s, whose args may be omitted", s.Name, path.Child("pluginConfig")))
			}
			if set.point == "deschedule" {
				out.Deschedule = append(out.Deschedule, s)
			} else {
				out.Balance = append(out.Balance, s)
			}
		}
	}
	return out
}

// pluginConfigs reads the arguments of every named plugin, used or not. If there are several entries for one
// plugin, the first counts. Those of the evictor are stored in out.
func (r *resolver) pluginConfigs(in []pluginConfig, out *Profile, path *field.Path) map[string]Args {
	args := make(map[string]Args, len(in))
	evictor := false
	for i, c := range in {
		at, from := path.Index(i), located{c.Args.Raw, path.Index(i).Child("args")}
		read := descheduling[c.Name]
		if read == nil {
			read = balancing[c.Name]
		}
		_, again := args[c.Name]
		switch {
		case c.Name == PluginDefaultEvictor && !evictor:
			out.Evictor, evictor = r.evictor(from), true
		case c.Name == PluginDefaultEvictor:
			r.evictor(from)
			r.warn(at.Child("name"), "the first configuration of "+c.Name+" counts")
		case read == nil:
			r.Add(at.Child("name"), c.Name, fmt.Sprintf("plugin %s in pluginConfig not registered; want one of %s",
				c.Name, strings.Join(Supported(), ", ")))
		case again:
			read(r, from)
			r.warn(at.Child("name"), "the first configuration of "+c.Name+" counts")
		default:
			args[c.Name] = read(r, from)
		}
	}
	if !evictor {
		out.Evictor = r.evictor(located{})
	}
	return args
}

// enabled checks the names at one extension point and returns the indexes of the valid ones.
func (r *resolver) enabled(point string, names, known []string, path *field.Path) []int {
	var good []int
	for i, name := range names {
		switch {
		case !slices.Contains(known, name):
			r.Add(path.Index(i), name, fmt.Sprintf("configures %s extension point of non-existing plugins; want some of %s",
				point, strings.Join(known, ", ")))
		case slices.Contains(names[:i], name):
			r.warn(path.Index(i), "given twice; a plugin runs once in a profile")
		default:
			good = append(good, i)
		}
	}
	return good
}

// ignored handles the extension points that upstream also parses but never runs.
func (r *resolver) ignored(point string, set pluginSet, path *field.Path) {
	if len(set.Enabled) > 0 || len(set.Disabled) > 0 {
		r.warn(path.Child(point), "Berth does not sort with plugins")
	}
}
