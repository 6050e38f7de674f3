package gates

import (
	"cmp"
	"slices"
)

// Treatment is how Berth treats a feature. The set is closed.
type Treatment int

const (
	// Followed means that Berth does what kube-scheduler does with the feature on, for every object that uses it.
	Followed Treatment = iota
	// OtherMeans means that Berth reaches the purpose of the feature by other means, whether or not it is on.
	OtherMeans
	// Refused means that a pod that needs the feature stays pending, with a condition that names it.
	Refused
	// Ignored means that Berth places pods as if the feature were off.
	Ignored
)

// String returns the word for a treatment in tables.
func (t Treatment) String() string {
	switch t {
	case Followed:
		return "followed"
	case OtherMeans:
		return "by other means"
	case Refused:
		return "refused"
	default:
		return "not followed"
	}
}

// Gate is one feature gate of Kubernetes.
type Gate struct {
	// Name is upstream's name of the gate.
	Name      string
	Treatment Treatment
	// Note describes the means for OtherMeans, and the effect for Refused and Ignored, as a sentence without a
	// full stop. It is empty for Followed, where the name is enough.
	Note string
}

// The reasons that several gates share.
const (
	ownPages = "the gate is about pages of each component's own; Berth's do not depend on it"
)

// followed are the gates whose fields every rule reads wherever an object has them.
var followed = []string{
	"DRAAdminAccess",
	"DRAConsumableCapacity",
	"DRADeviceBindingConditions",
	"DRADeviceTaintRules",
	"DRADeviceTaints",
	"DRAExtendedResource",
	"DRAListTypeAttributes",
	"DRAPartitionableDevices",
	"DRAPrioritizedList",
	"DRAResourceClaimDeviceStatus",
	"DRAResourceClaimGranularStatusAuthorization",
	"DynamicResourceAllocation",
	"GangScheduling",
	"GenericWorkload",
	"InPlacePodLevelResourcesVerticalScaling",
	"InPlacePodVerticalScaling",
	"MatchLabelKeysInPodAffinity",
	"MatchLabelKeysInPodTopologySpread",
	"MatchLabelKeysInPodTopologySpreadSelectorMerge",
	"MutableCSINodeAllocatableCount",
	"MutablePVNodeAffinity",
	"NodeDeclaredFeatures",
	"NodeInclusionPolicyInPodTopologySpread",
	"NominatedNodeNameForExpectation",
	"PodLevelResources",
	"PodSchedulingReadiness",
	"SchedulerPopFromBackoffQ",
	"SchedulerQueueingHints",
	"SidecarContainers",
	"TaintTolerationComparisonOperators",
	"TopologyAwareWorkloadScheduling",
	"VolumeAttributesClass",
	"VolumeLimitScaling",
	"WorkloadWithJob",
}

// others are the gates with a note.
var others = []Gate{
	{"ComponentFlagz", OtherMeans, ownPages},
	{"ComponentStatusz", OtherMeans, ownPages},
	{"CoordinatedLeaderElection", OtherMeans, "shards do not elect a leader; queue and descheduler elect theirs in etcd"},
	{"DRASchedulerFilterTimeout", OtherMeans, "the search for devices ends after a number of steps instead of a time"},
	{"OpportunisticBatching", OtherMeans, "pods that are alike share the evaluation of nodes"},
	{"SchedulerAsyncAPICalls", OtherMeans, "binders write to the API server; no decision waits for them"},
	{"SchedulerAsyncPreemption", OtherMeans, "binders evict; no decision waits for them"},
	{"DRANodeAllocatableResources", Refused, "pods whose claims would take cpu, memory or other resources of the " +
		"node by nodeAllocatableResourceMappings of a device stay pending: Berth does not count those resources"},
	{"DRAWorkloadResourceClaims", Ignored, "claims are reserved for pods and not for their PodGroup, and a claim that " +
		"is made from a template of the PodGroup is not found"},
	{"WorkloadAwarePreemption", Ignored, "no pod is evicted for a gang, and a gang's members are evicted one by one"},
	{"StorageCapacityScoring", Ignored, "nodes are not scored by their storage capacity; which nodes are feasible is " +
		"the same"},
}

// All returns all gates, by name.
func All() []Gate {
	list := slices.Clone(others)
	for _, name := range followed {
		list = append(list, Gate{Name: name, Treatment: Followed})
	}
	slices.SortFunc(list, func(a, b Gate) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// Unfollowed returns, by name, the gates among names that Berth refuses or ignores. Names that are in no list are
// left out: most features of Kubernetes do not concern scheduling.
func Unfollowed(names []string) []Gate {
	var list []Gate
	for _, g := range others {
		if (g.Treatment == Refused || g.Treatment == Ignored) && slices.Contains(names, g.Name) {
			list = append(list, g)
		}
	}
	slices.SortFunc(list, func(a, b Gate) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// These are the gates that are not beta in Kubernetes 1.36. Source: pkg/features/kube_features.go.
var (
	alpha = []string{
		"DRAListTypeAttributes",
		"DRANodeAllocatableResources",
		"DRAWorkloadResourceClaims",
		"GangScheduling",
		"GenericWorkload",
		"MutablePVNodeAffinity",
		"StorageCapacityScoring",
		"TaintTolerationComparisonOperators",
		"TopologyAwareWorkloadScheduling",
		"VolumeLimitScaling",
		"WorkloadAwarePreemption",
		"WorkloadWithJob",
	}
	stable = []string{
		"DRAAdminAccess",
		"DRAPrioritizedList",
		"DynamicResourceAllocation",
		"InPlacePodVerticalScaling",
		"MatchLabelKeysInPodAffinity",
		"MutableCSINodeAllocatableCount",
		"NodeInclusionPolicyInPodTopologySpread",
		"PodSchedulingReadiness",
		"SchedulerQueueingHints",
		"SidecarContainers",
		"VolumeAttributesClass",
	}
)

// Stage returns the gate's stage in Kubernetes 1.36, in the words of upstream's metric kubernetes_feature_enabled:
// ALPHA, BETA, or empty for a stable feature.
func (g Gate) Stage() string {
	switch {
	case slices.Contains(alpha, g.Name):
		return "ALPHA"
	case slices.Contains(stable, g.Name):
		return ""
	default:
		return "BETA"
	}
}

// Evaluated reports whether Berth does what the feature is for, wherever objects use it.
func (g Gate) Evaluated() bool { return g.Treatment == Followed || g.Treatment == OtherMeans }

// String describes the gate and its effect in one line, for logs and warnings.
func (g Gate) String() string {
	text := "feature gate " + g.Name + " is " + g.Treatment.String()
	if g.Note != "" {
		text += ": " + g.Note
	}
	return text
}
