package devices

import (
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
)

// refusesMapped is the reason for a node where a claim has or would get a device with nodeAllocatableResourceMappings
// (KEP-5517): the pod would take cpu, memory or other resources of the node together with the device, and nothing
// here counts them. The pod is refused, so that the node is not overcommitted.
const refusesMapped = "node(s) cannot be checked: this version does not evaluate DRANodeAllocatableResources, " +
	"and devices of the pod take resources of the node"

// hasMappings reports whether a device of a slice takes resources of its node.
func hasMappings(s *resourcev1.ResourceSlice) bool {
	return slices.ContainsFunc(s.Spec.Devices, func(d resourcev1.Device) bool {
		return len(d.NodeAllocatableResourceMappings) > 0
	})
}

// isMapped reports whether an allocation has a device that takes resources of its node. A device that no slice
// publishes any more takes none.
func (x *Index) isMapped(a *resourcev1.AllocationResult) bool {
	if len(x.mapped) == 0 || a == nil {
		return false
	}
	for i := range a.Devices.Results {
		for _, s := range x.mapped {
			if isMappedIn(s, &a.Devices.Results[i]) {
				return true
			}
		}
	}
	return false
}

// isMappedIn reports whether an allocated device is one of a slice, and takes resources of its node.
func isMappedIn(s *resourcev1.ResourceSlice, r *resourcev1.DeviceRequestAllocationResult) bool {
	return s.Spec.Driver == r.Driver && s.Spec.Pool.Name == r.Pool &&
		slices.ContainsFunc(s.Spec.Devices, func(d resourcev1.Device) bool {
			return d.Name == r.Device && len(d.NodeAllocatableResourceMappings) > 0
		})
}
