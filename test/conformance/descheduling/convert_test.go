package descheduling

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/descheduler/pkg/api"
	"sigs.k8s.io/descheduler/pkg/framework/plugins/defaultevictor"
	"sigs.k8s.io/descheduler/pkg/framework/plugins/nodeutilization"
	"sigs.k8s.io/descheduler/pkg/framework/plugins/podlifetime"
	"sigs.k8s.io/descheduler/pkg/framework/plugins/removeduplicates"
	"sigs.k8s.io/descheduler/pkg/framework/plugins/removefailedpods"
	"sigs.k8s.io/descheduler/pkg/framework/plugins/removepodshavingtoomanyrestarts"
	"sigs.k8s.io/descheduler/pkg/framework/plugins/removepodsviolatinginterpodantiaffinity"
	"sigs.k8s.io/descheduler/pkg/framework/plugins/removepodsviolatingnodeaffinity"
	"sigs.k8s.io/descheduler/pkg/framework/plugins/removepodsviolatingnodetaints"
	"sigs.k8s.io/descheduler/pkg/framework/plugins/removepodsviolatingtopologyspreadconstraint"

	"github.com/berth-scheduler/berth/pkg/descheduling/policy"
)

// argsOf translates upstream's defaulted arguments into ours.
func argsOf(args any) policy.Args {
	switch a := args.(type) {
	case *removepodshavingtoomanyrestarts.RemovePodsHavingTooManyRestartsArgs:
		return &policy.TooManyRestarts{Pods: podsOf(a.Namespaces, a.LabelSelector), Threshold: a.PodRestartThreshold,
			InitContainers: a.IncludingInitContainers, States: a.States}
	case *podlifetime.PodLifeTimeArgs:
		return lifeTimeOf(a)
	case *removefailedpods.RemoveFailedPodsArgs:
		return &policy.FailedPods{Pods: podsOf(a.Namespaces, a.LabelSelector), ExcludeOwnerKinds: a.ExcludeOwnerKinds,
			MinSeconds: *a.MinPodLifetimeSeconds, Reasons: a.Reasons, ExitCodes: a.ExitCodes,
			InitContainers: a.IncludingInitContainers}
	case *removeduplicates.RemoveDuplicatesArgs:
		return &policy.Duplicates{Namespaces: namespacesOf(a.Namespaces), ExcludeOwnerKinds: a.ExcludeOwnerKinds}
	case *removepodsviolatingnodetaints.RemovePodsViolatingNodeTaintsArgs:
		return &policy.NodeTaints{Pods: podsOf(a.Namespaces, a.LabelSelector), PreferNoSchedule: a.IncludePreferNoSchedule,
			Excluded: a.ExcludedTaints, Included: a.IncludedTaints}
	case *removepodsviolatingnodeaffinity.RemovePodsViolatingNodeAffinityArgs:
		return &policy.NodeAffinity{Pods: podsOf(a.Namespaces, a.LabelSelector), Types: a.NodeAffinityType}
	case *removepodsviolatinginterpodantiaffinity.RemovePodsViolatingInterPodAntiAffinityArgs:
		return &policy.InterPodAntiAffinity{Pods: podsOf(a.Namespaces, a.LabelSelector)}
	case *removepodsviolatingtopologyspreadconstraint.RemovePodsViolatingTopologySpreadConstraintArgs:
		return &policy.TopologySpread{Pods: podsOf(a.Namespaces, a.LabelSelector), Constraints: a.Constraints,
			NodeFit: *a.TopologyBalanceNodeFit}
	case *nodeutilization.LowNodeUtilizationArgs:
		return lowOf(a)
	case *nodeutilization.HighNodeUtilizationArgs:
		out := &policy.HighUtilization{Thresholds: thresholdsOf(a.Thresholds), NumberOfNodes: a.NumberOfNodes,
			OnlyThresholdResources: len(a.EvictionModes) > 0}
		if a.EvictableNamespaces != nil {
			out.ExcludeNamespaces = a.EvictableNamespaces.Exclude
		}
		return out
	default:
		panic(fmt.Sprintf("arguments of type %T", args))
	}
}

func lifeTimeOf(a *podlifetime.PodLifeTimeArgs) *policy.PodLifeTime {
	out := &policy.PodLifeTime{
		Pods: podsOf(a.Namespaces, a.LabelSelector), MaxSeconds: a.MaxPodLifeTimeSeconds, States: a.States,
		ExitCodes: a.ExitCodes, InitContainers: a.IncludingInitContainers,
		EphemeralContainers: a.IncludingEphemeralContainers,
	}
	if a.OwnerKinds != nil {
		out.OwnerKinds = policy.OwnerKinds{Include: a.OwnerKinds.Include, Exclude: a.OwnerKinds.Exclude}
	}
	for _, c := range a.Conditions {
		out.Conditions = append(out.Conditions, policy.PodCondition{
			Type: c.Type, Status: c.Status, Reason: c.Reason, MinSeconds: c.MinTimeSinceLastTransitionSeconds,
		})
	}
	return out
}

func lowOf(a *nodeutilization.LowNodeUtilizationArgs) *policy.LowUtilization {
	out := &policy.LowUtilization{
		Thresholds: thresholdsOf(a.Thresholds), Targets: thresholdsOf(a.TargetThresholds),
		Deviation: a.UseDeviationThresholds, NumberOfNodes: a.NumberOfNodes,
	}
	if a.EvictableNamespaces != nil {
		out.ExcludeNamespaces = a.EvictableNamespaces.Exclude
	}
	if a.EvictionLimits != nil {
		out.NodeLimit = a.EvictionLimits.Node
	}
	if m := a.MetricsUtilization; m != nil {
		out.Source = policy.MetricsSource(m.Source)
		if m.MetricsServer {
			out.Source = policy.KubernetesMetrics
		}
		if m.Prometheus != nil {
			out.Query = m.Prometheus.Query
		}
	}
	return out
}

func thresholdsOf(in api.ResourceThresholds) policy.Thresholds {
	out := policy.Thresholds{}
	for name, percent := range in {
		out[string(name)] = float64(percent)
	}
	return out
}

func podsOf(n *api.Namespaces, l *metav1.LabelSelector) policy.Pods {
	return policy.Pods{Namespaces: namespacesOf(n), Labels: selectorOf(l)}
}

func namespacesOf(n *api.Namespaces) policy.Namespaces {
	if n == nil {
		return policy.Namespaces{}
	}
	return policy.Namespaces{Include: n.Include, Exclude: n.Exclude}
}

func selectorOf(l *metav1.LabelSelector) labels.Selector {
	if l == nil {
		return labels.Everything()
	}
	selector, err := metav1.LabelSelectorAsSelector(l)
	if err != nil {
		panic(err)
	}
	return selector
}

// evictorOf translates the protections of DefaultEvictor into ours, except for the threshold. nodeFit that is not set
// is false there.
func evictorOf(a *defaultevictor.DefaultEvictorArgs, like policy.Evictor) policy.Evictor {
	targets, err := labels.Parse(a.NodeSelector)
	if err != nil {
		panic(err)
	}
	out := policy.Evictor{
		TargetNodes: targets, Labels: selectorOf(a.LabelSelector), NamespaceLabels: selectorOf(a.NamespaceLabelSelector),
		PriorityThreshold: like.PriorityThreshold, PriorityClass: like.PriorityClass,
		MinReplicas: a.MinReplicas, MandatoryNoEviction: a.NoEvictionPolicy == defaultevictor.MandatoryNoEvictionPolicy,
		NodeFit: like.NodeFit,
	}
	if like.NodeFit != nil || a.NodeFit {
		out.NodeFit = &a.NodeFit
	}
	if a.MinPodAge != nil {
		out.MinPodAge = &a.MinPodAge.Duration
	}
	has := func(list []defaultevictor.PodProtection, p defaultevictor.PodProtection) bool {
		for _, o := range list {
			if o == p {
				return true
			}
		}
		return false
	}
	lists := a.PodProtections
	off := func(p defaultevictor.PodProtection, older bool) bool { return has(lists.DefaultDisabled, p) || older }
	out.Protect = policy.Protections{
		LocalStorage:   !off(defaultevictor.PodsWithLocalStorage, a.EvictLocalStoragePods),
		DaemonSet:      !off(defaultevictor.DaemonSetPods, a.EvictDaemonSetPods),
		SystemCritical: !off(defaultevictor.SystemCriticalPods, a.EvictSystemCriticalPods),
		FailedBare:     !off(defaultevictor.FailedBarePods, a.EvictFailedBarePods),
		PVC:            has(lists.ExtraEnabled, defaultevictor.PodsWithPVC) || a.IgnorePvcPods,
		WithoutPDB:     has(lists.ExtraEnabled, defaultevictor.PodsWithoutPDB) || a.IgnorePodsWithoutPDB,
		ResourceClaims: has(lists.ExtraEnabled, defaultevictor.PodsWithResourceClaims),
	}
	if c := lists.Config; c != nil && c.PodsWithPVC != nil && has(lists.ExtraEnabled, defaultevictor.PodsWithPVC) {
		for _, class := range c.PodsWithPVC.ProtectedStorageClasses {
			out.StorageClasses = append(out.StorageClasses, class.Name)
		}
	}
	return out
}
