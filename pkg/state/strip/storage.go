package strip

import (
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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
	case *resourcev1beta2.DeviceTaintRule:
		obj.SetAnnotations(nil)
		o.Status = resourcev1beta2.DeviceTaintRuleStatus{}
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
