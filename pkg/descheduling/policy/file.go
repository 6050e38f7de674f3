package policy

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// document is the file as descheduler/v1alpha2 defines it. Pointers distinguish a field that is missing from one
// that is zero where upstream does. The types below it are named after upstream's JSON names.
type document struct {
	metav1.TypeMeta                  `json:",inline"`
	Profiles                         []profile         `json:"profiles"`
	NodeSelector                     *string           `json:"nodeSelector"`
	MaxNoOfPodsToEvictPerNode        *uint             `json:"maxNoOfPodsToEvictPerNode"`
	MaxNoOfPodsToEvictPerNamespace   *uint             `json:"maxNoOfPodsToEvictPerNamespace"`
	MaxNoOfPodsToEvictTotal          *uint             `json:"maxNoOfPodsToEvictTotal"`
	EvictionFailureEventNotification *bool             `json:"evictionFailureEventNotification"`
	MetricsCollector                 *metricsCollector `json:"metricsCollector"`
	MetricsProviders                 []metricsProvider `json:"metricsProviders"`
	GracePeriodSeconds               *int64            `json:"gracePeriodSeconds"`
	// Berth is not upstream's.
	Berth runtime.RawExtension `json:"berth"`
}

// metricsCollector is the older way to configure KubernetesMetrics.
type metricsCollector struct {
	Enabled bool `json:"enabled"`
}

// metricsProvider is one entry of metricsProviders; prometheus is set for that source only.
type metricsProvider struct {
	Source     MetricsSource `json:"source"`
	Prometheus *prometheus   `json:"prometheus"`
}

type prometheus struct {
	URL       string     `json:"url"`
	AuthToken *authToken `json:"authToken"`
}

type authToken struct {
	SecretReference *secretReference `json:"secretReference"`
}

type secretReference struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// profile is one entry of profiles. Names and arguments of plugins are not checked while decoding.
type profile struct {
	Name         string         `json:"name"`
	PluginConfig []pluginConfig `json:"pluginConfig"`
	Plugins      plugins        `json:"plugins"`
}

// pluginConfig holds the arguments of one plugin, which the plugin's reader decodes.
type pluginConfig struct {
	Name string               `json:"name"`
	Args runtime.RawExtension `json:"args"`
}

// plugins holds the sets of each extension point. presort and sort are parsed and ignored by upstream, too.
type plugins struct {
	PreSort           pluginSet `json:"presort"`
	Sort              pluginSet `json:"sort"`
	Deschedule        pluginSet `json:"deschedule"`
	Balance           pluginSet `json:"balance"`
	Filter            pluginSet `json:"filter"`
	PreEvictionFilter pluginSet `json:"preevictionfilter"`
}

// pluginSet names plugins. Disabled has no effect: plugins run only if they are enabled.
type pluginSet struct {
	Enabled  []string `json:"enabled"`
	Disabled []string `json:"disabled"`
}

// evictorArgs are those of DefaultEvictor.
type evictorArgs struct {
	metav1.TypeMeta        `json:",inline"`
	NodeSelector           string                `json:"nodeSelector"`
	LabelSelector          *metav1.LabelSelector `json:"labelSelector"`
	NamespaceLabelSelector *metav1.LabelSelector `json:"namespaceLabelSelector"`
	PriorityThreshold      *priorityThreshold    `json:"priorityThreshold"`
	NodeFit                *bool                 `json:"nodeFit"`
	MinReplicas            uint                  `json:"minReplicas"`
	MinPodAge              *metav1.Duration      `json:"minPodAge"`
	NoEvictionPolicy       string                `json:"noEvictionPolicy"`
	PodProtections         podProtections        `json:"podProtections"`
	evictorSwitches        `json:",inline"`
}

// evictorSwitches are the older form of PodProtections; the two must not be combined.
type evictorSwitches struct {
	EvictLocalStoragePods   bool `json:"evictLocalStoragePods"`
	EvictDaemonSetPods      bool `json:"evictDaemonSetPods"`
	EvictSystemCriticalPods bool `json:"evictSystemCriticalPods"`
	EvictFailedBarePods     bool `json:"evictFailedBarePods"`
	IgnorePvcPods           bool `json:"ignorePvcPods"`
	IgnorePodsWithoutPDB    bool `json:"ignorePodsWithoutPDB"`
}

// priorityThreshold is a priority or the name of a priority class, not both.
type priorityThreshold struct {
	Value *int32 `json:"value"`
	Name  string `json:"name"`
}

// podProtections lists protections to add to, and to remove from, those that are on by default.
type podProtections struct {
	ExtraEnabled    []string           `json:"extraEnabled"`
	DefaultDisabled []string           `json:"defaultDisabled"`
	Config          *protectionsConfig `json:"config"`
}

type protectionsConfig struct {
	PodsWithPVC *podsWithPVC `json:"PodsWithPVC"`
}

type podsWithPVC struct {
	ProtectedStorageClasses []storageClass `json:"protectedStorageClasses"`
}

type storageClass struct {
	Name string `json:"name"`
}

// podArgs are part of the arguments of most strategies.
type podArgs struct {
	metav1.TypeMeta `json:",inline"`
	Namespaces      *namespaces           `json:"namespaces"`
	LabelSelector   *metav1.LabelSelector `json:"labelSelector"`
}

// namespaces is an include or exclude list of names, and also of owner kinds in lifeTimeArgs.
type namespaces struct {
	Include []string `json:"include"`
	Exclude []string `json:"exclude"`
}

// taintsArgs are those of RemovePodsViolatingNodeTaints.
type taintsArgs struct {
	podArgs                 `json:",inline"`
	IncludePreferNoSchedule bool     `json:"includePreferNoSchedule"`
	ExcludedTaints          []string `json:"excludedTaints"`
	IncludedTaints          []string `json:"includedTaints"`
}

// nodeAffinityArgs are those of RemovePodsViolatingNodeAffinity.
type nodeAffinityArgs struct {
	podArgs          `json:",inline"`
	NodeAffinityType []string `json:"nodeAffinityType"`
}

// antiAffinityArgs are those of RemovePodsViolatingInterPodAntiAffinity.
type antiAffinityArgs struct {
	podArgs `json:",inline"`
}

// restartsArgs are those of RemovePodsHavingTooManyRestarts.
type restartsArgs struct {
	podArgs                 `json:",inline"`
	PodRestartThreshold     int32    `json:"podRestartThreshold"`
	IncludingInitContainers bool     `json:"includingInitContainers"`
	States                  []string `json:"states"`
}

// failedArgs are those of RemoveFailedPods.
type failedArgs struct {
	podArgs                 `json:",inline"`
	ExcludeOwnerKinds       []string `json:"excludeOwnerKinds"`
	MinPodLifetimeSeconds   *uint    `json:"minPodLifetimeSeconds"`
	Reasons                 []string `json:"reasons"`
	ExitCodes               []int32  `json:"exitCodes"`
	IncludingInitContainers bool     `json:"includingInitContainers"`
}

// lifeTimeArgs are those of PodLifeTime.
type lifeTimeArgs struct {
	podArgs                      `json:",inline"`
	OwnerKinds                   *namespaces       `json:"ownerKinds"`
	MaxPodLifeTimeSeconds        *uint             `json:"maxPodLifeTimeSeconds"`
	States                       []string          `json:"states"`
	Conditions                   []conditionFilter `json:"conditions"`
	ExitCodes                    []int32           `json:"exitCodes"`
	IncludingInitContainers      bool              `json:"includingInitContainers"`
	IncludingEphemeralContainers bool              `json:"includingEphemeralContainers"`
}

// conditionFilter describes a condition of a pod; an empty field matches any value.
type conditionFilter struct {
	Type                              string `json:"type"`
	Status                            string `json:"status"`
	Reason                            string `json:"reason"`
	MinTimeSinceLastTransitionSeconds *uint  `json:"minTimeSinceLastTransitionSeconds"`
}

// duplicatesArgs are those of RemoveDuplicates, which selects pods by namespace only.
type duplicatesArgs struct {
	metav1.TypeMeta   `json:",inline"`
	Namespaces        *namespaces `json:"namespaces"`
	ExcludeOwnerKinds []string    `json:"excludeOwnerKinds"`
}

// spreadArgs are those of RemovePodsViolatingTopologySpreadConstraint. topologyBalanceNodeFit is true unless set.
type spreadArgs struct {
	podArgs                `json:",inline"`
	Constraints            []corev1.UnsatisfiableConstraintAction `json:"constraints"`
	TopologyBalanceNodeFit *bool                                  `json:"topologyBalanceNodeFit"`
}

// lowUtilizationArgs are those of LowNodeUtilization. Thresholds are percentages by resource name.
type lowUtilizationArgs struct {
	metav1.TypeMeta        `json:",inline"`
	UseDeviationThresholds bool                `json:"useDeviationThresholds"`
	Thresholds             Thresholds          `json:"thresholds"`
	TargetThresholds       Thresholds          `json:"targetThresholds"`
	NumberOfNodes          int                 `json:"numberOfNodes"`
	MetricsUtilization     *metricsUtilization `json:"metricsUtilization"`
	EvictableNamespaces    *namespaces         `json:"evictableNamespaces"`
	EvictionLimits         *evictionLimits     `json:"evictionLimits"`
}

// metricsUtilization selects the source of utilisation; metricsServer is the older spelling of KubernetesMetrics.
type metricsUtilization struct {
	MetricsServer bool             `json:"metricsServer"`
	Source        MetricsSource    `json:"source"`
	Prometheus    *prometheusQuery `json:"prometheus"`
}

type prometheusQuery struct {
	Query string `json:"query"`
}

type evictionLimits struct {
	Node *uint `json:"node"`
}

// highUtilizationArgs are those of HighNodeUtilization.
type highUtilizationArgs struct {
	metav1.TypeMeta     `json:",inline"`
	Thresholds          Thresholds  `json:"thresholds"`
	NumberOfNodes       int         `json:"numberOfNodes"`
	EvictionModes       []string    `json:"evictionModes"`
	EvictableNamespaces *namespaces `json:"evictableNamespaces"`
}

const (
	apiVersion    = "descheduler/v1alpha2"
	apiVersionOld = "descheduler/v1alpha1"
	kind          = "DeschedulerPolicy"
)
