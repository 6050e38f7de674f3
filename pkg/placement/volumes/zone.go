package volumes

import (
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Zone keeps pods in the zones given by the labels of their bound volumes. It is mostly about volumes of in-tree
// plugins, which have labels in place of node affinity. Source: plugins/volumezone.
type Zone struct{}

// topologyLabels are the labels of volumes and nodes that the rule evaluates, each with the name that replaced the
// older one.
var topologyLabels = []struct{ name, now string }{
	{corev1.LabelFailureDomainBetaZone, corev1.LabelTopologyZone},
	{corev1.LabelFailureDomainBetaRegion, corev1.LabelTopologyRegion},
	{corev1.LabelTopologyZone, corev1.LabelTopologyZone},
	{corev1.LabelTopologyRegion, corev1.LabelTopologyRegion},
}

// zoneDelimiter separates the zones of a volume that is in several.
const zoneDelimiter = "__"

// volumeZones are the values that one label of a volume allows; now is the name that replaced the label's name.
type volumeZones struct {
	name, now string
	values    map[string]bool
}

// Name implements Plugin.
func (Zone) Name() string { return names.VolumeZone }

// Compile implements Plugin.
func (Zone) Compile(pod *state.Pod, objects rule.Objects) (rule.Compiled, error) {
	var zones []volumeZones
	for _, use := range ClaimsOf(pod) {
		if use.Ephemeral {
			continue
		}
		volume, why := boundVolume(pod, use.Name, objects)
		if why != "" {
			return rule.Compiled{Rejection: why}, nil
		}
		if volume != nil {
			zones = append(zones, zonesOf(volume)...)
		}
	}
	if len(zones) == 0 {
		return rule.Compiled{}, nil
	}
	return rule.Compiled{Filter: zoneFilter{"node(s) had no available volume zone", zones}}, nil
}

// boundVolume returns the volume that a claim names; nil if it is chosen together with the node. why explains why
// there is none. Source: volume_zone.go getPVbyPod.
func boundVolume(pod *state.Pod, name string, objects rule.Objects) (volume *corev1.PersistentVolume, why string) {
	if name == "" {
		return nil, "PersistentVolumeClaim had no name"
	}
	claim, ok := findClaim(objects, pod.Namespace, name)
	if !ok {
		return nil, noClaim(name)
	}
	if claim.Spec.VolumeName != "" {
		if volume, ok = findVolume(objects, claim.Spec.VolumeName); !ok {
			return nil, noVolume(claim.Spec.VolumeName)
		}
		return volume, ""
	}
	className := state.ClaimClass(claim)
	if className == "" {
		return nil, "PersistentVolumeClaim had no pv name and storageClass name"
	}
	class, ok := findClass(objects, className)
	switch {
	case !ok:
		return nil, noClass(className)
	case class.VolumeBindingMode == nil:
		return nil, noBindingMode(className)
	case *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer:
		return nil, ""
	default:
		return nil, "PersistentVolume had no name"
	}
}

// noBindingMode is the error for a class that the API server has not defaulted.
func noBindingMode(class string) string {
	return fmt.Sprintf("VolumeBindingMode not set for StorageClass %q", class)
}

// zonesOf parses the labels of a volume. A label that cannot be parsed is left out.
func zonesOf(volume *corev1.PersistentVolume) []volumeZones {
	var list []volumeZones
	for _, l := range topologyLabels {
		text, ok := volume.Labels[l.name]
		if !ok {
			continue
		}
		values, complete := map[string]bool{}, true
		for v := range strings.SplitSeq(text, zoneDelimiter) {
			v = strings.TrimSpace(v)
			values[v], complete = true, complete && v != ""
		}
		if complete {
			list = append(list, volumeZones{l.name, l.now, values})
		}
	}
	return list
}

// zoneFilter is the rule for one pod: a node must satisfy every label of every volume.
type zoneFilter struct {
	rule.Reason
	zones []volumeZones
}

// Check implements Filter. A node without any of the labels is taken to be in every zone: clusters without zones
// do not label nodes. A volume with the old label fits a node that has only the new one. Example: a volume
// labelled zone=eu-1__eu-2 passes on nodes of both zones.
func (f zoneFilter) Check(n *state.NodeInfo) rule.Code {
	labels := n.Node.Object.Labels
	constrained := false
	for _, l := range topologyLabels {
		_, ok := labels[l.name]
		constrained = constrained || ok
	}
	if !constrained {
		return rule.Success
	}
	for _, z := range f.zones {
		v, ok := labels[z.name]
		if !ok {
			v, ok = labels[z.now]
		}
		if !ok || !z.values[v] {
			return rule.UnschedulableAndUnresolvable
		}
	}
	return rule.Success
}

// Events implements Plugin.
func (Zone) Events() []rule.Event {
	return []rule.Event{
		{Kind: events.KindStorageClass, Actions: rule.Add},
		{Kind: events.KindNode, Actions: rule.Add | rule.UpdateNodeLabel},
		{Kind: events.KindVolumeClaim, Actions: rule.Add | rule.Update},
		{Kind: events.KindPersistentVolume, Actions: rule.Add | rule.Update},
	}
}

// Hint implements Plugin. Source: volumezone/volume_zone.go isSchedulableAfter...
func (Zone) Hint(pod *state.Pod, c rule.Change) bool {
	switch c.Kind {
	case events.KindStorageClass:
		class, ok := c.NewObject.API.(*storagev1.StorageClass)
		return !ok || class.VolumeBindingMode != nil &&
			*class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
	case events.KindVolumeClaim:
		return namesClaim(pod, c.NewObject.Namespace, c.NewObject.Name)
	case events.KindPersistentVolume:
		return c.OldObject == nil || zonesMoved(c.OldObject, c.NewObject)
	default:
		return true
	}
}

// zonesMoved reports whether a change of a volume changed the zones that its labels allow.
func zonesMoved(before, after *state.Object) bool {
	old, known := before.API.(*corev1.PersistentVolume)
	now, knows := after.API.(*corev1.PersistentVolume)
	if !known || !knows {
		return true
	}
	was, is := zonesOf(old), zonesOf(now)
	if len(was) != len(is) {
		return true
	}
	for i := range was {
		if was[i].name != is[i].name || !maps.Equal(was[i].values, is[i].values) {
			return true
		}
	}
	return false
}
