package policy

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/pkg/events"
)

// Policy is a complete and checked DeschedulerPolicy. Immutable: a running cycle keeps the Policy with which it
// began when the file is read again.
type Policy struct {
	// Nodes selects the nodes whose pods are considered; never nil.
	Nodes labels.Selector
	// Limits bounds the evictions of one cycle.
	Limits Limits
	// GracePeriodSeconds overrides the grace period of every evicted pod; nil leaves it, 0 kills at once.
	GracePeriodSeconds *int64
	// FailureEvents requests a Kubernetes event for every eviction that failed.
	FailureEvents bool
	// Metrics are the sources of actual utilisation, each at most once. Whether a strategy uses one is in its
	// arguments.
	Metrics []MetricsProvider
	// Profiles run in order. Two profiles may have the same name; then their metrics are added up.
	Profiles []Profile
	// Berth holds the settings that upstream's policy does not have.
	Berth Berth
	// Warnings holds one line for each part of the file that has no effect; always empty in strict mode, where
	// these are mistakes.
	Warnings []string
}

// MetricsSource identifies a source of actual utilisation.
type MetricsSource string

// The sources, by their upstream names.
const (
	// KubernetesMetrics is metrics.k8s.io.
	KubernetesMetrics MetricsSource = "KubernetesMetrics"
	// PrometheusMetrics is a query to a Prometheus server.
	PrometheusMetrics MetricsSource = "Prometheus"
)

// MetricsProvider is one source of actual utilisation. It says where to read; which strategies read it is decided
// by LowUtilization.Source.
type MetricsProvider struct {
	Source MetricsSource
	// URL is that of the Prometheus server; empty for other sources.
	URL string
	// TokenSecret is the namespace and name of the secret with the server's token; nil uses the token of the
	// process's own service account.
	TokenSecret *SecretName
}

// SecretName names a secret.
type SecretName struct{ Namespace, Name string }

// Limits are counts per cycle; nil is unlimited and 0 means never. They are counted over all profiles together.
type Limits struct {
	// PerNode counts the node that a pod leaves.
	PerNode, PerNamespace, Total *uint
}

// Profile is a list of strategies with the protections they share. A profile without strategies does nothing.
type Profile struct {
	// Name is shown in metrics and messages; it may be empty.
	Name string
	// Deschedule and Balance run in order; the Balance strategies of every profile come
	// after the Deschedule strategies of every profile.
	Deschedule, Balance []Strategy
	Evictor             Evictor
}

// Strategy is one plugin that picks pods. The same plugin may be in several profiles, with other arguments, and at
// most once in each.
type Strategy struct {
	// Name is the plugin's, as metrics and messages show it.
	Name string
	// Args holds the strategy's arguments. The pointer is the strategy's identity within a Policy: two profiles
	// with the same strategy have different pointers.
	Args Args
}

// Evictor holds the arguments of DefaultEvictor: which pods must not be evicted. The zero value is not usable,
// because its selectors are nil; a profile without DefaultEvictor gets the defaults.
type Evictor struct {
	// TargetNodes selects the nodes that NodeFit may consider; never nil.
	TargetNodes labels.Selector
	// Labels selects pods, NamespaceLabels their namespaces; never nil.
	Labels, NamespaceLabels labels.Selector
	// PriorityThreshold and PriorityClass protect pods with at least that priority, in addition to the critical
	// ones. At most one is set.
	PriorityThreshold *int32
	PriorityClass     string
	// NodeFit evicts only pods that fit another node. nil means that the file does not set it: true for Berth (see
	// WantsNodeFit), false for upstream.
	NodeFit *bool
	// MinReplicas protects pods whose only owner has fewer; below 2 it protects none.
	MinReplicas uint
	// MinPodAge protects pods that started more recently than this, or not yet; nil disables it.
	MinPodAge *time.Duration
	// MandatoryNoEviction makes the annotation prefer-no-eviction binding.
	MandatoryNoEviction bool
	// Protect holds the protections that are on or off.
	Protect Protections
	// StorageClasses restricts Protect.PVC to claims of these classes; empty means all.
	StorageClasses []string
}

// WantsNodeFit reports whether a pod must have another place before it is evicted. Only an explicit false disables
// that.
func (e *Evictor) WantsNodeFit() bool { return e.NodeFit == nil || *e.NodeFit }

// Protections defines which groups of pods are protected. The zero value protects none; Load never returns it
// unless the file disables all.
type Protections struct {
	LocalStorage, DaemonSet, SystemCritical, FailedBare bool // on unless disabled
	PVC, WithoutPDB, ResourceClaims                     bool // off unless enabled
}

// Kinds lists the kinds of facts that the policy depends on: each must have arrived completely before a cycle may
// run. Sorted; pods, nodes and disruption budgets are always included. Others are included only if an option reads
// them, so that a policy which does not is not held up by a kind that the queue may not read.
func (p *Policy) Kinds() []events.Kind {
	kinds := []events.Kind{events.KindPod, events.KindNode, events.KindDisruptionBudget}
	if p.Berth.PauseDuringRollout {
		kinds = append(kinds, events.KindReplicaSet, events.KindStatefulSet)
	}
	for i := range p.Profiles {
		e := &p.Profiles[i].Evictor
		if !e.NamespaceLabels.Empty() {
			kinds = append(kinds, events.KindNamespace)
		}
		if e.PriorityClass != "" {
			kinds = append(kinds, events.KindPriorityClass)
		}
		if e.Protect.PVC && len(e.StorageClasses) > 0 {
			kinds = append(kinds, events.KindVolumeClaim)
		}
		if slices.ContainsFunc(p.Profiles[i].Deschedule, seesNamespaceLabels) {
			kinds = append(kinds, events.KindNamespace)
		}
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// WantsMetrics reports whether a strategy uses the usage that metrics.k8s.io reports. Without one, facts of the
// kinds nodemetrics and podmetrics are ignored.
func (p *Policy) WantsMetrics() bool {
	return slices.ContainsFunc(p.Profiles, func(profile Profile) bool {
		return slices.ContainsFunc(profile.Balance, func(s Strategy) bool {
			args, ok := s.Args.(*LowUtilization)
			return ok && args.Source == KubernetesMetrics
		})
	})
}

// seesNamespaceLabels reports whether a strategy reads namespace labels: terms of inter-pod anti-affinity may
// select namespaces.
func seesNamespaceLabels(s Strategy) bool { return s.Name == PluginInterPodAntiAffinity }
