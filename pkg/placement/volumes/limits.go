package volumes

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Limits keeps nodes from having more volumes of a CSI driver than the driver reports as its limit in the CSINode
// of the node. It also keeps pods off nodes where a driver of theirs is not registered, if the CSIDriver has
// preventPodSchedulingIfMissing (VolumeLimitScaling, KEP-5030). Source: plugins/nodevolumelimits.
//
// A volume counts once per node, however many pods there use it, and counts if it is attached even without such a
// pod.
type Limits struct{ inTree inTree }

// Name implements Plugin.
func (Limits) Name() string { return names.NodeVolumeLimits }

// Compile implements Plugin.
func (p Limits) Compile(pod *state.Pod, objects rule.Objects) (rule.Compiled, error) {
	if !p.counts(pod) {
		return rule.Compiled{}, nil
	}
	wanted, why := p.attachable(pod, objects, true)
	switch {
	case why != "":
		return rule.Compiled{Filter: rule.Refuse(why)}, nil
	case len(wanted) == 0:
		return rule.Compiled{}, nil
	}
	return rule.Compiled{Filter: limitFilter{
		rule: p, objects: objects, wanted: wanted, required: p.required(pod, objects, wanted),
	}}, nil
}

// counts reports whether the pod has any volume that may count: a claim, or an inline volume that a CSI driver
// serves.
func (p Limits) counts(pod *state.Pod) bool {
	if pod.Template == nil {
		return false
	}
	for i := range pod.Template.Spec.Volumes {
		if v := &pod.Template.Spec.Volumes[i]; claimsVolume(v) || p.inTree.IsInlineMigratable(v) {
			return true
		}
	}
	return false
}

// handle is one volume as its driver knows it. Two claims with the same handle are one volume.
type handle struct{ driver, volume string }

// attachable returns the volumes of a pod on a node with a CSINode. (On a node without one nothing is limited.)
// For an incoming pod it returns why it cannot determine them; for other pods, claims that do not exist or are
// not theirs do not count. Upstream fails the attempt where a pod on the node has an ephemeral claim of another
// owner; here such a mistake does not keep other pods away.
func (p Limits) attachable(pod *state.Pod, objects rule.Objects, incoming bool) (set map[handle]bool, why string) {
	set = map[handle]bool{}
	for _, use := range ClaimsOf(pod) {
		claim, ok := findClaim(objects, pod.Namespace, use.Name)
		if !ok {
			why = fmt.Sprintf("looking up PVC %s/%s: %s", pod.Namespace, use.Name, noClaim(use.Name))
		} else if use.Ephemeral {
			why = misowned(claim, pod)
		}
		switch {
		case why != "" && incoming:
			return nil, why
		case why != "":
			why = ""
			continue
		}
		if h, ok := p.ofClaim(claim, objects); ok {
			set[h] = true
		}
	}
	for i := range pod.Template.Spec.Volumes {
		if csi, ok := p.inTree.inline(&pod.Template.Spec.Volumes[i], pod.Namespace); ok {
			set[handle{csi.Driver, csi.VolumeHandle}] = true
		}
	}
	return set, ""
}

// ofClaim returns the volume of a claim. A claim without a volume counts for the provisioner of its class, under
// a name that no volume has. ok is false for a volume that is not limited: one of no CSI driver.
func (p Limits) ofClaim(claim *corev1.PersistentVolumeClaim, objects rule.Objects) (handle, bool) {
	volume, ok := (*corev1.PersistentVolume)(nil), false
	if claim.Spec.VolumeName != "" {
		volume, ok = findVolume(objects, claim.Spec.VolumeName)
	}
	if !ok {
		return p.ofClass(claim, objects)
	}
	if volume.Spec.CSI == nil {
		if volume, _, ok = p.inTree.volume(volume); !ok || volume.Spec.CSI == nil {
			return handle{}, false
		}
	}
	h := handle{volume.Spec.CSI.Driver, volume.Spec.CSI.VolumeHandle}
	return h, h.driver != "" && h.volume != ""
}

// ofClass returns the volume that will be provisioned for a claim: its driver, and a name that no volume has.
func (p Limits) ofClass(claim *corev1.PersistentVolumeClaim, objects rule.Objects) (handle, bool) {
	class, ok := findClass(objects, state.ClaimClass(claim))
	if !ok {
		return handle{}, false
	}
	driver := class.Provisioner
	if p.inTree.IsMigratableIntreePluginByName(driver) {
		name, err := p.inTree.GetCSINameFromInTreeName(driver)
		if err != nil || !migrated[driver] {
			return handle{}, false
		}
		driver = name
	}
	return handle{driver, "unbound " + claim.Namespace + "/" + claim.Name}, driver != ""
}

// limitFilter is the rule for one pod: wanted are the volumes that it brings, and required the drivers that must be
// registered on its node.
type limitFilter struct {
	rule     Limits
	objects  rule.Objects
	wanted   map[handle]bool
	required []driver
}

// Explain implements Filter. Upstream names any of the drivers that are missing, we the first by name.
func (f limitFilter) Explain(n *state.NodeInfo) []string {
	if name := f.missing(n.Node.Name); name != "" {
		return []string{name + " CSI driver is not installed on the node"}
	}
	return []string{"node(s) exceed max volume count"}
}

// Check implements Filter. It counts the volumes of the pods on the node and the attached ones, and adds those
// that the pod brings and the node does not have. It reads all pods on the node, but only on nodes that report a
// limit for a driver of the pod's volumes.
//
// Example: a limit of 25 volumes; the pods on the node use 23, and one more is still attached although its pod is
// gone. A pod with two volumes, one of which is among the 23, brings one: 24 + 1 <= 25, it passes.
func (f limitFilter) Check(n *state.NodeInfo) rule.Code {
	if f.missing(n.Node.Name) != "" {
		return rule.Unschedulable
	}
	limits := f.limits(n.Node.Name)
	if len(limits) == 0 {
		return rule.Success
	}
	there := map[handle]bool{}
	for p := range n.Pods() {
		if !f.rule.counts(p) {
			continue
		}
		set, _ := f.rule.attachable(p, f.objects, false)
		for h := range set {
			there[h] = true
		}
	}
	fresh, count := map[string]int{}, map[string]int{}
	for h := range f.wanted {
		if !there[h] {
			fresh[h.driver]++
		}
	}
	f.addAttached(n.Node.Name, there)
	for h := range there {
		count[h.driver]++
	}
	// A driver of which the pod brings nothing new is not compared: the node may already exceed its limit.
	for driver, limit := range limits {
		if fresh[driver] > 0 && count[driver]+fresh[driver] > limit {
			return rule.Unschedulable
		}
	}
	return rule.Success
}

// limits returns the limits of a node for the drivers of the wanted volumes. A driver without a count has no
// limit.
func (f limitFilter) limits(node string) map[string]int {
	csi := csiNodeOf(f.objects, node)
	if csi == nil {
		return nil
	}
	limits := map[string]int{}
	for _, d := range csi.Spec.Drivers {
		if d.Allocatable != nil && d.Allocatable.Count != nil && f.wants(d.Name) {
			limits[d.Name] = int(*d.Allocatable.Count)
		}
	}
	return limits
}

// wants reports whether the pod brings a volume of a driver.
func (f limitFilter) wants(driver string) bool {
	for h := range f.wanted {
		if h.driver == driver {
			return true
		}
	}
	return false
}

// addAttached adds all volumes that are attached to a node, whichever pod uses them.
func (f limitFilter) addAttached(node string, there map[handle]bool) {
	for o := range f.objects.ObjectsOf(events.KindVolumeAttachment, node) {
		a, ok := o.API.(*storagev1.VolumeAttachment)
		if !ok || a.Spec.Attacher == "" || a.Spec.Source.PersistentVolumeName == nil {
			continue
		}
		volume, ok := findVolume(f.objects, *a.Spec.Source.PersistentVolumeName)
		if ok && volume.Spec.CSI != nil {
			there[handle{a.Spec.Attacher, volume.Spec.CSI.VolumeHandle}] = true
		}
	}
}
