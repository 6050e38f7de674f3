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
type plainSearch struct {
	index     *Index
	compiled  *cel.Cache
	selectors []resourcev1.DeviceSelector
	count     int
	cache     *verdicts
}

// hasEnough reports whether a node has enough free devices; known is false if only the allocator can tell.
func (s *plainSearch) hasEnough(node string) (enough, known bool) {
	own := s.index.nodes[node]
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

// search returns an allocator search over the devices of one node, which are plain.
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
