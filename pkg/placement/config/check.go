package config

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	schedulerv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/pkg/strictyaml"
)

// The limits below are upstream's (pkg/scheduler/apis/config/validation/
// validation_pluginargs.go); the wording is ours.
const (
	maxPercent              = 100
	maxResourceWeight       = 100
	maxShapeScore           = 10 // config.MaxCustomPriorityScore
	maxHardPodAffinity      = 100
	minDeviceBindingTimeout = time.Second
)

// checkRange records a value outside low to high, both inclusive.
func checkRange[T int32 | int64](v, low, high T, path *field.Path, r *strictyaml.Report) {
	if v < low || v > high {
		r.Add(path, v, fmt.Sprintf("want %d to %d", low, high))
	}
}

// checkPreemption requires a percentage or an absolute number: without both, no node would be tried.
func checkPreemption(a *schedulerv1.DefaultPreemptionArgs, path *field.Path, r *strictyaml.Report) {
	percent, absolute := *a.MinCandidateNodesPercentage, *a.MinCandidateNodesAbsolute
	checkRange(percent, 0, maxPercent, path.Child("minCandidateNodesPercentage"), r)
	if absolute < 0 {
		r.Add(path.Child("minCandidateNodesAbsolute"), absolute, "want 0 or more")
	}
	if percent == 0 && absolute == 0 {
		r.Add(path.Child("minCandidateNodesPercentage"), percent,
			"want more than 0 here or in minCandidateNodesAbsolute")
		r.Add(path.Child("minCandidateNodesAbsolute"), absolute,
			"want more than 0 here or in minCandidateNodesPercentage")
	}
}

// checkInterPodAffinity checks the weight of required affinity of other pods, 0 to 100.
func checkInterPodAffinity(a *schedulerv1.InterPodAffinityArgs, path *field.Path, r *strictyaml.Report) {
	checkRange(*a.HardPodAffinityWeight, 0, maxHardPodAffinity, path.Child("hardPodAffinityWeight"), r)
}

// checkFit checks names, weights and the strategy. A shape belongs to RequestedToCapacityRatio alone.
func checkFit(a *schedulerv1.NodeResourcesFitArgs, path *field.Path, r *strictyaml.Report) {
	for i, name := range a.IgnoredResources {
		checkName(name, field.ErrorTypeInvalid, path.Child("ignoredResources").Index(i), r)
	}
	for i, group := range a.IgnoredResourceGroups {
		at := path.Child("ignoredResourceGroups").Index(i)
		if strings.Contains(group, "/") {
			r.Add(at, group, "want only the part before the slash")
			continue
		}
		checkName(group, field.ErrorTypeInvalid, at, r)
	}
	strategy, at := a.ScoringStrategy, path.Child("scoringStrategy")
	for i, res := range strategy.Resources {
		checkRange(res.Weight, 1, maxResourceWeight, at.Child("resources").Index(i).Child("weight"), r)
	}
	ratio, ratioAt := strategy.RequestedToCapacityRatio, at.Child("requestedToCapacityRatio")
	switch strategy.Type {
	case schedulerv1.LeastAllocated, schedulerv1.MostAllocated, schedulerv1.RequestedToCapacityRatio:
	default:
		r.AddKind(field.ErrorTypeNotSupported, at.Child("type"), string(strategy.Type),
			"want LeastAllocated, MostAllocated or RequestedToCapacityRatio")
	}
	switch wanted := strategy.Type == schedulerv1.RequestedToCapacityRatio; {
	case wanted && ratio == nil:
		r.AddKind(field.ErrorTypeRequired, ratioAt, nil, "want a shape: the type is RequestedToCapacityRatio")
	case wanted:
		checkShape(ratio.Shape, ratioAt.Child("shape"), r)
	case ratio != nil:
		r.AddKind(field.ErrorTypeForbidden, ratioAt, strictyaml.Words(fmt.Sprintf("type %q", strategy.Type)),
			"want it only with type RequestedToCapacityRatio")
	}
}

// checkShape requires points with rising utilization.
func checkShape(shape []schedulerv1.UtilizationShapePoint, path *field.Path, r *strictyaml.Report) {
	if len(shape) == 0 {
		r.AddKind(field.ErrorTypeRequired, path, nil, "want at least one point {utilization, score}")
	}
	rising := true
	for i, p := range shape {
		checkRange(p.Utilization, 0, maxPercent, path.Index(i).Child("utilization"), r)
		checkRange(p.Score, 0, maxShapeScore, path.Index(i).Child("score"), r)
		if rising && i > 0 && p.Utilization <= shape[i-1].Utilization {
			r.Add(path.Index(i).Child("utilization"), p.Utilization,
				fmt.Sprintf("want more than the previous point (%d)", shape[i-1].Utilization))
			rising = false // report one mistake, even if more points are out of order
		}
	}
}

// checkBalanced requires the weight 1 for every resource: balance has no weights.
func checkBalanced(a *schedulerv1.NodeResourcesBalancedAllocationArgs, path *field.Path, r *strictyaml.Report) {
	seen := map[string]bool{}
	for i, res := range a.Resources {
		at := path.Child("resources").Index(i)
		if seen[res.Name] {
			r.AddKind(field.ErrorTypeDuplicate, at.Child("name"), res.Name, "given twice; want each resource once")
		}
		seen[res.Name] = true
		if res.Weight != 1 {
			r.Add(at.Child("weight"), res.Weight, "want 1")
		}
	}
}

// checkSpread checks the default constraints: none with System, no selectors, and each pair of key and action
// once.
func checkSpread(a *schedulerv1.PodTopologySpreadArgs, path *field.Path, r *strictyaml.Report) {
	at := path.Child("defaultingType")
	switch a.DefaultingType {
	case schedulerv1.ListDefaulting:
	case schedulerv1.SystemDefaulting:
		if len(a.DefaultConstraints) > 0 {
			r.Add(at, string(a.DefaultingType), "want List when defaultConstraints are given")
		}
	default:
		r.AddKind(field.ErrorTypeNotSupported, at, string(a.DefaultingType), "want System or List")
	}
	type identity struct {
		key  string
		when corev1.UnsatisfiableConstraintAction
	}
	seen := map[identity]bool{}
	for i, c := range a.DefaultConstraints {
		at := path.Child("defaultConstraints").Index(i)
		if c.MaxSkew <= 0 {
			r.Add(at.Child("maxSkew"), c.MaxSkew, "want 1 or more")
		}
		checkName(c.TopologyKey, field.ErrorTypeRequired, at.Child("topologyKey"), r)
		checkWhenUnsatisfiable(c.WhenUnsatisfiable, at.Child("whenUnsatisfiable"), r)
		if c.LabelSelector != nil {
			r.AddKind(field.ErrorTypeForbidden, at.Child("labelSelector"), strictyaml.Words("given"),
				"want none: the selector is derived from the owners of each pod")
		}
		id := identity{c.TopologyKey, c.WhenUnsatisfiable}
		if seen[id] {
			r.AddKind(field.ErrorTypeDuplicate, at, strictyaml.Words(fmt.Sprintf("{%s, %s}", id.key, id.when)),
				"given twice; want each pair once")
		}
		seen[id] = true
	}
}

// checkWhenUnsatisfiable accepts the two actions of a constraint.
func checkWhenUnsatisfiable(v corev1.UnsatisfiableConstraintAction, path *field.Path, r *strictyaml.Report) {
	const accepted = "want DoNotSchedule or ScheduleAnyway"
	switch v {
	case corev1.DoNotSchedule, corev1.ScheduleAnyway:
	case "":
		r.AddKind(field.ErrorTypeRequired, path, nil, accepted)
	default:
		r.AddKind(field.ErrorTypeNotSupported, path, string(v), accepted)
	}
}

// checkNodeAffinity parses the affinity that the profile adds to every pod.
func checkNodeAffinity(a *schedulerv1.NodeAffinityArgs, path *field.Path, r *strictyaml.Report) {
	if a.AddedAffinity == nil {
		return
	}
	at := path.Child("addedAffinity")
	if required := a.AddedAffinity.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
		p := at.Child("requiredDuringSchedulingIgnoredDuringExecution")
		_, err := nodeaffinity.NewNodeSelector(required, field.WithPath(p))
		r.AddError(p, nil, err)
	}
	if preferred := a.AddedAffinity.PreferredDuringSchedulingIgnoredDuringExecution; len(preferred) > 0 {
		p := at.Child("preferredDuringSchedulingIgnoredDuringExecution")
		_, err := nodeaffinity.NewPreferredSchedulingTerms(preferred, field.WithPath(p))
		r.AddError(p, nil, err)
	}
}

// checkVolumeBinding accepts a timeout; the score by storage capacity is behind an alpha gate.
func checkVolumeBinding(a *schedulerv1.VolumeBindingArgs, path *field.Path, r *strictyaml.Report) {
	if *a.BindTimeoutSeconds < 0 {
		r.Add(path.Child("bindTimeoutSeconds"), *a.BindTimeoutSeconds, "want 0 or more seconds")
	}
	if a.Shape != nil {
		r.Add(path.Child("shape"), strictyaml.Words("given"), "want none: the feature gate StorageCapacityScoring is off")
	}
}

// checkDynamicResources checks the timeouts: a search may be unlimited, waiting for devices may not.
func checkDynamicResources(a *schedulerv1.DynamicResourcesArgs, path *field.Path, r *strictyaml.Report) {
	if a.FilterTimeout.Duration < 0 {
		r.Add(path.Child("filterTimeout"), a.FilterTimeout.Duration, "want 0 (none) or more")
	}
	if a.BindingTimeout.Duration < minDeviceBindingTimeout {
		r.Add(path.Child("bindingTimeout"), a.BindingTimeout.Duration, "want 1s or more")
	}
}

// checkName accepts names that are valid label keys: upstream's rule for resource names and topology keys. empty is
// the kind of mistake to report for an empty name.
func checkName(name string, empty field.ErrorType, path *field.Path, r *strictyaml.Report) {
	if name == "" {
		r.AddKind(empty, path, name, "want a name of the form example.com/name or name")
		return
	}
	for _, e := range metav1validation.ValidateLabelName(name, path) {
		r.AddError(path, name, e)
	}
}
