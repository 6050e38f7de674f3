package state

import (
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
// filed.
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

// stripStorage keeps, of volumes and of the objects that provide them, what shows where they can be used, by which
// pods, and how many of them a node can have.
func stripStorage(obj metav1.Object) {
	switch o := obj.(type) {
	case *corev1.PersistentVolume:
		obj.SetAnnotations(storageAnnotations(o.Annotations))
		o.Spec.MountOptions = nil
		if csi := o.Spec.CSI; csi != nil {
			o.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: csi.Driver, VolumeHandle: csi.VolumeHandle}
		}
		o.Status = corev1.PersistentVolumeStatus{Phase: o.Status.Phase}
	case *corev1.PersistentVolumeClaim:
		obj.SetAnnotations(storageAnnotations(o.Annotations))
		o.Spec.DataSource, o.Spec.DataSourceRef = nil, nil
		o.Status = corev1.PersistentVolumeClaimStatus{Phase: o.Status.Phase}
	case *storagev1.StorageClass:
		o.Parameters, o.MountOptions = nil, nil
	case *storagev1.CSINode:
		for i := range o.Spec.Drivers {
			d := &o.Spec.Drivers[i]
			d.NodeID, d.TopologyKeys = "", nil
		}
	case *storagev1.CSIDriver:
		o.Spec = storagev1.CSIDriverSpec{
			StorageCapacity: o.Spec.StorageCapacity, PreventPodSchedulingIfMissing: o.Spec.PreventPodSchedulingIfMissing,
		}
	case *storagev1.VolumeAttachment:
		o.Spec.Source.InlineVolumeSpec = nil
		o.Status = storagev1.VolumeAttachmentStatus{}
	default:
		stripDevices(obj)
	}
}

// stripDevices keeps, of claims to devices and of devices, what shows which device can be allocated to which pod,
// and whether it is ready. The further data that drivers report about a device can be large.
func stripDevices(obj metav1.Object) {
	switch o := obj.(type) {
	case *resourcev1.ResourceClaim:
		obj.SetAnnotations(nil)
		for i := range o.Status.Devices {
			o.Status.Devices[i].Data, o.Status.Devices[i].NetworkData = nil, nil
		}
	case *resourcev1.ResourceSlice, *resourcev1.DeviceClass:
		obj.SetAnnotations(nil)
	}
}

// storageAnnotations returns those with a meaning for Kubernetes: pv.kubernetes.io/..., volume.kubernetes.io/...
// and their beta forms. Users' own annotations can be large.
func storageAnnotations(all map[string]string) map[string]string {
	maps.DeleteFunc(all, func(name, _ string) bool {
		domain, _, _ := strings.Cut(name, "/")
		return domain != "pv.kubernetes.io" && domain != "volume.kubernetes.io" && domain != "volume.beta.kubernetes.io"
	})
	if len(all) == 0 {
		return nil
	}
	return all
}
