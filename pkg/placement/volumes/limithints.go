package volumes

import (
	"slices"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Events implements Plugin. Upstream does not listen to CSIDrivers.
func (Limits) Events() []rule.Event {
	return []rule.Event{
		{Kind: events.KindCSINode, Actions: rule.Add | rule.Update},
		{Kind: events.KindCSIDriver, Actions: rule.Update | rule.Delete},
		{Kind: events.KindPod, Actions: rule.Delete},
		{Kind: events.KindVolumeClaim, Actions: rule.Add},
		{Kind: events.KindVolumeAttachment, Actions: rule.Delete},
	}
}

// Hint implements Plugin. Source: nodevolumelimits/csi.go isSchedulableAfter... Upstream's hints do not know
// preventPodSchedulingIfMissing: there, a pod that waits for a driver which registers without a limit waits for the
// next flush, and so does one whose driver is no longer required.
func (p Limits) Hint(pod *state.Pod, c rule.Change) bool {
	switch c.Kind {
	case events.KindPod:
		return rule.HeldPlace(c.OldPod) && p.counts(c.OldPod)
	case events.KindVolumeClaim:
		return usesClaim(pod, c.NewObject.Namespace, c.NewObject.Name)
	case events.KindVolumeAttachment:
		return p.detaches(pod, c.OldObject)
	case events.KindCSIDriver:
		return requires(c.OldObject) && !requires(c.NewObject)
	default:
		return c.OldObject == nil || limitRose(c.OldObject, c.NewObject) || p.registered(pod, c)
	}
}

// requires reports whether a CSIDriver keeps pods off nodes where it is not registered. An object that is gone does
// not.
func requires(o *state.Object) bool {
	if o == nil {
		return false
	}
	d, ok := o.API.(*storagev1.CSIDriver)
	return ok && ptr.Deref(d.Spec.PreventPodSchedulingIfMissing, false)
}

// registered reports whether a change of a CSINode has brought a driver without which the pod must not be placed.
func (p Limits) registered(pod *state.Pod, c rule.Change) bool {
	old, known := c.OldObject.API.(*storagev1.CSINode)
	now, knows := c.NewObject.API.(*storagev1.CSINode)
	if c.Objects == nil || !known || !knows {
		return true
	}
	wanted, why := p.attachable(pod, c.Objects, true)
	if why != "" {
		return false
	}
	return slices.ContainsFunc(p.required(pod, c.Objects, wanted), func(d driver) bool {
		return hasDriver(now, d.name) && !hasDriver(old, d.name)
	})
}

// detaches reports whether a volume that is no longer attached may have counted against the pod. For a pod with a
// claim it is always true.
func (p Limits) detaches(pod *state.Pod, gone *state.Object) bool {
	attachment, ok := gone.API.(*storagev1.VolumeAttachment)
	if !ok {
		return true
	}
	for i := range pod.Template.Spec.Volumes {
		v := &pod.Template.Spec.Volumes[i]
		if v.PersistentVolumeClaim != nil {
			return true
		}
		if !p.inTree.IsInlineMigratable(v) {
			continue
		}
		csi, err := p.inTree.TranslateInTreeInlineVolumeToCSI(noLogger, v, pod.Namespace)
		if err != nil || csi == nil || csi.Spec.CSI != nil && csi.Spec.CSI.Driver == attachment.Spec.Attacher {
			return true
		}
	}
	return false
}

// limitRose reports whether a node can have more volumes of some driver than before. A driver that is new on the
// node counts if it reports a limit.
func limitRose(before, after *state.Object) bool {
	old, known := before.API.(*storagev1.CSINode)
	now, knows := after.API.(*storagev1.CSINode)
	if !known || !knows {
		return true
	}
	was := map[string]int32{}
	for _, d := range old.Spec.Drivers {
		was[d.Name] = limitOf(d)
	}
	for _, d := range now.Spec.Drivers {
		if limitOf(d) > was[d.Name] {
			return true
		}
	}
	return false
}

// limitOf returns 0 where there is no limit, as upstream's hint does.
func limitOf(d storagev1.CSINodeDriver) int32 {
	if d.Allocatable == nil || d.Allocatable.Count == nil {
		return 0
	}
	return *d.Allocatable.Count
}
