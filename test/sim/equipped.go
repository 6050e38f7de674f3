package sim

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/events"
)

// deviceKinds are the additional kinds in a cluster with devices.
var deviceKinds = []events.Kind{events.KindDeviceClass, events.KindResourceSlice, events.KindResourceClaim}

const (
	deviceDriver = "gpu.example.com"
	deviceClass  = "gpu"
	// mostDevices is how many a node has at most: fewer than pods find room there.
	mostDevices = 2
)

// addSlice makes the devices of a node.
func (c *cluster) addSlice(w *world, node string) {
	s := &resourcev1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: node, UID: types.UID("slice-" + node)},
		Spec: resourcev1.ResourceSliceSpec{
			Driver: deviceDriver, NodeName: &node, Pool: resourcev1.ResourcePool{Name: node, ResourceSliceCount: 1},
		},
	}
	for i := range 1 + w.rng.IntN(mostDevices) {
		s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{Name: fmt.Sprint("gpu-", i)})
	}
	w.api.put(events.KindResourceSlice, s)
}

// wantsDevice has most pods want a device, by a claim that is made for each from a template.
func wantsDevice(w *world, p *corev1.Pod) (claim *resourcev1.ResourceClaim) {
	if !w.chance(75) {
		return nil
	}
	name, template, controls := p.Name+"-gpu", "gpu", true
	p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: &template}}
	p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "gpu", ResourceClaimName: &name}}
	return &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: types.UID("claim-" + p.Name),
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID, Controller: &controls,
			}},
		},
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
			Name: "r", Exactly: &resourcev1.ExactDeviceRequest{
				DeviceClassName: deviceClass, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1,
			},
		}}}},
	}
}

func (a *apiServer) claim(uid string) (*resourcev1.ResourceClaim, bool) {
	c, ok := a.objects[events.KindResourceClaim][uid].(*resourcev1.ResourceClaim)
	return c, ok
}

// claims are all claims to devices, in the order of their UIDs.
func (a *apiServer) claims() (out []*resourcev1.ResourceClaim) {
	for _, uid := range slices.Sorted(maps.Keys(a.objects[events.KindResourceClaim])) {
		c, _ := a.claim(uid)
		out = append(out, c)
	}
	return out
}

// devicesOf are the names of a node's devices.
func (a *apiServer) devicesOf(node string) (names []string) {
	s, ok := a.objects[events.KindResourceSlice]["slice-"+node].(*resourcev1.ResourceSlice)
	if !ok {
		return nil
	}
	for i := range s.Spec.Devices {
		names = append(names, node+"/"+s.Spec.Devices[i].Name)
	}
	return names
}

// deviceOf is the device that a claim has; empty for none.
func deviceOf(c *resourcev1.ResourceClaim) string {
	if c.Status.Allocation == nil {
		return ""
	}
	r := c.Status.Allocation.Devices.Results[0]
	return r.Pool + "/" + r.Device
}

// claimController does what Kubernetes' controller for claims and the garbage collector do, to a share of the claims:
// pods that are deleted or have ended are removed from the users of a claim, unused devices are deallocated, and
// claims are deleted with the pod that they were made for.
func (w *world) claimController(percent int) {
	for _, c := range w.api.claims() {
		if !w.chance(percent) {
			continue
		}
		stays := slices.DeleteFunc(slices.Clone(c.Status.ReservedFor),
			func(u resourcev1.ResourceClaimConsumerReference) bool {
				p, ok := w.api.pod(string(u.UID))
				return !ok || p.Status.Phase == corev1.PodSucceeded
			})
		_, owned := w.api.pod(string(c.OwnerReferences[0].UID))
		n := c.DeepCopy()
		switch {
		case len(stays) != len(c.Status.ReservedFor) && len(stays) > 0:
			n.Status.ReservedFor = stays
			w.api.put(events.KindResourceClaim, n)
		case len(stays) != len(c.Status.ReservedFor):
			n.Status.ReservedFor, n.Status.Allocation = nil, nil
			w.api.put(events.KindResourceClaim, n)
			n = n.DeepCopy()
			n.Finalizers = nil
			w.api.put(events.KindResourceClaim, n)
			w.hit("devices given back")
		case owned || c.Status.Allocation != nil:
		case len(c.Finalizers) > 0 && c.DeletionTimestamp == nil:
			now := metav1.Unix(int64(w.api.rv), 0)
			n.DeletionTimestamp = &now
			w.api.put(events.KindResourceClaim, n)
		default:
			w.api.remove(events.KindResourceClaim, string(c.UID))
		}
	}
}

// checkDevices is S15: no device is in two claims, and a pod that is bound has its own.
func (o *oracle) checkDevices() {
	has, byPod := map[string]string{}, map[string]string{}
	for _, c := range o.w.api.claims() {
		device := deviceOf(c)
		if device == "" {
			continue
		}
		if other, taken := has[device]; taken {
			o.w.note("S15", "device %s is in claims %s and %s", device, other, c.Name)
		}
		has[device] = c.Name
		for _, u := range c.Status.ReservedFor {
			byPod[string(u.UID)] = device
		}
	}
	for _, p := range o.w.api.pods() {
		if len(p.Spec.ResourceClaims) == 0 || p.Spec.NodeName == "" || p.Status.Phase == corev1.PodSucceeded {
			continue
		}
		if !slices.Contains(o.w.api.devicesOf(p.Spec.NodeName), byPod[string(p.UID)]) {
			o.w.note("S15", "pod %s is bound to %s, and has device %q", p.Name, p.Spec.NodeName, byPod[string(p.UID)])
		}
	}
}

// leaked is L7: a claim that has a device although no pod that is bound uses it; nil if there is none.
func (o *oracle) leaked() error {
	for _, c := range o.w.api.claims() {
		if deviceOf(c) == "" {
			continue
		}
		if !slices.ContainsFunc(c.Status.ReservedFor, func(u resourcev1.ResourceClaimConsumerReference) bool {
			p, ok := o.w.api.pod(string(u.UID))
			return ok && p.Spec.NodeName != ""
		}) {
			return fmt.Errorf("L7: claim %s has device %s, and no pod that is bound uses it", c.Name, deviceOf(c))
		}
	}
	return nil
}

// deviceTaken: a pod wants a device, and a node has none that is free.
func (o *oracle) deviceTaken(p *corev1.Pod, node string) bool {
	if len(p.Spec.ResourceClaims) == 0 {
		return false
	}
	taken := map[string]bool{}
	for _, c := range o.w.api.claims() {
		taken[deviceOf(c)] = true
	}
	return !slices.ContainsFunc(o.w.api.devicesOf(node), func(d string) bool { return !taken[d] })
}
