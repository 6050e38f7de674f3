package devices

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
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

// ClassFor returns the class of the devices that back a resource, nil if there is none. If several classes
// name it, the youngest is used, and among equally young ones the first by name. Source:
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
		if best == nil || byYouth(class, best) < 0 {
			best = class
		}
	}
	return best
}

func byYouth(a, b *resourcev1.DeviceClass) int {
	return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// BackedResources returns those of the requested resources that devices back, by name.
func BackedResources(request resources.Resources, objects rule.Objects) (list []Backed) {
	if len(request.Extended) == 0 || objects == nil {
		return nil // nearly always the case
	}
	for _, name := range slices.Sorted(maps.Keys(request.Extended)) {
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

// withoutClasses hides device classes from rules that are compiled for pods without resources backed by devices.
type withoutClasses struct{ lookups }

// WithoutClasses returns the objects without device classes.
func WithoutClasses(objects rule.Objects) rule.Objects { return withoutClasses{objects} }

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

// ClassHelps reports whether a device class that was added or changed backs a resource that a pod requests. Source:
// fit.go isSchedulableAfterDeviceClassEvent.
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

func resourceNameOf(class *resourcev1.DeviceClass) string {
	if class.Spec.ExtendedResourceName == nil {
		return ""
	}
	return *class.Spec.ExtendedResourceName
}

// wish holds the extended resources that a pod requests and that devices may provide.
type wish struct {
	pod *state.Pod
	// resources are those that devices back; plain are the others whose names devices could back.
	resources []Backed
	plain     []string
	// existing is the claim that has already been created for the pod, if it may be used, and version is its
	// version.
	existing *resourcev1.ResourceClaim
	version  uint64
	// claims caches the claims to create, by the resources that a node lacks.
	claims map[string]*MadeClaim
}

// MadeClaim is a claim that is created for those resources of a pod that devices provide on its node.
type MadeClaim struct {
	Claim *resourcev1.ResourceClaim
	// Mappings define which container gets which of the claim's requests for which resource.
	Mappings []corev1.ContainerExtendedResourceRequest
}

// newDeviceWish returns the wish of a pod, nil if it has none.
func newDeviceWish(pod *state.Pod, objects rule.Objects) *wish {
	resources := BackedResources(pod.Requests, objects)
	if len(resources) == 0 {
		return nil
	}
	w := &wish{pod: pod, resources: resources, claims: map[string]*MadeClaim{}}
	for name, amount := range pod.Requests.Extended {
		known := slices.ContainsFunc(resources, func(b Backed) bool { return b.Name == name })
		if amount > 0 && MayBeDevices(name) && !known {
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

// on returns the claim that a pod needs on a node, nil for none, or why the node is rejected. Source:
// extendeddynamicresources.go filterExtendedResources.
func (w *wish) on(node *state.Node) (claim *MadeClaim, why string) {
	listed := node.Allocatable.Extended
	for _, name := range w.plain {
		// A resource that the node lists with an amount of zero is left to NodeResourcesFit, which may be
		// configured to ignore it.
		if _, ok := node.Object.Status.Allocatable[corev1.ResourceName(name)]; !ok {
			return nil, "cannot fit resource"
		}
	}
	var key strings.Builder
	var lacking []Backed
	for _, r := range w.resources {
		if listed[r.Name] == 0 {
			lacking = append(lacking, r)
			key.WriteString(r.Name + "\n")
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
