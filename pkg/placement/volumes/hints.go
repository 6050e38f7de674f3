package volumes

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Events implements Plugin. Nearly every object of storage can be the missing one: a claim, its volume, its
// class, the driver that limits it or the capacity that it publishes.
func (binding) Events() []rule.Event {
	return []rule.Event{
		{Kind: events.KindStorageClass, Actions: rule.Add | rule.Update},
		{Kind: events.KindVolumeClaim, Actions: rule.Add | rule.Update},
		{Kind: events.KindPersistentVolume, Actions: rule.Add | rule.Update},
		{Kind: events.KindNode, Actions: rule.Add | rule.UpdateNodeLabel},
		{Kind: events.KindCSINode, Actions: rule.Add | rule.Update}, {Kind: events.KindCSIDriver, Actions: rule.Update},
		{Kind: events.KindStorageCapacity, Actions: rule.Add | rule.Update},
	}
}

// Hint implements Plugin. A claim helps only the pods that use it; the other objects may concern any pod with
// claims, so that only changes without effect are left out. Source: volumebinding/volume_binding.go
// isSchedulableAfter...
func (binding) Hint(pod *state.Pod, c rule.Change) bool {
	if c.Kind == events.KindNode || c.Kind == events.KindPersistentVolume {
		return true
	}
	if c.Kind == events.KindVolumeClaim {
		return usesClaim(pod, c.NewObject.Namespace, c.NewObject.Name)
	}
	if c.OldObject == nil {
		return true
	}
	switch now := c.NewObject.API.(type) {
	case *storagev1.StorageClass:
		old, ok := c.OldObject.API.(*storagev1.StorageClass)
		return !ok || !equality.Semantic.DeepEqual(old.AllowedTopologies, now.AllowedTopologies)
	case *storagev1.CSINode:
		key := corev1.MigratedPluginsAnnotationKey
		return c.OldObject.API.GetAnnotations()[key] != now.Annotations[key]
	case *storagev1.CSIDriver:
		old, ok := c.OldObject.API.(*storagev1.CSIDriver)
		return !ok || unlimited(old, now) && mountsInline(pod, now.Name)
	case *storagev1.CSIStorageCapacity:
		old, ok := c.OldObject.API.(*storagev1.CSIStorageCapacity)
		return !ok || poolGrew(old, now)
	}
	return true
}

// unlimited reports that the driver no longer publishes its capacity, so that capacity is no longer checked.
func unlimited(old, now *storagev1.CSIDriver) bool {
	return ptr.Deref(old.Spec.StorageCapacity, false) && !ptr.Deref(now.Spec.StorageCapacity, false)
}

// mountsInline reports whether the pod has an inline volume of a driver.
func mountsInline(pod *state.Pod, driver string) bool {
	for i := range pod.Template.Spec.Volumes {
		if csi := pod.Template.Spec.Volumes[i].CSI; csi != nil && csi.Driver == driver {
			return true
		}
	}
	return false
}

// poolGrew reports whether a pool can have a larger volume than before.
func poolGrew(old, now *storagev1.CSIStorageCapacity) bool {
	was, is := mostOf(old), mostOf(now)
	return is != nil && (was == nil || is.Value() > was.Value())
}
