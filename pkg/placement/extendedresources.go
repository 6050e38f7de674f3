package placement

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Extended resources that a DeviceClass stands for are given as devices on nodes that do not list them
// (KEP-5004). To NodeResourcesFit they are no resources there; DynamicResources asks for the devices
// with a claim that is made for the pod once its node has been chosen.

// backed is a resource that a pod asks for and that devices of a class stand for.
type backed struct {
	name  string
	class *resourcev1.DeviceClass
}

// mayBeDevices tells whether a resource is of a name that devices may stand for. Source:
// pkg/scheduler/util IsDRAExtendedResourceName.
func mayBeDevices(name string) bool {
	return state.IsExtendedResource(name) || strings.HasPrefix(name, resourcev1.ResourceDeviceClassPrefix)
}

// deviceClassFor is the class of the devices that stand for a resource, nil if none do. Of several
// classes that name it the youngest counts, of those that of the first name. Source:
// deviceclass/extendedresourcecache.
func deviceClassFor(resource string, objects Objects) *resourcev1.DeviceClass {
	if name, implicit := strings.CutPrefix(resource, resourcev1.ResourceDeviceClassPrefix); implicit {
		class, _ := find[*resourcev1.DeviceClass](objects, events.KindDeviceClass, "", name)
		return class
	}
	var best *resourcev1.DeviceClass
	for o := range objects.Objects(events.KindDeviceClass) {
		class, ok := o.API.(*resourcev1.DeviceClass)
		if !ok || class.Spec.ExtendedResourceName == nil || *class.Spec.ExtendedResourceName != resource {
			continue
		}
		if best == nil || byYouth(class, best) < 0 {
			best = class
		}
	}
	return best
}

func byYouth(a, b *resourcev1.DeviceClass) int {
	return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// backedResources are the resources among those that a pod asks for which devices stand for, by name.
func backedResources(request state.Resources, objects Objects) (list []backed) {
	if len(request.Extended) == 0 || objects == nil {
		return nil // as nearly always
	}
	for _, name := range slices.Sorted(maps.Keys(request.Extended)) {
		if request.Extended[name] == 0 || !mayBeDevices(name) {
			continue
		}
		if class := deviceClassFor(name, objects); class != nil {
			list = append(list, backed{name, class})
		}
	}
	return list
}

// wantsDevices tells whether a pod may need devices: it names claims, or asks for resources that devices
// stand for.
func wantsDevices(pod *state.Pod, objects Objects) bool {
	return hasDeviceClaims(&pod.Template.Spec) || len(backedResources(pod.Requests, objects)) > 0
}

// withoutClasses hides device classes, for what pods are asked that no devices stand behind.
type withoutClasses struct{ lookups }

// ObjectByName implements Objects.
func (o withoutClasses) ObjectByName(k events.Kind, namespace, name string) (*state.Object, bool) {
	if k == events.KindDeviceClass {
		return nil, false
	}
	return o.lookups.ObjectByName(k, namespace, name)
}

// Objects implements Objects.
func (o withoutClasses) Objects(k events.Kind) iter.Seq[*state.Object] {
	if k == events.KindDeviceClass {
		return func(func(*state.Object) bool) {}
	}
	return o.lookups.Objects(k)
}

// classHelps tells whether a device class that has come or changed stands for something that a pod asks
// for. Source: fit.go isSchedulableAfterDeviceClassEvent.
func classHelps(pod *state.Pod, c Change) bool {
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

func resourceNameOf(class *resourcev1.DeviceClass) string {
	if class.Spec.ExtendedResourceName == nil {
		return ""
	}
	return *class.Spec.ExtendedResourceName
}

// deviceWish is what a pod asks of devices by way of resources.
type deviceWish struct {
	pod *state.Pod
	// resources are those that devices stand for; plain are the others that they could stand for.
	resources []backed
	plain     []string
	// existing is the claim that has been made for the pod, if it may be used, and its version.
	existing *resourcev1.ResourceClaim
	version  uint64
	// claims are what is to be made on nodes that lack the same resources, by these.
	claims map[string]*MadeClaim
}

// MadeClaim is a claim that is made for the resources of a pod for which devices stand on its node.
type MadeClaim struct {
	Claim *resourcev1.ResourceClaim
	// Mappings tell which container gets which of the claim's requests for which resource.
	Mappings []corev1.ContainerExtendedResourceRequest
}

// newDeviceWish is what a pod asks, nil for nothing.
func newDeviceWish(pod *state.Pod, objects Objects) *deviceWish {
	resources := backedResources(pod.Requests, objects)
	if len(resources) == 0 {
		return nil
	}
	w := &deviceWish{pod: pod, resources: resources, claims: map[string]*MadeClaim{}}
	for name, amount := range pod.Requests.Extended {
		known := slices.ContainsFunc(resources, func(b backed) bool { return b.name == name })
		if amount > 0 && mayBeDevices(name) && !known {
			w.plain = append(w.plain, name)
		}
	}
	name := MadeClaimName(pod.Name, pod.UID)
	if o, ok := objects.ObjectByName(events.KindResourceClaim, pod.Namespace, name); ok {
		claim, ok := o.API.(*resourcev1.ResourceClaim)
		if ok && IsMadeFor(claim, pod.UID) && claim.Status.Allocation == nil && claim.DeletionTimestamp == nil {
			w.existing, w.version = claim, o.ResourceVersion
		}
	}
	return w
}

// on is the claim that a pod needs on a node, nil for none, or why the node will not do. Source:
// extendeddynamicresources.go filterExtendedResources.
func (w *deviceWish) on(node *state.Node) (claim *MadeClaim, why string) {
	listed := node.Allocatable.Extended
	for _, name := range w.plain {
		// One that the node lists with nothing of it is left to NodeResourcesFit, which may be told to ignore it.
		if _, ok := node.Object.Status.Allocatable[corev1.ResourceName(name)]; !ok {
			return nil, "cannot fit resource"
		}
	}
	var key strings.Builder
	var lacking []backed
	for _, r := range w.resources {
		if listed[r.name] == 0 {
			lacking = append(lacking, r)
			key.WriteString(r.name + "\n")
		}
	}
	if len(lacking) == 0 {
		return nil, ""
	}
	claim, known := w.claims[key.String()]
	if !known {
		claim = makeClaim(w.pod, lacking)
		w.claims[key.String()] = claim
	}
	return claim, ""
}
