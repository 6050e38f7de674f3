package devices

import (
	"cmp"
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/state"
)

// poolKey identifies a pool. Names of pools are unique only within a driver.
type poolKey struct{ driver, pool string }

// nodeDevices holds the slices that belong to one node alone, sorted by driver and pool.
type nodeDevices struct {
	slices []*nodeSlice
	// plain reports whether each slice is a pool of its own with plain devices only; see plainSearch.
	plain bool
}

// nodeSlice is a slice of one node; taken has one bit for each of its devices, if they are plain, in their order.
// tainted reports whether a DeviceTaintRule adds a taint to one of them.
type nodeSlice struct {
	*resourcev1.ResourceSlice
	taken   uint32
	tainted bool
}

// pool returns the pool of the slice.
func (s *nodeSlice) pool() poolKey { return poolKey{s.Spec.Driver, s.Spec.Pool.Name} }

// mark sets or clears the bit of a device.
func (s *nodeSlice) mark(device string, taken bool) {
	for i := range min(len(s.Spec.Devices), maxPlainDevices) {
		switch {
		case s.Spec.Devices[i].Name != device:
		case taken:
			s.taken |= 1 << i
		default:
			s.taken &^= 1 << i
		}
	}
}

// sort sorts the slices, by name where drivers and pools are the same, and determines whether they are plain. The
// order is that in which the allocator tries pools, so that both find the same devices first.
func (n *nodeDevices) sort() {
	slices.SortFunc(n.slices, func(a, b *nodeSlice) int {
		return cmp.Or(cmp.Compare(a.Spec.Driver, b.Spec.Driver), cmp.Compare(a.Spec.Pool.Name, b.Spec.Pool.Name),
			cmp.Compare(a.Name, b.Name))
	})
	n.plain = true
	for i, s := range n.slices {
		// Two slices of one pool, or a slice of an incomplete pool: the allocator decides.
		again := i > 0 && n.slices[i-1].pool() == s.pool()
		if again || s.tainted || s.Spec.Pool.ResourceSliceCount != 1 || ptr.Deref(s.Spec.PerDeviceNodeSelection, false) ||
			!plainDevices(s.Spec.Devices) {
			n.plain = false
			return
		}
	}
}

// maxPlainDevices is the largest number of devices in a slice that are compared with each other and have a bit
// each.
const maxPlainDevices = 32

// plainDevices reports whether all devices can be allocated as a whole by any claim on the node: no taint, shared
// counter, condition, binding to a node or second user.
func plainDevices(devices []resourcev1.Device) bool {
	if len(devices) > maxPlainDevices {
		return false
	}
	for i := range devices {
		d := &devices[i]
		if len(d.Taints)+len(d.ConsumesCounters)+len(d.BindingConditions)+len(d.BindingFailureConditions) > 0 ||
			ptr.Deref(d.BindsToNode, false) || ptr.Deref(d.AllowMultipleAllocations, false) ||
			len(d.NodeAllocatableResourceMappings) > 0 {
			return false
		}
		for j := range i {
			if devices[j].Name == d.Name {
				return false
			}
		}
	}
	return true
}

// isMultiNode reports whether a slice does not belong to a single node, or counts the consumption of devices.
func isMultiNode(s *resourcev1.ResourceSlice) bool {
	return ptr.Deref(s.Spec.NodeName, "") == "" || len(s.Spec.SharedCounters) > 0
}

// hasLists reports whether an attribute of a device of a slice has a list of values (KEP-5491).
func hasLists(s *resourcev1.ResourceSlice) bool {
	for i := range s.Spec.Devices {
		for _, a := range s.Spec.Devices[i].Attributes {
			if len(a.IntValues)+len(a.BoolValues)+len(a.StringValues)+len(a.VersionValues) > 0 {
				return true
			}
		}
	}
	return false
}

// sliceOf returns an object as a slice; false if it is none.
func sliceOf(o *state.Object) (*resourcev1.ResourceSlice, bool) {
	if o == nil {
		return nil, false
	}
	s, ok := o.API.(*resourcev1.ResourceSlice)
	return s, ok
}

// verdicts holds the results of a list of selectors for devices. They belong to an index because they are valid
// for as long as a slice does not change. Evaluating a CEL expression takes microseconds, and there is one
// evaluation per selector and device.
type verdicts struct {
	// of has a bit for each device of a slice that matches.
	of map[*nodeSlice]uint32
	// bare is the same for devices without attributes and capacity, by driver.
	bare map[string]bool
}
