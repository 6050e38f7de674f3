package rule

import (
	"iter"
	"maps"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Objects gives access to the objects other than pods and nodes that rules look up: namespaces, services, the
// controllers that own pods, volumes, devices and the objects that provide them, and groups of pods with their members.
// It must not change during a call;
// a *state.Snapshot is one.
type Objects interface {
	// ObjectByName finds one object; namespace is empty for kinds without one.
	ObjectByName(k events.Kind, namespace, name string) (*state.Object, bool)
	// Objects yields all objects of a kind.
	Objects(k events.Kind) iter.Seq[*state.Object]
	// ObjectsIn yields the objects of a kind in a namespace.
	ObjectsIn(k events.Kind, namespace string) iter.Seq[*state.Object]
	// ObjectsOf yields the objects of a kind that are indexed under a key, by name; see state.Snapshot for which
	// kinds are indexed.
	ObjectsOf(k events.Kind, key string) iter.Seq[*state.Object]
	// PodsOfGroup yields the members of a pod group, in the order of their UIDs.
	PodsOfGroup(namespace, name string) iter.Seq[*state.Pod]
}

// NoObjects is used when no Objects is given.
type NoObjects struct{}

// ObjectByName implements Objects.
func (NoObjects) ObjectByName(events.Kind, string, string) (*state.Object, bool) { return nil, false }

// Objects implements Objects.
func (NoObjects) Objects(events.Kind) iter.Seq[*state.Object] {
	return func(func(*state.Object) bool) {}
}

// ObjectsIn implements Objects.
func (NoObjects) ObjectsIn(events.Kind, string) iter.Seq[*state.Object] {
	return func(func(*state.Object) bool) {}
}

// ObjectsOf implements Objects.
func (NoObjects) ObjectsOf(events.Kind, string) iter.Seq[*state.Object] {
	return func(func(*state.Object) bool) {}
}

// PodsOfGroup implements Objects.
func (NoObjects) PodsOfGroup(string, string) iter.Seq[*state.Pod] {
	return func(func(*state.Pod) bool) {}
}

// OrNone returns o, or an Objects without any object if o is nil.
func OrNone(o Objects) Objects {
	if o == nil {
		return NoObjects{}
	}
	return o
}

// NamespaceLabels returns the labels of a namespace, and whether it is known at all.
func NamespaceLabels(o Objects, name string) (map[string]string, bool) {
	namespace, ok := o.ObjectByName(events.KindNamespace, "", name)
	if !ok {
		return nil, false
	}
	return namespace.API.GetLabels(), true
}

// ObjectChange classifies one change of an object that is neither a pod nor a node. Changes of volumes, of devices
// and of the objects that provide them wake pods, and so do changes of namespace labels and disruption budgets that
// allow more. Upstream has no event for either of the last two; there a pod whose terms select namespaces waits for
// its next attempt.
func ObjectChange(c state.ObjectChange) Change {
	change := Change{Kind: c.Kind, OldObject: c.Before, NewObject: c.After}
	switch {
	case c.Kind == events.KindDisruptionBudget:
		change.Actions = budgetUpdate(c)
	case isSupply(c.Kind), c.Kind == events.KindPodGroup:
		change.Actions = supplyUpdate(c)
	case c.Kind != events.KindNamespace || c.After == nil:
	case c.Before == nil:
		change.Actions = Add
	case !maps.Equal(c.Before.API.GetLabels(), c.After.API.GetLabels()):
		change.Actions = UpdateNamespaceLabel
	}
	return change
}

// isSupply reports whether the kind is volumes, devices, claims to them, or an object that provides them.
func isSupply(k events.Kind) bool {
	_, ok := supplyNames[k]
	return ok
}

// supplyNames are upstream's names of these kinds in events.
var supplyNames = map[events.Kind]string{
	events.KindPersistentVolume: "PersistentVolume", events.KindVolumeClaim: "PersistentVolumeClaim",
	events.KindStorageClass: "storage.k8s.io/StorageClass", events.KindCSINode: "storage.k8s.io/CSINode",
	events.KindCSIDriver: "storage.k8s.io/CSIDriver", events.KindStorageCapacity: "storage.k8s.io/CSIStorageCapacity",
	events.KindVolumeAttachment: "storage.k8s.io/VolumeAttachment",
	events.KindResourceClaim:    "resource.k8s.io/ResourceClaim",
	events.KindResourceSlice:    "resource.k8s.io/ResourceSlice",
	events.KindDeviceClass:      "resource.k8s.io/DeviceClass",
	events.KindDeviceTaintRule:  "resource.k8s.io/DeviceTaintRule",
}

// groupEvents is upstream's name of pod groups in events.
const groupEvents = "scheduling.k8s.io/PodGroup"

// supplyUpdate classifies a change of storage or devices. Rules compare the objects themselves in their hints.
func supplyUpdate(c state.ObjectChange) Action {
	switch {
	case c.Before == nil:
		return Add
	case c.After == nil:
		return Delete
	default:
		return UpdateOther
	}
}

// Service returns the object as a service, if it is one with a selector. (A service without a selector selects
// nothing, not everything.)
func Service(o *state.Object) (*corev1.Service, bool) {
	s, ok := o.API.(*corev1.Service)
	return s, ok && s.Spec.Selector != nil
}

// budgetUpdate classifies a change of a disruption budget: whether it may allow evictions that were not allowed
// before.
func budgetUpdate(c state.ObjectChange) Action {
	switch {
	case c.Before == nil:
		return 0 // another budget can only protect more pods
	case c.After == nil:
		return Delete
	}
	before, knewBefore := c.Before.API.(*policyv1.PodDisruptionBudget)
	after, knows := c.After.API.(*policyv1.PodDisruptionBudget)
	switch {
	case !knewBefore || !knows,
		state.DisruptionsAllowed(after) > state.DisruptionsAllowed(before),
		state.SparesUnready(after) && !state.SparesUnready(before),
		!equality.Semantic.DeepEqual(before.Spec.Selector, after.Spec.Selector):
		return UpdateBudget
	}
	return 0
}

// Find looks up an object and returns it as its API type.
func Find[T state.APIObject](o Objects, k events.Kind, namespace, name string) (obj T, ok bool) {
	found, ok := o.ObjectByName(k, namespace, name)
	if !ok {
		return obj, false
	}
	obj, ok = found.API.(T)
	return obj, ok
}
