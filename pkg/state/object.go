package state

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/berth-scheduler/berth/pkg/events"
)

// APIObject is the common interface of all Kubernetes objects in facts: it names the object and converts it from
// and to its own protobuf.
type APIObject interface {
	metav1.Object
	Marshal() ([]byte, error)
	Unmarshal(data []byte) error
}

// Marshalled returns the protobuf of an API object or of a part of one. Its maps are sorted, so that equal values
// have equal bytes. The values passed here cannot fail to marshal.
func Marshalled(v interface{ Marshal() ([]byte, error) }) []byte {
	data, err := v.Marshal()
	if err != nil {
		impossible("marshal", err)
	}
	return data
}

// Object is one object of a kind for which this package derives no values. It is immutable and shared.
type Object struct {
	Kind                 events.Kind
	UID, Namespace, Name string
	// ResourceVersion is the greater of the fact's and the object's own.
	ResourceVersion uint64
	// API is the stripped object, of the Go type that belongs to Kind. Readers must not change it.
	API APIObject
}

// newObject keeps obj; its resourceVersion is the greater of rv and the object's.
func newObject(k events.Kind, obj APIObject, rv uint64) *Object {
	return &Object{
		Kind:            k,
		UID:             string(obj.GetUID()),
		Namespace:       obj.GetNamespace(),
		Name:            obj.GetName(),
		ResourceVersion: max(parseResourceVersion(obj.GetResourceVersion()), rv),
		API:             obj,
	}
}

// kinds is the closed set, in the order in which Describe and snapshots list them; the index of a kind is its
// position in Position.
var kinds = [...]events.Kind{
	events.KindPod,
	events.KindNode,
	events.KindNamespace,
	events.KindPriorityClass,
	events.KindDisruptionBudget,
	events.KindPersistentVolume,
	events.KindVolumeClaim,
	events.KindService,
	events.KindReplicaSet,
	events.KindStatefulSet,
	events.KindReplicationController,
	events.KindNodeMetrics,
	events.KindPodMetrics,
	events.KindStorageClass,
	events.KindCSINode,
	events.KindCSIDriver,
	events.KindStorageCapacity,
	events.KindVolumeAttachment,
	events.KindResourceClaim,
	events.KindResourceSlice,
	events.KindDeviceClass,
	events.KindDeviceTaintRule,
	events.KindPodGroup,
}

// Kinds lists the kinds a Store holds.
func Kinds() []events.Kind { return slices.Clone(kinds[:]) }

// kindIndex returns the position of a kind in kinds, by which Position stores progress.
func kindIndex(k events.Kind) (int, error) {
	i := slices.Index(kinds[:], k)
	if i < 0 {
		return 0, fmt.Errorf("state: kind %q is unknown, want one of %v", k, kinds)
	}
	return i, nil
}

// newAPIObject returns an empty object of the kind's Go type; an error for a kind that this version does not know.
func newAPIObject(k events.Kind) (APIObject, error) {
	switch k {
	case events.KindPod:
		return &corev1.Pod{}, nil
	case events.KindNode:
		return &corev1.Node{}, nil
	case events.KindNamespace:
		return &corev1.Namespace{}, nil
	case events.KindPriorityClass:
		return &schedulingv1.PriorityClass{}, nil
	case events.KindDisruptionBudget:
		return &policyv1.PodDisruptionBudget{}, nil
	case events.KindPersistentVolume:
		return &corev1.PersistentVolume{}, nil
	case events.KindVolumeClaim:
		return &corev1.PersistentVolumeClaim{}, nil
	case events.KindService:
		return &corev1.Service{}, nil
	case events.KindReplicaSet:
		return &appsv1.ReplicaSet{}, nil
	case events.KindStatefulSet:
		return &appsv1.StatefulSet{}, nil
	case events.KindReplicationController:
		return &corev1.ReplicationController{}, nil
	case events.KindNodeMetrics:
		return &metricsv1beta1.NodeMetrics{}, nil
	case events.KindPodMetrics:
		return &metricsv1beta1.PodMetrics{}, nil
	case events.KindStorageClass:
		return &storagev1.StorageClass{}, nil
	case events.KindCSINode:
		return &storagev1.CSINode{}, nil
	case events.KindCSIDriver:
		return &storagev1.CSIDriver{}, nil
	case events.KindStorageCapacity:
		return &storagev1.CSIStorageCapacity{}, nil
	case events.KindVolumeAttachment:
		return &storagev1.VolumeAttachment{}, nil
	case events.KindResourceClaim:
		return &resourcev1.ResourceClaim{}, nil
	case events.KindResourceSlice:
		return &resourcev1.ResourceSlice{}, nil
	case events.KindDeviceClass:
		return &resourcev1.DeviceClass{}, nil
	case events.KindDeviceTaintRule:
		return &resourcev1beta2.DeviceTaintRule{}, nil
	case events.KindPodGroup:
		return &schedulingv1alpha2.PodGroup{}, nil
	default:
		_, err := kindIndex(k)
		return nil, err
	}
}

// decodeObject decodes the protobuf of a fact and checks that it is the object that the fact is about.
func decodeObject(f events.Fact) (APIObject, error) {
	obj, err := newAPIObject(f.Kind)
	if err != nil {
		return nil, err
	}
	if err := obj.Unmarshal(f.Object); err != nil {
		return nil, decodeError(f, err)
	}
	return obj, checkIdentity(f, string(obj.GetUID()), obj.GetNamespace(), obj.GetName())
}

// FactError explains why a fact cannot be read.
type FactError struct{ Err error }

func (e *FactError) Error() string { return e.Err.Error() }

// Unwrap returns the decoder's error.
func (e *FactError) Unwrap() error { return e.Err }

// decodeError wraps the decoder's error as a FactError: the fact is a hole.
func decodeError(f events.Fact, err error) error {
	return &FactError{fmt.Errorf("state: %s %s: object: %w", f.Kind, f.UID, err)}
}

// namespaced are the kinds whose objects have a namespace.
var namespaced = map[events.Kind]bool{
	events.KindPod: true, events.KindDisruptionBudget: true, events.KindVolumeClaim: true, events.KindService: true,
	events.KindReplicaSet: true, events.KindStatefulSet: true, events.KindReplicationController: true,
	events.KindPodMetrics: true, events.KindStorageCapacity: true, events.KindResourceClaim: true,
	events.KindPodGroup: true,
}

// checkIdentity checks that a payload is the object that its fact is about: the metadata of all kinds have the same
// form, so the payload of one kind may decode as another.
func checkIdentity(f events.Fact, uid, namespace, name string) error {
	differ := func(field, fact, object string) error {
		return &FactError{fmt.Errorf("state: %s: %s is %q in the fact and %q in its object, want equal and not empty",
			f.Kind, field, fact, object)}
	}
	switch {
	case uid != f.UID || uid == "":
		return differ("uid", f.UID, uid)
	case name != f.Name && f.Name != "" || name == "":
		return differ("name", f.Name, name)
	case namespace != f.Namespace && f.Namespace != "":
		return differ("namespace", f.Namespace, namespace)
	case namespaced[f.Kind] != (namespace != ""):
		return &FactError{fmt.Errorf("state: %s %s: its namespace is %q, and objects of this kind have one: %t",
			f.Kind, f.UID, namespace, namespaced[f.Kind])}
	}
	return nil
}
