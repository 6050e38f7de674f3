package policy

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// document is the file as descheduler/v1alpha2 defines it.
type document struct {
	metav1.TypeMeta                  `json:",inline"`
	Profiles                         []profile         `json:"profiles"`
	NodeSelector                     string            `json:"nodeSelector"`
	MaxNoOfPodsToEvictPerNode        *uint             `json:"maxNoOfPodsToEvictPerNode"`
	MaxNoOfPodsToEvictPerNamespace   *uint             `json:"maxNoOfPodsToEvictPerNamespace"`
	MaxNoOfPodsToEvictTotal          *uint             `json:"maxNoOfPodsToEvictTotal"`
	EvictionFailureEventNotification bool              `json:"evictionFailureEventNotification"`
	MetricsCollector                 *metricsCollector `json:"metricsCollector"`
	MetricsProviders                 []metricsProvider `json:"metricsProviders"`
	GracePeriodSeconds               *int64            `json:"gracePeriodSeconds"`
}

type metricsCollector struct {
	Enabled bool `json:"enabled"`
}

type metricsProvider struct {
	Source     string      `json:"source"`
	Prometheus *prometheus `json:"prometheus"`
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

type profile struct {
	Name         string         `json:"name"`
	PluginConfig []pluginConfig `json:"pluginConfig"`
	Plugins      plugins        `json:"plugins"`
}

type pluginConfig struct {
	Name string               `json:"name"`
	Args runtime.RawExtension `json:"args"`
}

type plugins struct {
	PreSort           pluginSet `json:"presort"`
	Sort              pluginSet `json:"sort"`
	Deschedule        pluginSet `json:"deschedule"`
	Balance           pluginSet `json:"balance"`
	Filter            pluginSet `json:"filter"`
	PreEvictionFilter pluginSet `json:"preevictionfilter"`
}

type pluginSet struct {
	Enabled  []string `json:"enabled"`
	Disabled []string `json:"disabled"`
}

// evictorArgs are DefaultEvictor's.
type evictorArgs struct {
	metav1.TypeMeta        `json:",inline"`
	NodeSelector           string                `json:"nodeSelector"`
	LabelSelector          *metav1.LabelSelector `json:"labelSelector"`
	NamespaceLabelSelector *metav1.LabelSelector `json:"namespaceLabelSelector"`
	PriorityThreshold      *priorityThreshold    `json:"priorityThreshold"`
	NodeFit                bool                  `json:"nodeFit"`
	MinReplicas            uint                  `json:"minReplicas"`
	MinPodAge              *metav1.Duration      `json:"minPodAge"`
	NoEvictionPolicy       string                `json:"noEvictionPolicy"`
	PodProtections         podProtections        `json:"podProtections"`
	evictorSwitches        `json:",inline"`
}

// evictorSwitches are the older way to say what PodProtections says.
type evictorSwitches struct {
	EvictLocalStoragePods   bool `json:"evictLocalStoragePods"`
	EvictDaemonSetPods      bool `json:"evictDaemonSetPods"`
	EvictSystemCriticalPods bool `json:"evictSystemCriticalPods"`
	EvictFailedBarePods     bool `json:"evictFailedBarePods"`
	IgnorePvcPods           bool `json:"ignorePvcPods"`
	IgnorePodsWithoutPDB    bool `json:"ignorePodsWithoutPDB"`
}

type priorityThreshold struct {
	Value *int32 `json:"value"`
	Name  string `json:"name"`
}

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

// taintsArgs are RemovePodsViolatingNodeTaints's.
type taintsArgs struct {
	metav1.TypeMeta         `json:",inline"`
	Namespaces              *namespaces           `json:"namespaces"`
	LabelSelector           *metav1.LabelSelector `json:"labelSelector"`
	IncludePreferNoSchedule bool                  `json:"includePreferNoSchedule"`
	ExcludedTaints          []string              `json:"excludedTaints"`
	IncludedTaints          []string              `json:"includedTaints"`
}

type namespaces struct {
	Include []string `json:"include"`
	Exclude []string `json:"exclude"`
}
