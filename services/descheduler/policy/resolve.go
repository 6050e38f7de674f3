package policy

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/berth-scheduler/berth/pkg/strictyaml"
)

const (
	apiVersion = "descheduler/v1alpha2"
	kind       = "DeschedulerPolicy"

	// shape is the smallest useful policy, shown to whoever comes with v1alpha1.
	shape = "{apiVersion: descheduler/v1alpha2, kind: DeschedulerPolicy, profiles: [{name: default, " +
		"pluginConfig: [{name: RemovePodsViolatingNodeTaints, args: {}}], " +
		"plugins: {deschedule: {enabled: [RemovePodsViolatingNodeTaints]}}}]}"
)

// notHere are the plugins of kubernetes-sigs/descheduler v0.36 that this version lacks.
var notHere = []string{
	"HighNodeUtilization", "LowNodeUtilization", "PodLifeTime", "RemoveDuplicates", "RemoveFailedPods",
	"RemovePodsHavingTooManyRestarts", "RemovePodsViolatingInterPodAntiAffinity",
	"RemovePodsViolatingNodeAffinity", "RemovePodsViolatingTopologySpreadConstraint",
}

// checkType is asked before the document is decoded: another version has other fields.
func checkType(raw []byte, r *strictyaml.Report) bool {
	var meta metav1.TypeMeta
	if err := json.Unmarshal(raw, &meta); err != nil {
		r.AddError(nil, "document", err)
		return false
	}
	switch {
	case meta.APIVersion == "descheduler/v1alpha1":
		r.Add(field.NewPath("apiVersion"), meta.APIVersion, "want "+apiVersion+", whose shape is "+shape)
	case meta.APIVersion != apiVersion:
		r.Add(field.NewPath("apiVersion"), meta.APIVersion, "want "+apiVersion)
	}
	if meta.Kind != kind {
		r.Add(field.NewPath("kind"), meta.Kind, "want "+kind)
	}
	return r.Empty()
}

// resolver builds a Policy and collects what is wrong with the file and what means nothing.
type resolver struct {
	*strictyaml.Report
	warnings []string
}

// resolve records what cannot be accepted and builds the result, which is usable only when
// nothing was recorded.
func resolve(in *document, report *strictyaml.Report) *Policy {
	r := &resolver{Report: report}
	out := &Policy{
		Nodes: r.nodeSelector(in.NodeSelector, field.NewPath("nodeSelector")),
		Limits: Limits{
			PerNode:      in.MaxNoOfPodsToEvictPerNode,
			PerNamespace: in.MaxNoOfPodsToEvictPerNamespace,
			Total:        in.MaxNoOfPodsToEvictTotal,
		},
		GracePeriodSeconds: in.GracePeriodSeconds,
	}
	if in.GracePeriodSeconds != nil && *in.GracePeriodSeconds < 0 {
		r.Add(field.NewPath("gracePeriodSeconds"), *in.GracePeriodSeconds, "want 0 or more seconds")
	}
	if in.EvictionFailureEventNotification {
		r.warn(field.NewPath("evictionFailureEventNotification"), "no events are written for refused evictions")
	}
	if in.MetricsCollector != nil || len(in.MetricsProviders) > 0 {
		r.warn(field.NewPath("metricsProviders"), "no supported plugin reads metrics")
	}
	if len(in.Profiles) == 0 {
		r.warn(field.NewPath("profiles"), "there are none: nothing will be evicted")
	}
	for i := range in.Profiles {
		out.Profiles = append(out.Profiles, r.profile(&in.Profiles[i], field.NewPath("profiles").Index(i)))
	}
	out.Warnings = r.warnings
	return out
}

func (r *resolver) warn(path *field.Path, what string) {
	r.warnings = append(r.warnings, fmt.Sprintf("%s: %s: no effect: %s", r.File, path, what))
}

func (r *resolver) profile(in *profile, path *field.Path) Profile {
	configs := r.pluginConfigs(in.PluginConfig, path.Child("pluginConfig"))
	out := Profile{Name: in.Name, Evictor: r.evictor(configs[PluginDefaultEvictor])}
	at := path.Child("plugins")
	r.ignored("presort", in.Plugins.PreSort, at)
	r.ignored("sort", in.Plugins.Sort, at)
	for _, set := range []struct {
		point  string
		given  pluginSet
		plugin string
	}{
		{"deschedule", in.Plugins.Deschedule, PluginNodeTaints},
		{"balance", in.Plugins.Balance, ""},
		{"filter", in.Plugins.Filter, PluginDefaultEvictor},
		{"preevictionfilter", in.Plugins.PreEvictionFilter, PluginDefaultEvictor},
	} {
		r.enabled(set.given.Enabled, set.plugin, at.Child(set.point, "enabled"))
		if len(set.given.Disabled) > 0 {
			r.warn(at.Child(set.point, "disabled"), "plugins run when they are enabled, and only then")
		}
	}
	for i, name := range in.Plugins.Deschedule.Enabled {
		config, configured := configs[name]
		if name == PluginNodeTaints && !configured {
			r.Add(at.Child("deschedule", "enabled").Index(i), name,
				"want an entry of that name in "+path.Child("pluginConfig").String()+"; its args may be left out")
		}
		if name == PluginNodeTaints {
			out.Deschedule = append(out.Deschedule, Strategy{Name: name, NodeTaints: r.nodeTaints(config)})
		}
	}
	return out
}

// located is the configuration of one plugin with its place in the file; its zero value is
// that of a plugin with no configuration.
type located struct {
	raw  []byte
	path *field.Path
}

func (r *resolver) pluginConfigs(in []pluginConfig, path *field.Path) map[string]located {
	out := make(map[string]located, len(in))
	for i, c := range in {
		at := path.Index(i)
		if !slices.Contains(Supported(), c.Name) {
			r.unknownPlugin(c.Name, at.Child("name"))
			continue
		}
		if _, again := out[c.Name]; again {
			r.Add(at.Child("name"), c.Name, "given twice; want each plugin once in a profile")
			continue
		}
		out[c.Name] = located{c.Args.Raw, at.Child("args")}
	}
	return out
}

// enabled checks the names at one extension point; accepted is the plugin that acts there.
func (r *resolver) enabled(names []string, accepted string, path *field.Path) {
	for i, name := range names {
		switch {
		case !slices.Contains(Supported(), name):
			r.unknownPlugin(name, path.Index(i))
		case name != accepted && accepted == "":
			r.Add(path.Index(i), name, "no supported plugin acts here; want none")
		case name != accepted:
			r.Add(path.Index(i), name, "does not act here; want "+accepted)
		case slices.Contains(names[:i], name):
			r.Add(path.Index(i), name, "given twice; want each plugin once in a profile")
		}
	}
}

func (r *resolver) unknownPlugin(name string, path *field.Path) {
	want := "want one of " + strings.Join(Supported(), ", ")
	if slices.Contains(notHere, name) {
		want = "not supported by this version; " + want
	}
	r.Add(path, name, want)
}

// ignored handles the extension points that upstream, too, parses and never runs.
func (r *resolver) ignored(point string, set pluginSet, path *field.Path) {
	if len(set.Enabled) > 0 || len(set.Disabled) > 0 {
		r.warn(path.Child(point), "nothing is sorted by plugins")
	}
}

// decode reads a plugin's args; without any, args keeps its zero value.
func (r *resolver) decode(c located, args any) bool {
	return len(c.raw) == 0 || strictyaml.Decode(c.raw, args, c.path, r.Report)
}

func (r *resolver) nodeSelector(s string, path *field.Path) labels.Selector {
	selector, err := labels.Parse(s)
	if err != nil {
		r.Add(path, s, "want a label selector, as in kubectl's --selector: "+err.Error())
		return labels.Everything()
	}
	return selector
}

// labelSelector accepts none as everything.
func (r *resolver) labelSelector(in *metav1.LabelSelector, path *field.Path) labels.Selector {
	if in == nil {
		return labels.Everything()
	}
	selector, err := metav1.LabelSelectorAsSelector(in)
	if err != nil {
		r.Add(path, strictyaml.Words("not a selector"), err.Error())
		return labels.Everything()
	}
	return selector
}
