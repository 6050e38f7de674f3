package volumes

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	csitranslation "k8s.io/csi-translation-lib"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// claimUse is a volume of a pod that is provided by a claim. Other volumes (config maps, host paths, CSI
// ephemeral volumes) matter to no rule here, except inline disks.
type claimUse struct {
	Name string
	// Ephemeral means that the claim is created for this pod alone, and that its name contains the pod's name.
	Ephemeral bool
}

// ClaimsOf returns the claims of a pod, in the order of its volumes. The claim of an ephemeral volume is named
// after the pod and the volume. Source: component-helpers/storage/ephemeral VolumeClaimName.
func ClaimsOf(pod *state.Pod) []claimUse {
	if pod.Template == nil {
		return nil
	}
	var list []claimUse
	for i := range pod.Template.Spec.Volumes {
		switch v := &pod.Template.Spec.Volumes[i]; {
		case v.PersistentVolumeClaim != nil:
			list = append(list, claimUse{Name: v.PersistentVolumeClaim.ClaimName})
		case v.Ephemeral != nil:
			list = append(list, claimUse{Name: pod.Name + "-" + v.Name, Ephemeral: true})
		}
	}
	return list
}

// namesClaim reports whether a pod uses a claim that it names explicitly and that other pods may name too.
func namesClaim(pod *state.Pod, namespace, name string) bool {
	return pod.Namespace == namespace && slices.Contains(ClaimsOf(pod), claimUse{Name: name})
}

// usesClaim reports whether a pod uses a claim, whether or not the claim was created for it.
func usesClaim(pod *state.Pod, namespace, name string) bool {
	return pod.Namespace == namespace &&
		slices.ContainsFunc(ClaimsOf(pod), func(u claimUse) bool { return u.Name == name })
}

// Needed reports whether the pod has volumes that rules evaluate. Most pods have none, and the engine decides
// only about these from kept results.
func Needed(spec *corev1.PodSpec) bool {
	return slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool { return claimsVolume(&v) || IsDisk(&v) })
}

// HasEphemeral reports whether a claim's name contains the pod's own name, so that the pod shares its claims with
// no other.
func HasEphemeral(spec *corev1.PodSpec) bool {
	return slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Ephemeral != nil })
}

// claimsVolume reports whether a volume is provided by a claim.
func claimsVolume(v *corev1.Volume) bool { return v.PersistentVolumeClaim != nil || v.Ephemeral != nil }

// IsDisk reports an inline volume that only one node, or only a limited number per node, may use: the in-tree
// volume types that VolumeRestrictions or NodeVolumeLimits read.
func IsDisk(v *corev1.Volume) bool {
	return v.GCEPersistentDisk != nil || v.AWSElasticBlockStore != nil || v.RBD != nil || v.ISCSI != nil ||
		v.AzureDisk != nil || v.AzureFile != nil || v.Cinder != nil || v.VsphereVolume != nil ||
		v.PortworxVolume != nil
}

// findClaim looks up a claim by name.
func findClaim(o rule.Objects, namespace, name string) (*corev1.PersistentVolumeClaim, bool) {
	return rule.Find[*corev1.PersistentVolumeClaim](o, events.KindVolumeClaim, namespace, name)
}

// findVolume looks up a volume by name.
func findVolume(o rule.Objects, name string) (*corev1.PersistentVolume, bool) {
	return rule.Find[*corev1.PersistentVolume](o, events.KindPersistentVolume, "", name)
}

// findClass looks up a storage class by name. The empty name finds none.
func findClass(o rule.Objects, name string) (*storagev1.StorageClass, bool) {
	return rule.Find[*storagev1.StorageClass](o, events.KindStorageClass, "", name)
}

// csiNodeOf returns the CSINode of a node; nil if there is none.
func csiNodeOf(o rule.Objects, node string) *storagev1.CSINode {
	obj, _ := rule.Find[*storagev1.CSINode](o, events.KindCSINode, "", node)
	return obj
}

// noClaim, noVolume and noClass are the API server's messages for objects that do not exist, which upstream
// passes on.
func noClaim(name string) string  { return fmt.Sprintf("persistentvolumeclaim %q not found", name) }
func noVolume(name string) string { return fmt.Sprintf("persistentvolume %q not found", name) }
func noClass(name string) string {
	return fmt.Sprintf("storageclass.storage.k8s.io %q not found", name)
}

// misowned returns why a claim is not the one that was created for a pod's volume; empty if it is. Another claim
// can have the name by chance: "web-data" is both the volume data of the pod web and a claim that a user created.
// Source: component-helpers/storage/ephemeral VolumeIsForPod.
func misowned(claim *corev1.PersistentVolumeClaim, pod *state.Pod) string {
	if owner := metav1.GetControllerOfNoCopy(claim); owner != nil && string(owner.UID) == pod.UID {
		return ""
	}
	return fmt.Sprintf("PVC %s/%s was not created for pod %s (pod is not owner)", claim.Namespace, claim.Name, pod.Key())
}

// migrated holds the in-tree volume plugins that CSI drivers replace in every cluster (their migration is locked
// on, and the in-tree code is gone). Source: plugins/nodevolumelimits/utils.go, plugins/volumebinding/binder.go.
var migrated = map[string]bool{
	"kubernetes.io/aws-ebs": true, "kubernetes.io/gce-pd": true, "kubernetes.io/azure-disk": true,
	"kubernetes.io/cinder": true, "kubernetes.io/portworx-volume": true,
}

// inTree translates in-tree volumes to those of the CSI drivers that replace them. What the library would log is
// dropped: decisions do not log.
type inTree struct{ csitranslation.CSITranslator }

// volume returns a volume as its CSI driver sees it, and the name of the in-tree plugin that it is written for;
// ok is false for a volume that no driver replaces, or that cannot be translated. An in-tree volume and the CSI
// volume that replaces it count against the same limit.
func (t inTree) volume(v *corev1.PersistentVolume) (csi *corev1.PersistentVolume, plugin string, ok bool) {
	if !t.IsPVMigratable(v) {
		return nil, "", false
	}
	plugin, err := t.GetInTreePluginNameFromSpec(v, nil)
	if err != nil || !migrated[plugin] {
		return nil, "", false
	}
	csi, err = t.TranslateInTreePVToCSI(noLogger, v)
	return csi, plugin, err == nil
}

// inline is volume for an inline volume of a pod.
func (t inTree) inline(v *corev1.Volume, namespace string) (csi *corev1.CSIPersistentVolumeSource, ok bool) {
	if !t.IsInlineMigratable(v) {
		return nil, false
	}
	plugin, err := t.GetInTreePluginNameFromSpec(nil, v)
	if err != nil || !migrated[plugin] {
		return nil, false
	}
	pv, err := t.TranslateInTreeInlineVolumeToCSI(noLogger, v, namespace)
	if err != nil || pv == nil || pv.Spec.CSI == nil {
		return nil, false
	}
	driver, err := t.GetCSINameFromInTreeName(plugin)
	if err != nil {
		return nil, false
	}
	return &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: pv.Spec.CSI.VolumeHandle}, true
}

// noLogger is for libraries that require a logger: decisions do not log.
var noLogger klog.Logger
