package state

import (
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// VolumeClass returns the storage class of a volume; empty if it has none. The annotation of old API versions takes
// precedence, as everywhere in Kubernetes.
func VolumeClass(v *corev1.PersistentVolume) string {
	if class, ok := v.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		return class
	}
	return v.Spec.StorageClassName
}

// ClaimClass returns the storage class that a claim requests; empty if it requests none.
func ClaimClass(c *corev1.PersistentVolumeClaim) string {
	if class, ok := c.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		return class
	}
	if c.Spec.StorageClassName == nil {
		return ""
	}
	return *c.Spec.StorageClassName
}

// FileOf returns the key under which an object is filed, see Snapshot.ObjectsOf; false for an object that is not
// filed. It is a function of the object alone: the index must give the same key when a row is deleted.
func FileOf(o APIObject) (key string, filed bool) {
	switch obj := o.(type) {
	case *corev1.PersistentVolume:
		return VolumeClass(obj), true
	case *storagev1.CSIStorageCapacity:
		return obj.StorageClassName, true
	case *storagev1.VolumeAttachment:
		return obj.Spec.NodeName, true
	case *resourcev1.ResourceClaim:
		return "", obj.Status.Allocation != nil
	}
	return "", false
}
