package volumes

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// driver is a CSI driver without which a pod must not be placed on a node.
type driver struct {
	name string
	// replaces means that the pod has only in-tree volumes that the driver replaces. Such volumes do not count on a node
	// without a CSINode.
	replaces bool
}

// required returns the drivers of the wanted volumes that must be registered on the node of the pod, by name. A
// driver without a CSIDriver object is required nowhere.
func (p Limits) required(pod *state.Pod, objects rule.Objects, wanted map[handle]bool) []driver {
	var list []driver
	var own map[string]bool
	for h := range wanted {
		if slices.ContainsFunc(list, func(d driver) bool { return d.name == h.driver }) {
			continue
		}
		object, ok := rule.Find[*storagev1.CSIDriver](objects, events.KindCSIDriver, "", h.driver)
		if !ok || !ptr.Deref(object.Spec.PreventPodSchedulingIfMissing, false) {
			continue
		}
		if own == nil {
			own = p.ownDrivers(pod, objects)
		}
		list = append(list, driver{h.driver, !own[h.driver]})
	}
	slices.SortFunc(list, func(a, b driver) int { return cmp.Compare(a.name, b.name) })
	return list
}

// ownDrivers returns the drivers of those claims of a pod that are written for the driver itself, not for an in-tree
// plugin that it replaces.
func (p Limits) ownDrivers(pod *state.Pod, objects rule.Objects) map[string]bool {
	own := map[string]bool{}
	for _, use := range ClaimsOf(pod) {
		claim, ok := findClaim(objects, pod.Namespace, use.Name)
		if !ok {
			continue
		}
		volume, found := (*corev1.PersistentVolume)(nil), false
		if claim.Spec.VolumeName != "" {
			volume, found = findVolume(objects, claim.Spec.VolumeName)
		}
		if found {
			if volume.Spec.CSI != nil {
				own[volume.Spec.CSI.Driver] = true
			}
			continue
		}
		class, ok := findClass(objects, state.ClaimClass(claim))
		if ok && !p.inTree.IsMigratableIntreePluginByName(class.Provisioner) {
			own[class.Provisioner] = true
		}
	}
	return own
}

// missing returns the first required driver that is not registered on a node; empty if none is missing.
func (f limitFilter) missing(node string) string {
	if len(f.required) == 0 {
		return ""
	}
	csi := csiNodeOf(f.objects, node)
	for _, d := range f.required {
		if csi == nil && d.replaces {
			continue
		}
		if csi == nil || !hasDriver(csi, d.name) {
			return d.name
		}
	}
	return ""
}

// hasDriver reports whether a driver is registered on a node.
func hasDriver(node *storagev1.CSINode, name string) bool {
	return slices.ContainsFunc(node.Spec.Drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == name })
}
