package devices

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
)

// deviceFeatures are the features of the allocator, except for lists of values in attributes. They are part of the
// answer: without one, the allocator would leave out devices or requests that use it. An API server where a feature is
// off drops its fields from objects, and then the feature changes nothing.
var deviceFeatures = structured.Features{
	AdminAccess: true, PrioritizedList: true, PartitionableDevices: true, DeviceTaints: true,
	DeviceBindingAndStatus: true, ConsumableCapacity: true,
}

// featuresFor returns the features for a search over the devices of an index. With lists of values (KEP-5491), another
// implementation of the allocator is chosen, which is the newest: so it is used only where a device has a list. (The
// plugin of 1.36.3 never turns the feature on for the allocator: there, constraints over lists are not satisfied.)
func featuresFor(index *Index) structured.Features {
	features := deviceFeatures
	features.ListTypeAttributes = len(index.listed) > 0
	return features
}

// search finds devices for claims with upstream's allocator, one node at a time. The allocator tries the devices
// of all requests in turn and backtracks, so that it also finds combinations that satisfy constraints between
// requests (matchAttribute) or alternatives (firstAvailable). Its result is the first combination in a fixed
// order, not the best.
type search struct{ allocator structured.Allocator }

// CannotAllocate is upstream's reason for a node without the devices.
const CannotAllocate = "cannot allocate all claims"

// newDeviceSearch returns a search over all devices, with the taints of DeviceTaintRules. The allocator keeps a
// reference to the allocated state of the index, so that the search is valid only until the index changes.
func newDeviceSearch(compiled *cel.Cache, objects rule.Objects, index *Index) (*search, error) {
	var slices []*resourcev1.ResourceSlice
	for o := range objects.Objects(events.KindResourceSlice) {
		if s, ok := o.API.(*resourcev1.ResourceSlice); ok {
			slices = append(slices, index.tainted.patch(s))
		}
	}
	allocator, err := structured.NewAllocator(&steps{}, featuresFor(index), index.allocated,
		deviceClasses{objects}, slices, compiled)
	if err != nil {
		return nil, err
	}
	return &search{allocator}, nil
}

// allocate finds devices for all claims on a node, or returns why it cannot. Upstream fails the attempt if an
// expression cannot be evaluated. Here the node is rejected instead; that gives the same message if every node is
// rejected, and wakes the pod when the claim, its class or the devices change.
func (s *search) allocate(
	node *corev1.Node, claims []*resourcev1.ResourceClaim,
) (found []resourcev1.AllocationResult, why string) {
	found, err := s.allocator.Allocate(&steps{}, node, claims)
	switch {
	case errors.Is(err, errTooManySteps):
		return nil, fmt.Sprintf("node %s: gave up trying to allocate devices after %d steps", node.Name, maxDeviceSteps)
	case err != nil:
		return nil, err.Error()
	case len(found) != len(claims):
		return nil, CannotAllocate
	}
	return found, ""
}

// steps is the context that the allocator checks to know whether to stop. It ends after a number of steps of the
// search, which is exponential for some claims, rather than after a time, so that a decision is reproducible. It
// implements context.Context, for which decisions have no other use; it carries no values and cannot be cancelled
// from outside.
type steps struct{ taken int }

// maxDeviceSteps bounds the search on one node. A step takes about a microsecond, and some ten with an expression:
// the bound is of the order of upstream's filterTimeout of 10 s.
const maxDeviceSteps = 1_000_000

// errTooManySteps ends a search. The node is rejected, and may be tried again when the pod is.
var errTooManySteps = errors.New("too many steps")

// Deadline implements context.Context.
func (*steps) Deadline() (deadline time.Time, ok bool) { return time.Time{}, false }

// Done implements context.Context.
func (*steps) Done() <-chan struct{} { return nil } //nolint:pure // the interface has it; nobody sends or waits

// Err implements context.Context. The allocator calls it in every step of its search, and that counts the
// steps.
func (s *steps) Err() error {
	s.taken++
	if s.taken > maxDeviceSteps {
		return errTooManySteps
	}
	return nil
}

// Value implements context.Context.
func (*steps) Value(any) any { return nil }

// deviceClasses looks up classes for the allocator.
type deviceClasses struct{ objects rule.Objects }

// Get implements structured.DeviceClassLister.
func (c deviceClasses) Get(name string) (*resourcev1.DeviceClass, error) {
	class, ok := rule.Find[*resourcev1.DeviceClass](c.objects, events.KindDeviceClass, "", name)
	if !ok {
		return nil, apierrors.NewNotFound(resourcev1.Resource("deviceclass"), name)
	}
	return class, nil
}

// List implements structured.DeviceClassLister.
func (c deviceClasses) List() ([]*resourcev1.DeviceClass, error) {
	var list []*resourcev1.DeviceClass
	for o := range c.objects.Objects(events.KindDeviceClass) {
		if class, ok := o.API.(*resourcev1.DeviceClass); ok {
			list = append(list, class)
		}
	}
	return list, nil
}
