package devices

import (
	"math/bits"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/berth-scheduler/berth/pkg/placement/rule"
)

// plainSearch handles a single request for a number of devices on nodes whose devices are plain: whole devices of
// one node, with no taint and no condition. There the first free devices that match are enough, in the order of
// drivers, pools and names in the slice, and the allocator finds the same ones. Source:
// structured/internal/incubating, allocateOne.
//
// It exists because a call of the allocator costs far more than counting bits, and a number of whole devices is
// the usual request. Example: a slice of eight devices whose selectors match devices 0 to 3 (matching 0b1111), of
// which 0 and 2 are taken (0b0101): two are free, by one operation.
type plainSearch struct {
	index     *Index
	compiled  *cel.Cache
	selectors []resourcev1.DeviceSelector
	// count is the number of requested devices, 1 to AllocationResultsMaxSize.
	count int
	// cache holds the results of the selectors.
	cache *verdicts
}

// hasEnough reports whether a node has enough free devices; known is false if only the allocator can decide it.
func (s *plainSearch) hasEnough(node string) (enough, known bool) {
	own := s.index.nodes[node]
	// A node without slices has no devices, and no slice reaches more than one node.
	if own == nil {
		return false, true
	}
	if !s.index.isPlain(own) {
		return false, false
	}
	missing := s.count
	for _, slice := range own.slices {
		matching, ok := s.matching(slice)
		if !ok {
			return false, false
		}
		missing -= bits.OnesCount32(matching &^ slice.taken)
		if missing <= 0 {
			return true, true
		}
	}
	return false, true
}

// matching returns a bit for each device of a slice that matches; ok is false if an expression fails.
func (s *plainSearch) matching(slice *nodeSlice) (matching uint32, ok bool) {
	if matching, ok = s.cache.of[slice]; ok {
		return matching, true
	}
	for i := range slice.Spec.Devices {
		match, err := s.matches(slice.Spec.Driver, &slice.Spec.Devices[i])
		if err != nil {
			return 0, false
		}
		if match {
			matching |= 1 << i
		}
	}
	s.cache.of[slice] = matching
	return matching, true
}

// matches evaluates the selectors for a device. All devices of a driver without attributes and capacity get the
// same result.
func (s *plainSearch) matches(driver string, device *resourcev1.Device) (match bool, err error) {
	bare := len(device.Attributes)+len(device.Capacity) == 0
	if bare {
		if answer, known := s.cache.bare[driver]; known {
			return answer, nil
		}
	}
	match = true
	for i := range s.selectors {
		expression := s.compiled.GetOrCompile(s.selectors[i].CEL.Expression)
		if expression.Error != nil {
			return false, expression.Error
		}
		match, _, err = expression.DeviceMatches(&steps{}, cel.Device{
			Driver: driver, AllowMultipleAllocations: device.AllowMultipleAllocations,
			Attributes: device.Attributes, Capacity: device.Capacity,
		})
		if err != nil || !match {
			break
		}
	}
	if bare && err == nil {
		s.cache.bare[driver] = match
	}
	return match, err
}

// search returns an allocator search over the devices of one node, which are plain. It sees only that node's
// slices and what is taken of them: copying the state of the whole cluster would cost more than the search.
func (s *plainSearch) search(node *corev1.Node, objects rule.Objects) (*search, error) {
	taken := structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	var list []*resourcev1.ResourceSlice
	for _, slice := range s.index.nodes[node.Name].slices {
		list = append(list, slice.ResourceSlice)
		for i := range slice.Spec.Devices {
			if slice.taken&(1<<i) != 0 {
				taken.AllocatedDevices.Insert(
					structured.MakeDeviceID(slice.Spec.Driver, slice.Spec.Pool.Name, slice.Spec.Devices[i].Name))
			}
		}
	}
	allocator, err := structured.NewAllocator(&steps{}, deviceFeatures, taken, deviceClasses{objects}, list, s.compiled)
	if err != nil {
		return nil, err
	}
	return &search{allocator}, nil
}
