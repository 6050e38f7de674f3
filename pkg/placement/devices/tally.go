package devices

import (
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
)

// Tally counts devices that back an extended resource, for scores: all devices of the class that a node reaches,
// and those of them that are allocated. Unlike in allocation, devices in incomplete pools and tainted devices
// count. It is valid for one evaluation. Source: noderesources/resource_allocation.go calculateDRAResourceTotals.
type Tally struct {
	compiled *cel.Cache
	objects  rule.Objects
	slices   []*resourcev1.ResourceSlice
	index    *Index
}

// NewTally returns a tally that has counted nothing yet.
func NewTally(compiled *cel.Cache, objects rule.Objects) *Tally {
	t := &Tally{compiled: compiled, objects: objects, index: IndexOf(objects)}
	for o := range objects.Objects(events.KindResourceSlice) {
		if s, ok := o.API.(*resourcev1.ResourceSlice); ok {
			t.slices = append(t.slices, s)
		}
	}
	return t
}

// Count returns how many devices of a class a node reaches, and how many of them are taken; 0, 0 also if an
// expression or a selector cannot be evaluated.
func (t *Tally) Count(node *corev1.Node, class *resourcev1.DeviceClass) (all, taken int64) {
	for _, s := range t.slices {
		devices, err := reachable(s, node)
		if err != nil {
			return 0, 0
		}
		for i := range devices {
			matches, err := t.matches(s.Spec.Driver, &devices[i], class)
			switch {
			case err != nil:
				return 0, 0
			case !matches:
				continue
			}
			all++
			if structured.IsDeviceAllocated(
				structured.MakeDeviceID(s.Spec.Driver, s.Spec.Pool.Name, devices[i].Name), &t.index.allocated) {
				taken++
			}
		}
	}
	return all, taken
}

// reachable returns the devices of a slice that a node reaches.
func reachable(s *resourcev1.ResourceSlice, node *corev1.Node) ([]resourcev1.Device, error) {
	if !ptr.Deref(s.Spec.PerDeviceNodeSelection, false) {
		ok, err := structured.NodeMatches(deviceFeatures, node, ptr.Deref(s.Spec.NodeName, ""),
			ptr.Deref(s.Spec.AllNodes, false), s.Spec.NodeSelector)
		if !ok {
			return nil, err
		}
		return s.Spec.Devices, nil
	}
	var list []resourcev1.Device
	for i := range s.Spec.Devices {
		d := &s.Spec.Devices[i]
		ok, err := structured.NodeMatches(deviceFeatures, node, ptr.Deref(d.NodeName, ""),
			ptr.Deref(d.AllNodes, false), d.NodeSelector)
		if err != nil {
			return nil, err
		}
		if ok {
			list = append(list, *d)
		}
	}
	return list, nil
}

// matches reports whether a device matches all selectors of a class.
func (t *Tally) matches(driver string, d *resourcev1.Device, class *resourcev1.DeviceClass) (bool, error) {
	for _, selector := range class.Spec.Selectors {
		if selector.CEL == nil {
			continue
		}
		expression := t.compiled.GetOrCompile(selector.CEL.Expression)
		if expression.Error != nil {
			return false, expression.Error
		}
		match, _, err := expression.DeviceMatches(&steps{}, cel.Device{
			Driver: driver, Attributes: d.Attributes, Capacity: d.Capacity,
		})
		if err != nil || !match {
			return false, err
		}
	}
	return true, nil
}
