package policy

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// OldVersion is the error for a file of descheduler/v1alpha1, which upstream removed in v0.31. It is not read in
// place of v1alpha2: users see the translation, and decide about it.
type OldVersion struct {
	File string
	// Equivalent is the same policy as a descheduler/v1alpha2 document in YAML. It is empty if the file cannot be
	// read as v1alpha1 either; Err then explains why.
	Equivalent string
	Err        error
}

// Error shows the equivalent below a first line like that of any other mistake.
func (e *OldVersion) Error() string {
	line := fmt.Sprintf("%s: apiVersion: %q: want %s", e.File, apiVersionOld, apiVersion)
	if e.Err != nil {
		return fmt.Sprintf("%s; it cannot be translated: %s", line, strings.Join(strings.Fields(e.Err.Error()), " "))
	}
	return line + ", in which the same policy is:\n" + e.Equivalent
}

// Unwrap returns why the file could not be translated.
func (e *OldVersion) Unwrap() error { return e.Err }

// oldDocument is the file as descheduler/v1alpha1 defined it. Values that v1alpha2 has unchanged are passed on
// unmodified, and unchecked: the equivalent is shown to the user, who saves it and has it checked then.
type oldDocument struct {
	Strategies                     map[string]oldStrategy `json:"strategies"`
	NodeSelector                   any                    `json:"nodeSelector"`
	MaxNoOfPodsToEvictPerNode      any                    `json:"maxNoOfPodsToEvictPerNode"`
	MaxNoOfPodsToEvictPerNamespace any                    `json:"maxNoOfPodsToEvictPerNamespace"`
	MaxNoOfPodsToEvictTotal        any                    `json:"maxNoOfPodsToEvictTotal"`
	oldSwitches                    `json:",inline"`
}

// oldSwitches are the switches that belonged to the whole file and belong to the evictor of each profile in
// v1alpha2.
type oldSwitches struct {
	EvictFailedBarePods     any `json:"evictFailedBarePods"`
	EvictLocalStoragePods   any `json:"evictLocalStoragePods"`
	EvictSystemCriticalPods any `json:"evictSystemCriticalPods"`
	EvictDaemonSetPods      any `json:"evictDaemonSetPods"`
	IgnorePvcPods           any `json:"ignorePvcPods"`
}

// oldStrategy is one strategy with its parameters, among which are those of its protections.
type oldStrategy struct {
	Enabled bool           `json:"enabled"`
	Params  map[string]any `json:"params"`
}

// Parameters of v1alpha1 that belong to the evictor in v1alpha2, and those that hold the arguments of one strategy.
const (
	oldNodeFit       = "nodeFit"
	oldPriority      = "thresholdPriority"
	oldPriorityClass = "thresholdPriorityClassName"
	oldSoft          = "includeSoftConstraints"
	oldPhases        = "podStatusPhases"
)

// oldHolders are the parameters that hold the arguments of one strategy; their content becomes the plugin's args.
var oldHolders = []string{
	"nodeResourceUtilizationThresholds", "podsHavingTooManyRestarts", "podLifeTime", "removeDuplicates", "failedPods",
}

// newOldVersion translates the file. It never fails: what cannot be translated is in the error that it returns.
func newOldVersion(file string, raw []byte) *OldVersion {
	var in oldDocument
	if err := json.Unmarshal(raw, &in); err != nil {
		return &OldVersion{File: file, Err: err}
	}
	out, err := yaml.Marshal(in.translate())
	return &OldVersion{File: file, Equivalent: string(out), Err: err}
}

// translate gives every enabled strategy a profile of its own, because each had its own protections. (Upstream's
// conversion, v0.26 to v0.30, did the same.)
func (d *oldDocument) translate() map[string]any {
	out := map[string]any{"apiVersion": apiVersion, "kind": kind}
	put(out, "nodeSelector", d.NodeSelector)
	put(out, "maxNoOfPodsToEvictPerNode", d.MaxNoOfPodsToEvictPerNode)
	put(out, "maxNoOfPodsToEvictPerNamespace", d.MaxNoOfPodsToEvictPerNamespace)
	put(out, "maxNoOfPodsToEvictTotal", d.MaxNoOfPodsToEvictTotal)
	var profiles []any
	for _, name := range slices.Sorted(maps.Keys(d.Strategies)) {
		if s := d.Strategies[name]; s.Enabled {
			profiles = append(profiles, d.profile(name, s.Params))
		}
	}
	out["profiles"] = profiles
	return out
}

// profile returns the profile of one strategy, which has the plugin and an evictor of its own.
func (d *oldDocument) profile(name string, params map[string]any) map[string]any {
	point := "deschedule"
	if _, ok := balancing[name]; ok {
		point = "balance"
	}
	plugin := map[string]any{"name": name}
	if args := oldArgs(name, params); len(args) > 0 {
		plugin["args"] = args
	}
	evictor := map[string]any{"name": PluginDefaultEvictor}
	if args := d.evictor(params); len(args) > 0 {
		evictor["args"] = args
	}
	return map[string]any{
		"name":         "strategy-" + name + "-profile",
		"pluginConfig": []any{evictor, plugin},
		"plugins":      map[string]any{point: map[string]any{"enabled": []any{name}}},
	}
}

// evictor returns the arguments of DefaultEvictor: the switches of the file, and the protections of the strategy.
func (d *oldDocument) evictor(params map[string]any) map[string]any {
	args := map[string]any{}
	put(args, "evictFailedBarePods", d.EvictFailedBarePods)
	put(args, "evictLocalStoragePods", d.EvictLocalStoragePods)
	put(args, "evictSystemCriticalPods", d.EvictSystemCriticalPods)
	put(args, "evictDaemonSetPods", d.EvictDaemonSetPods)
	put(args, "ignorePvcPods", d.IgnorePvcPods)
	put(args, "nodeFit", params[oldNodeFit])
	threshold := map[string]any{}
	put(threshold, "value", params[oldPriority])
	put(threshold, "name", params[oldPriorityClass])
	if len(threshold) > 0 {
		args["priorityThreshold"] = threshold
	}
	return args
}

// oldArgs returns the arguments of the plugin. Parameters that v1alpha2 does not know are kept under their names,
// so that reading the equivalent reports them.
func oldArgs(name string, params map[string]any) map[string]any {
	args := map[string]any{}
	for key, value := range params {
		inner, isMap := value.(map[string]any)
		switch {
		case key == oldNodeFit || key == oldPriority || key == oldPriorityClass:
		case key == oldSoft:
			if value == true {
				args["constraints"] = []any{"DoNotSchedule", "ScheduleAnyway"}
			}
		case slices.Contains(oldHolders, key) && isMap:
			maps.Copy(args, inner)
		case key == "namespaces" && (name == PluginLowNodeUtilization || name == PluginHighNodeUtilization):
			args["evictableNamespaces"] = value
		default:
			args[key] = value
		}
	}
	if phases, ok := args[oldPhases]; ok {
		delete(args, oldPhases)
		args["states"] = phases
	}
	return args
}

// put sets a key unless the file does not have it: a null would be a value in the translation.
func put(into map[string]any, key string, value any) {
	if value != nil {
		into[key] = value
	}
}
