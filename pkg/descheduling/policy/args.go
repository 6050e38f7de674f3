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

// MetricResource is the name under which thresholds speak of a Prometheus query's result.
const MetricResource = "MetricResource"

// Args are the arguments of one strategy: one of the pointer types below, never nil.
type Args interface{ plugin() string }

// Pods selects the pods that a strategy looks at.
type Pods struct {
	Namespaces Namespaces
	// Labels is never nil.
	Labels labels.Selector
}

// Has reports whether a pod with these labels in this namespace is meant.
func (p *Pods) Has(namespace string, podLabels map[string]string) bool {
	return p.Namespaces.Has(namespace) && p.Labels.Matches(labels.Set(podLabels))
}

// Namespaces limits by exact name; at most one of the lists has entries.
type Namespaces struct {
	Include, Exclude []string
}

// Has reports whether pods of namespace ns are meant.
func (n Namespaces) Has(ns string) bool {
	if len(n.Include) > 0 {
		return slices.Contains(n.Include, ns)
	}
	return !slices.Contains(n.Exclude, ns)
}

// TooManyRestarts are the arguments of RemovePodsHavingTooManyRestarts.
type TooManyRestarts struct {
	Pods
	// Threshold is the sum of restarts from which on a pod goes; at least 1.
	Threshold int32
	// InitContainers counts theirs as well, and looks for States in them.
	InitContainers bool
	// States are phases and reasons of waiting, one of which the pod must be in; empty is
	// any.
	States []string
}

// PodLifeTime are the arguments of PodLifeTime. Criteria that are given must all hold; of the
// entries of one, any.
type PodLifeTime struct {
	Pods
	// OwnerKinds limits by the kinds of the pod's owners.
	OwnerKinds OwnerKinds
	// MaxSeconds since creation; older pods go. Nil is no limit.
	MaxSeconds *uint
	// States are phases and reasons of pod and containers.
	States     []string
	Conditions []PodCondition
	ExitCodes  []int32
	// InitContainers and EphemeralContainers are looked at beside the others. Exit codes of
	// ephemeral ones are not.
	InitContainers, EphemeralContainers bool
}

// OwnerKinds limits pods by the kinds of their owners; at most one list has entries.
type OwnerKinds struct {
	Include, Exclude []string
}

// PodCondition describes a condition of a pod: every field that is set must agree.
type PodCondition struct {
	Type, Status, Reason string
	// MinSeconds since the last transition; nil does not look at it.
	MinSeconds *uint
}

// FailedPods are the arguments of RemoveFailedPods.
type FailedPods struct {
	Pods
	// ExcludeOwnerKinds keeps pods with an owner of these kinds.
	ExcludeOwnerKinds []string
	// MinSeconds since creation; an hour unless the file says otherwise.
	MinSeconds uint
	// Reasons and ExitCodes, one of which must agree if there are any.
	Reasons   []string
	ExitCodes []int32
	// InitContainers are looked at beside the others.
	InitContainers bool
}

// Duplicates are the arguments of RemoveDuplicates.
type Duplicates struct {
	Namespaces        Namespaces
	ExcludeOwnerKinds []string
}

// NodeTaints are the arguments of RemovePodsViolatingNodeTaints: pods on a node with a
// taint they do not tolerate.
type NodeTaints struct {
	Pods
	// PreferNoSchedule looks at taints of that effect beside NoSchedule.
	PreferNoSchedule bool
	// Excluded and Included name taints as "key" or "key=value"; at most one list has
	// entries. Included nil means all.
	Excluded, Included []string
}

// The types of node affinity.
const (
	RequiredNodeAffinity  = "requiredDuringSchedulingIgnoredDuringExecution"
	PreferredNodeAffinity = "preferredDuringSchedulingIgnoredDuringExecution"
)

// NodeAffinity are the arguments of RemovePodsViolatingNodeAffinity.
type NodeAffinity struct {
	Pods
	// Types are RequiredNodeAffinity and PreferredNodeAffinity, in the order in which to
	// look; not empty. Others mean nothing.
	Types []string
}

// InterPodAntiAffinity are the arguments of RemovePodsViolatingInterPodAntiAffinity.
type InterPodAntiAffinity struct {
	Pods
}

// TopologySpread are the arguments of RemovePodsViolatingTopologySpreadConstraint.
type TopologySpread struct {
	Pods
	// Constraints are the kinds to balance; not empty.
	Constraints []corev1.UnsatisfiableConstraintAction
	// NodeFit moves only pods that fit a node of a domain that wants more.
	NodeFit bool
}

// Thresholds are percentages by resource name, each in [0, 100]; not empty.
type Thresholds map[string]float64

// LowUtilization are the arguments of LowNodeUtilization.
type LowUtilization struct {
	// Thresholds is where a node stops to be under, Targets from where on it is over; both
	// name the same resources.
	Thresholds, Targets Thresholds
	// Deviation makes both distances from the mean.
	Deviation bool
	// NumberOfNodes that must be under, and one more, before anything is done.
	NumberOfNodes int
	// Source is empty for requests.
	Source MetricsSource
	// Query for Prometheus: a vector of values in [0, 1] with the node's name as instance.
	Query string
	// ExcludeNamespaces are not evicted from, but count.
	ExcludeNamespaces []string
	// NodeLimit is the most this strategy takes from one node in one cycle; nil is no limit.
	NodeLimit *uint
}

// HighUtilization are the arguments of HighNodeUtilization.
type HighUtilization struct {
	// Thresholds up to which a node is to be emptied.
	Thresholds Thresholds
	// NumberOfNodes that must be under, and one more, before anything is done.
	NumberOfNodes int
	// OnlyThresholdResources takes only pods that request one of the resources of Thresholds.
	OnlyThresholdResources bool
	// ExcludeNamespaces are not evicted from, but count.
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
