package policy

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// The plugins, by their upstream names.
const (
	PluginDefaultEvictor       = "DefaultEvictor"
	PluginHighNodeUtilization  = "HighNodeUtilization"
	PluginLowNodeUtilization   = "LowNodeUtilization"
	PluginPodLifeTime          = "PodLifeTime"
	PluginDuplicates           = "RemoveDuplicates"
	PluginFailedPods           = "RemoveFailedPods"
	PluginTooManyRestarts      = "RemovePodsHavingTooManyRestarts"
	PluginInterPodAntiAffinity = "RemovePodsViolatingInterPodAntiAffinity"
	PluginNodeAffinity         = "RemovePodsViolatingNodeAffinity"
	PluginNodeTaints           = "RemovePodsViolatingNodeTaints"
	PluginTopologySpread       = "RemovePodsViolatingTopologySpreadConstraint"
)

// MetricResource is the resource name under which thresholds refer to the result of a Prometheus query.
const MetricResource = "MetricResource"

// Args holds the arguments of one strategy: one of the pointer types below, never nil. The set is closed by the
// unexported method; a type switch over it is complete with these ten.
type Args interface{ plugin() string }

// Pods selects the pods that a strategy considers. Pods that it leaves out are not picked; whether they count, as
// for utilisation, depends on the strategy.
type Pods struct {
	Namespaces Namespaces
	// Labels is never nil.
	Labels labels.Selector
}

// Has reports whether a pod with these labels in this namespace is selected.
func (p *Pods) Has(namespace string, podLabels map[string]string) bool {
	return p.Namespaces.Has(namespace) && p.Labels.Matches(labels.Set(podLabels))
}

// Namespaces limits by exact name; at most one of the lists has entries. The zero value selects all namespaces.
type Namespaces struct {
	Include, Exclude []string
}

// Has reports whether pods of namespace ns are selected.
func (n Namespaces) Has(ns string) bool {
	if len(n.Include) > 0 {
		return slices.Contains(n.Include, ns)
	}
	return !slices.Contains(n.Exclude, ns)
}

// TooManyRestarts holds the arguments of RemovePodsHavingTooManyRestarts.
type TooManyRestarts struct {
	Pods
	// Threshold is the sum of restarts from which on a pod is evicted; at least 1.
	Threshold int32
	// InitContainers also counts the restarts of init containers, and looks for States in them.
	InitContainers bool
	// States holds phases and waiting reasons, of which the pod must have one; empty means any.
	States []string
}

// PodLifeTime holds the arguments of PodLifeTime. All given criteria must hold; within one criterion, one of its
// entries is enough.
type PodLifeTime struct {
	Pods
	// OwnerKinds restricts the kinds of the pod's owners.
	OwnerKinds OwnerKinds
	// MaxSeconds is the largest age since creation; older pods are evicted. nil means no limit.
	MaxSeconds *uint
	// States holds phases and reasons of pods and containers.
	States     []string
	Conditions []PodCondition
	ExitCodes  []int32
	// InitContainers and EphemeralContainers are considered in addition to the regular ones. Exit codes of
	// ephemeral containers are not.
	InitContainers, EphemeralContainers bool
}

// OwnerKinds restricts pods by the kinds of their owners; at most one list has entries.
type OwnerKinds struct {
	Include, Exclude []string
}

// PodCondition describes a condition of a pod: every field that is set must match.
type PodCondition struct {
	Type, Status, Reason string
	// MinSeconds is the time since the last transition; nil ignores it.
	MinSeconds *uint
}

// FailedPods holds the arguments of RemoveFailedPods: it evicts pods in phase Failed.
type FailedPods struct {
	Pods
	// ExcludeOwnerKinds keeps pods with an owner of one of these kinds.
	ExcludeOwnerKinds []string
	// MinSeconds is the smallest age since creation; an hour unless the file says otherwise.
	MinSeconds uint
	// Reasons and ExitCodes: if a list has entries, one of them must match.
	Reasons   []string
	ExitCodes []int32
	// InitContainers are considered in addition to the regular ones.
	InitContainers bool
}

// Duplicates holds the arguments of RemoveDuplicates. ExcludeOwnerKinds keeps pods with an owner of one of these
// kinds.
type Duplicates struct {
	Namespaces        Namespaces
	ExcludeOwnerKinds []string
}

// NodeTaints holds the arguments of RemovePodsViolatingNodeTaints: it evicts pods on a node with a taint that they
// do not tolerate.
type NodeTaints struct {
	Pods
	// PreferNoSchedule considers taints with that effect in addition to NoSchedule.
	PreferNoSchedule bool
	// Excluded and Included name taints as "key" or "key=value"; at most one list has entries. Included nil means
	// all.
	Excluded, Included []string
}

// The types of node affinity.
const (
	RequiredNodeAffinity  = "requiredDuringSchedulingIgnoredDuringExecution"
	PreferredNodeAffinity = "preferredDuringSchedulingIgnoredDuringExecution"
)

// NodeAffinity holds the arguments of RemovePodsViolatingNodeAffinity: it evicts pods on a node that does not match
// their required affinity, or that they prefer less than another.
type NodeAffinity struct {
	Pods
	// Types holds RequiredNodeAffinity and PreferredNodeAffinity, in the order of evaluation; not empty. Other
	// values are ignored.
	Types []string
}

// InterPodAntiAffinity holds the arguments of RemovePodsViolatingInterPodAntiAffinity: it evicts a pod that has a
// required term which matches another pod in its domain.
type InterPodAntiAffinity struct {
	Pods
}

// TopologySpread holds the arguments of RemovePodsViolatingTopologySpreadConstraint: it evicts pods from domains
// that have more pods than the constraint's maxSkew allows.
type TopologySpread struct {
	Pods
	// Constraints holds the kinds of constraints to balance; not empty.
	Constraints []corev1.UnsatisfiableConstraintAction
	// NodeFit moves only pods that fit a node of a domain that has too few.
	NodeFit bool
}

// Thresholds are percentages by resource name, each in [0, 100]; not empty.
type Thresholds map[string]float64

// LowUtilization holds the arguments of LowNodeUtilization: it evicts pods from nodes above Targets while nodes
// below Thresholds can take them.
type LowUtilization struct {
	// Thresholds is the utilisation up to which a node is underutilised, Targets that above which it is
	// overutilised; both name the same resources.
	Thresholds, Targets Thresholds
	// Deviation makes both distances from the mean.
	Deviation bool
	// NumberOfNodes is how many nodes may be underutilised without any eviction; only with more does the strategy
	// act.
	NumberOfNodes int
	// Source is empty for requests.
	Source MetricsSource
	// Query is the query for Prometheus: a vector of values in [0, 1] with the node's name as instance.
	Query string
	// ExcludeNamespaces are namespaces whose pods are not evicted, but count.
	ExcludeNamespaces []string
	// NodeLimit is the largest number of pods that this strategy evicts from one node in one cycle; nil means no
	// limit.
	NodeLimit *uint
}

// HighUtilization holds the arguments of HighNodeUtilization: it empties nodes below Thresholds. It measures
// requests.
type HighUtilization struct {
	// Thresholds is the utilisation up to which a node should be emptied.
	Thresholds Thresholds
	// NumberOfNodes is how many nodes may be underutilised without any eviction; only with more does the strategy
	// act.
	NumberOfNodes int
	// OnlyThresholdResources evicts only pods that request one of the resources of Thresholds.
	OnlyThresholdResources bool
	// ExcludeNamespaces are namespaces whose pods are not evicted, but count.
	ExcludeNamespaces []string
}

func (*TooManyRestarts) plugin() string      { return PluginTooManyRestarts }
func (*PodLifeTime) plugin() string          { return PluginPodLifeTime }
func (*FailedPods) plugin() string           { return PluginFailedPods }
func (*Duplicates) plugin() string           { return PluginDuplicates }
func (*NodeTaints) plugin() string           { return PluginNodeTaints }
func (*NodeAffinity) plugin() string         { return PluginNodeAffinity }
func (*InterPodAntiAffinity) plugin() string { return PluginInterPodAntiAffinity }
func (*TopologySpread) plugin() string       { return PluginTopologySpread }
func (*LowUtilization) plugin() string       { return PluginLowNodeUtilization }
func (*HighUtilization) plugin() string      { return PluginHighNodeUtilization }
