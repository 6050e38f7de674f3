package placement

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/events"
)

// DeviceIndex is what one state of the cluster says about devices, for a quick answer to the usual
// question: has a node so many free devices like this? The zero value is empty, and filled when it is
// first asked. It is for one goroutine.
type DeviceIndex struct {
	filled bool
	// ofNode are the slices of one node alone, by its name, sorted by driver and pool.
	ofNode map[string][]*resourcev1.ResourceSlice
	// wide: there are slices that several nodes reach, or that count what devices consume.
	wide bool
	// taken are the devices that claims have, or have been promised.
	taken map[deviceKey]struct{}
	// shared are the pools of which a claim has a share of a device.
	shared map[deviceKey]struct{}
}

// deviceKey names a device, or a pool if device is empty.
type deviceKey struct{ driver, pool, device string }

// DeviceMemory is what an Objects can be besides: it keeps what was worked out about devices, which
// holds as long as it does not change.
type DeviceMemory interface {
	// Devices is where it is kept.
	Devices() *DeviceIndex
}

// deviceIndex is the index of objects, filled.
func deviceIndex(objects Objects) *DeviceIndex {
	x := &DeviceIndex{}
	if m, ok := objects.(DeviceMemory); ok {
		x = m.Devices()
	}
	if !x.filled {
		x.fill(objects)
	}
	return x
}

func (x *DeviceIndex) fill(objects Objects) {
	x.filled = true
	x.ofNode = map[string][]*resourcev1.ResourceSlice{}
	x.taken, x.shared = map[deviceKey]struct{}{}, map[deviceKey]struct{}{}
	for o := range objects.Objects(events.KindResourceSlice) {
		s, ok := o.API.(*resourcev1.ResourceSlice)
		if !ok {
			continue
		}
		name := ptr.Deref(s.Spec.NodeName, "")
		if name == "" || len(s.Spec.SharedCounters) > 0 {
			x.wide = true
			return // nothing here answers then
		}
		x.ofNode[name] = append(x.ofNode[name], s)
	}
	for _, list := range x.ofNode {
		slices.SortFunc(list, func(a, b *resourcev1.ResourceSlice) int {
			return cmp.Or(cmp.Compare(a.Spec.Driver, b.Spec.Driver), cmp.Compare(a.Spec.Pool.Name, b.Spec.Pool.Name))
		})
	}
	for o := range objects.ObjectsOf(events.KindResourceClaim, "") {
		if claim, ok := o.API.(*resourcev1.ResourceClaim); ok {
			x.take(claim.Status.Allocation)
		}
	}
	if p, ok := objects.(DevicePromises); ok {
		for _, a := range p.Promised() {
			x.take(a)
		}
	}
}

func (x *DeviceIndex) take(a *resourcev1.AllocationResult) {
	if a == nil {
		return
	}
	for i := range a.Devices.Results {
		r := &a.Devices.Results[i]
		switch {
		case ptr.Deref(r.AdminAccess, false): // others may have it all the same
		case r.ShareID != nil:
			x.shared[deviceKey{r.Driver, r.Pool, ""}] = struct{}{}
		default:
			x.taken[deviceKey{r.Driver, r.Pool, r.Device}] = struct{}{}
		}
	}
}

// plainSearch answers for a single request for a number of devices, on nodes whose devices are
// plain: whole, of one node, with no taint and no condition. There the first ones that are free and
// match will do, in the order of drivers, pools and names in the slice, and the allocator finds the
// same. Source: structured/internal/incubating, allocateOne.
type plainSearch struct {
	index     *DeviceIndex
	compiled  *cel.Cache
	selectors []resourcev1.DeviceSelector
	count     int64
	// bare are the answers of the selectors for devices that say nothing about themselves, by driver.
	bare map[string]bool
}

// plain is the quick search for what is lacking, or nil if it takes more than that.
func (d *deviceDemand) plain(compiled *cel.Cache, objects Objects) *plainSearch {
	if len(d.lacking) != 1 || len(d.lacking[0].Spec.Devices.Requests) != 1 ||
		len(d.lacking[0].Spec.Devices.Constraints) != 0 {
		return nil
	}
	r := d.lacking[0].Spec.Devices.Requests[0].Exactly
	if r == nil || ptr.Deref(r.AdminAccess, false) || r.Capacity != nil ||
		r.AllocationMode != resourcev1.DeviceAllocationModeExactCount ||
		r.Count < 1 || r.Count > resourcev1.AllocationResultsMaxSize {
		return nil
	}
	class, ok := find[*resourcev1.DeviceClass](objects, events.KindDeviceClass, "", r.DeviceClassName)
	if !ok {
		return nil
	}
	selectors := slices.Concat(class.Spec.Selectors, r.Selectors)
	if slices.ContainsFunc(selectors, func(s resourcev1.DeviceSelector) bool { return s.CEL == nil }) {
		return nil
	}
	index := deviceIndex(objects)
	if index.wide {
		return nil
	}
	return &plainSearch{index: index, compiled: compiled, selectors: selectors, count: r.Count, bare: map[string]bool{}}
}

// suffices tells whether a node has enough free devices; not known if it takes the allocator to say.
func (s *plainSearch) suffices(node string) (enough, known bool) {
	list := s.index.ofNode[node]
	if !s.index.plain(list) {
		return false, false
	}
	missing := s.count
	for _, slice := range list {
		for i := range slice.Spec.Devices {
			device := &slice.Spec.Devices[i]
			if _, taken := s.index.taken[deviceKey{slice.Spec.Driver, slice.Spec.Pool.Name, device.Name}]; taken {
				continue
			}
			match, err := s.matches(slice.Spec.Driver, device)
			if err != nil {
				return false, false
			}
			if match {
				missing--
			}
			if missing == 0 {
				return true, true
			}
		}
	}
	return false, true
}

// plain tells whether the slices of a node are pools of their own, with plain devices alone.
func (x *DeviceIndex) plain(list []*resourcev1.ResourceSlice) bool {
	for i, s := range list {
		pool := deviceKey{s.Spec.Driver, s.Spec.Pool.Name, ""}
		if _, shared := x.shared[pool]; shared || s.Spec.Pool.ResourceSliceCount != 1 ||
			ptr.Deref(s.Spec.PerDeviceNodeSelection, false) {
			return false
		}
		if i > 0 && list[i-1].Spec.Driver == s.Spec.Driver && list[i-1].Spec.Pool.Name == s.Spec.Pool.Name {
			return false
		}
		if !plainDevices(s.Spec.Devices) {
			return false
		}
	}
	return true
}

// maxPlainDevices is up to how many devices of a slice are compared with each other.
const maxPlainDevices = 32

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

func (s *plainSearch) matches(driver string, device *resourcev1.Device) (match bool, err error) {
	bare := len(device.Attributes)+len(device.Capacity) == 0
	if bare {
		if answer, known := s.bare[driver]; known {
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
		s.bare[driver] = match
	}
	return match, err
}

// search is the allocator over the devices of one node, which are plain.
func (s *plainSearch) search(node *corev1.Node, objects Objects) (*deviceSearch, error) {
	taken := structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	list := s.index.ofNode[node.Name]
	for _, slice := range list {
		for i := range slice.Spec.Devices {
			key := deviceKey{slice.Spec.Driver, slice.Spec.Pool.Name, slice.Spec.Devices[i].Name}
			if _, ok := s.index.taken[key]; ok {
				taken.AllocatedDevices.Insert(structured.MakeDeviceID(key.driver, key.pool, key.device))
			}
		}
	}
	allocator, err := structured.NewAllocator(&steps{}, deviceFeatures, taken, deviceClasses{objects}, list, s.compiled)
	if err != nil {
		return nil, err
	}
	return &deviceSearch{allocator}, nil
}
