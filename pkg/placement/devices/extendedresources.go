package devices

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/resources"
)

// An extended resource that a DeviceClass names is provided as devices on nodes that do not list it (KEP-5004).
// There NodeResourcesFit does not treat it as a resource; DynamicResources requests the devices with a claim that
// is created for the pod once its node has been chosen.

// Backed is a requested resource that is backed by devices of a class.
type Backed struct {
	Name  string
	class *resourcev1.DeviceClass
}

// MayBeDevices reports whether a resource has a name that devices may back. Source: pkg/scheduler/util
// IsDRAExtendedResourceName.
func MayBeDevices(name string) bool {
	return resources.IsExtendedResource(name) || strings.HasPrefix(name, resourcev1.ResourceDeviceClassPrefix)
}

// ClassFor returns the class of the devices that back a resource, nil if there is none. If several classes name
// it, the youngest is used, and among equally young ones the first by name. A name with the prefix
// deviceclass.resource.kubernetes.io/ refers to the class of that name. Source:
// deviceclass/extendedresourcecache.
func ClassFor(resource string, objects rule.Objects) *resourcev1.DeviceClass {
	if name, implicit := strings.CutPrefix(resource, resourcev1.ResourceDeviceClassPrefix); implicit {
		class, _ := rule.Find[*resourcev1.DeviceClass](objects, events.KindDeviceClass, "", name)
		return class
	}
	var best *resourcev1.DeviceClass
	for o := range objects.Objects(events.KindDeviceClass) {
		class, ok := o.API.(*resourcev1.DeviceClass)
		if !ok || class.Spec.ExtendedResourceName == nil || *class.Spec.ExtendedResourceName != resource {
			continue
		}
		if best == nil || youngerFirst(class, best) < 0 {
			best = class
		}
	}
	return best
}

// youngerFirst orders classes as ClassFor prefers them.
func youngerFirst(a, b *resourcev1.DeviceClass) int {
	return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// BackedResources returns those of the requested resources that devices back, by name. It is called for every
// decision and returns early for the pods that request no extended resource.
func BackedResources(request resources.Resources, objects rule.Objects) (list []Backed) {
	if len(request.Extended) == 0 || objects == nil {
		return nil // nearly always the case
	}
	for _, name := range slices.Sorted(maps.Keys(request.Extended)) {
		// A request of zero needs no device.
		if request.Extended[name] == 0 || !MayBeDevices(name) {
			continue
		}
		if class := ClassFor(name, objects); class != nil {
			list = append(list, Backed{name, class})
		}
	}
	return list
}

// Wanted reports whether a pod may need devices: it names claims, or requests resources that devices back.
func Wanted(pod *state.Pod, objects rule.Objects) bool {
	return rule.HasDeviceClaims(&pod.Template.Spec) || len(BackedResources(pod.Requests, objects)) > 0
}

// ClassHelps reports whether a device class that was added or changed backs a resource that a pod requests.
// Source: fit.go isSchedulableAfterDeviceClassEvent.
func ClassHelps(pod *state.Pod, c rule.Change) bool {
	class, ok := c.NewObject.API.(*resourcev1.DeviceClass)
	if !ok {
		return true
	}
	asked := func(name string) bool { return pod.Requests.Extended[name] > 0 }
	explicit := class.Spec.ExtendedResourceName
	if c.OldObject == nil {
		return asked(resourcev1.ResourceDeviceClassPrefix+class.Name) || explicit != nil && asked(*explicit)
	}
	old, ok := c.OldObject.API.(*resourcev1.DeviceClass)
	if ok && resourceNameOf(old) == resourceNameOf(class) {
		return false
	}
	return explicit != nil && asked(*explicit)
}

// resourceNameOf returns the resource that a class names explicitly; empty for none.
func resourceNameOf(class *resourcev1.DeviceClass) string {
	if class.Spec.ExtendedResourceName == nil {
		return ""
	}
	return *class.Spec.ExtendedResourceName
}
