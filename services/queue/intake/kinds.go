package intake

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-scheduler/berth/pkg/events"
)

// watched is one kind to list and watch: its name in facts, its resource in the API, an empty object of its type for
// the reflector, and the client of its group.
type watched struct {
	kind     events.Kind
	resource string
	example  runtime.Object
	group    func(kubernetes.Interface) cache.Getter
}

// kinds are the kinds that the queue watches on every API server. A new kind must be added here and in pkg/state, and
// the queue's role must allow to list and watch it. A kind costs one watch and one list at each begin of a round;
// kinds that no rule reads are left out.
var kinds = []watched{
	{events.KindPod, "pods", &corev1.Pod{}, coreGroup},
	{events.KindNode, "nodes", &corev1.Node{}, coreGroup},
	{events.KindNamespace, "namespaces", &corev1.Namespace{}, coreGroup},
	{events.KindPriorityClass, "priorityclasses", &schedulingv1.PriorityClass{}, schedulingGroup},
	{events.KindDisruptionBudget, "poddisruptionbudgets", &policyv1.PodDisruptionBudget{}, policyGroup},
	{events.KindService, "services", &corev1.Service{}, coreGroup},
	{events.KindReplicationController, "replicationcontrollers", &corev1.ReplicationController{}, coreGroup},
	{events.KindReplicaSet, "replicasets", &appsv1.ReplicaSet{}, appsGroup},
	{events.KindStatefulSet, "statefulsets", &appsv1.StatefulSet{}, appsGroup},
	{events.KindPersistentVolume, "persistentvolumes", &corev1.PersistentVolume{}, coreGroup},
	{events.KindVolumeClaim, "persistentvolumeclaims", &corev1.PersistentVolumeClaim{}, coreGroup},
}

// These are groups that an API server may serve in part or not at all.
const (
	storageVersion = "storage.k8s.io/v1"
	deviceVersion  = "resource.k8s.io/v1"
	// taintRuleVersion has rules that taint devices, if the API server has the feature on (DRADeviceTaintRules).
	taintRuleVersion = "resource.k8s.io/v1beta2"
)

// taintRules is the resource of rules that taint devices.
const taintRules = "devicetaintrules"

// groupVersion has groups of pods, if the API server has the feature on (GenericWorkload).
const groupVersion = "scheduling.k8s.io/v1alpha2"

// These are versions that show a feature, and that are not read: groups of pods in 1.35, and earlier rules for devices.
const (
	oldGroupVersion     = "scheduling.k8s.io/v1alpha1"
	oldTaintRuleVersion = "resource.k8s.io/v1alpha3"
)

// groups is the resource that both versions of groups of pods have.
const groups = "workloads"

// storageKinds are the kinds of the group for volumes. A kind that is not served is not watched.
var storageKinds = []watched{
	{events.KindStorageClass, "storageclasses", &storagev1.StorageClass{}, storageGroup},
	{events.KindCSINode, "csinodes", &storagev1.CSINode{}, storageGroup},
	{events.KindCSIDriver, "csidrivers", &storagev1.CSIDriver{}, storageGroup},
	{events.KindStorageCapacity, "csistoragecapacities", &storagev1.CSIStorageCapacity{}, storageGroup},
	{events.KindVolumeAttachment, "volumeattachments", &storagev1.VolumeAttachment{}, storageGroup},
}

// deviceKinds are the kinds of the group for devices. A kind that is not served is not watched.
var deviceKinds = []watched{
	{events.KindResourceClaim, "resourceclaims", &resourcev1.ResourceClaim{}, resourceGroup},
	{events.KindResourceSlice, "resourceslices", &resourcev1.ResourceSlice{}, resourceGroup},
	{events.KindDeviceClass, "deviceclasses", &resourcev1.DeviceClass{}, resourceGroup},
}

// taintRuleKinds are the kinds of the group for devices that few API servers serve. It is no news if they are not.
var taintRuleKinds = []watched{
	{events.KindDeviceTaintRule, taintRules, &resourcev1beta2.DeviceTaintRule{}, taintRuleGroup},
}

// groupKinds are the kinds of the group for groups of pods that few API servers serve. It is no news if they are not.
var groupKinds = []watched{
	{events.KindPodGroup, "podgroups", &schedulingv1alpha2.PodGroup{}, podGroupGroup},
}

// These return the clients of the groups.

func coreGroup(c kubernetes.Interface) cache.Getter       { return c.CoreV1().RESTClient() }
func schedulingGroup(c kubernetes.Interface) cache.Getter { return c.SchedulingV1().RESTClient() }
func appsGroup(c kubernetes.Interface) cache.Getter       { return c.AppsV1().RESTClient() }
func policyGroup(c kubernetes.Interface) cache.Getter     { return c.PolicyV1().RESTClient() }
func storageGroup(c kubernetes.Interface) cache.Getter    { return c.StorageV1().RESTClient() }
func resourceGroup(c kubernetes.Interface) cache.Getter   { return c.ResourceV1().RESTClient() }
func taintRuleGroup(c kubernetes.Interface) cache.Getter  { return c.ResourceV1beta2().RESTClient() }
func podGroupGroup(c kubernetes.Interface) cache.Getter   { return c.SchedulingV1alpha2().RESTClient() }

// listWatch lists and watches all objects of the kind, for a store.
func (w watched) listWatch(client kubernetes.Interface, store *kindStore) cache.ListerWatcher {
	all := cache.NewFilteredListWatchFromClient(w.group(client), w.resource, metav1.NamespaceAll, consistent)
	r := &resumption{list: all.ListWithContextFunc, watch: all.WatchFuncWithContext, store: store}
	return &cache.ListWatch{ListWithContextFunc: r.list, WatchFuncWithContext: r.begin}
}

// consistent makes every list a consistent read, streamed or not. A reflector starts with resourceVersion "0", which
// accepts any state in the cache of an API server, and continues with any state that is not older than the list
// before. Another API server may have reported more in the meantime. Facts must never run backwards, and an older
// object is how the queue detects that Kubernetes was restored from a backup.
func consistent(options *metav1.ListOptions) {
	if !options.Watch || options.SendInitialEvents != nil {
		options.ResourceVersion = ""
	}
}
