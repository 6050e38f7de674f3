package placement

import (
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

// leaving is who an index takes for gone, for as long as a question lasts, and what is free on their account.
type leaving struct {
	// left are pods by UID.
	left map[string]bool
	// freed is what claims, by UID, have and have been promised, if all who use them have left.
	freed map[string][]*resourcev1.AllocationResult
}

// Leave takes a pod for gone until Return: claims that nobody else uses, or will use, give their devices
// back, as Kubernetes' controller for claims has it when the last user of one is gone, be it made for the
// pod or not. It says whether anything has become free. Facts and promises must not change in between.
func (x *DeviceIndex) Leave(pod *state.Pod, objects Objects) (changed bool) {
	x.left[pod.UID] = true
	return x.regard(pod, objects)
}

// Return undoes Leave. It says whether anything is taken again.
func (x *DeviceIndex) Return(pod *state.Pod, objects Objects) (changed bool) {
	delete(x.left, pod.UID)
	return x.regard(pod, objects)
}

// regard looks at the claims of a pod that has left or come back.
func (x *DeviceIndex) regard(pod *state.Pod, objects Objects) (changed bool) {
	for _, claim := range usedClaims(pod, objects) {
		uid := string(claim.UID)
		list, freed := x.freed[uid]
		switch free := x.unused(claim); {
		case free && !freed:
			x.freed[uid] = x.counted(claim)
			for _, a := range x.freed[uid] {
				x.count(a, -1)
			}
		case !free && freed:
			delete(x.freed, uid)
			for _, a := range list {
				x.count(a, 1)
			}
		default:
			continue
		}
		changed = true
	}
	return changed
}

// counted is all that counts on account of a claim.
func (x *DeviceIndex) counted(claim *resourcev1.ResourceClaim) []*resourcev1.AllocationResult {
	list := []*resourcev1.AllocationResult{}
	if claim.Status.Allocation != nil {
		list = append(list, claim.Status.Allocation)
	}
	for _, p := range x.promised[string(claim.UID)] {
		if p.allocation != nil {
			list = append(list, p.allocation)
		}
	}
	return list
}

// unused tells whether all who use a claim, or will, have left. One without users has nothing to give:
// what it still has is being taken from it already, or is for whoever comes.
func (x *DeviceIndex) unused(claim *resourcev1.ResourceClaim) bool {
	users := claim.Status.ReservedFor
	promised := x.promised[string(claim.UID)]
	for i := range users {
		if !x.left[string(users[i].UID)] {
			return false
		}
	}
	for _, p := range promised {
		if !x.left[p.podUID] {
			return false
		}
	}
	return len(users)+len(promised) > 0
}

// usedClaims are the claims of a pod as far as there are any.
func usedClaims(pod *state.Pod, objects Objects) (claims []*resourcev1.ResourceClaim) {
	if pod.Template == nil || !hasDeviceClaims(&pod.Template.Spec) {
		return nil
	}
	named := claimNamer(pod)
	for i := range pod.Template.Spec.ResourceClaims {
		name, _, err := resourceclaim.Name(named, &pod.Template.Spec.ResourceClaims[i])
		if err != nil || name == nil {
			continue
		}
		if claim, ok := find[*resourcev1.ResourceClaim](objects, events.KindResourceClaim, pod.Namespace, *name); ok {
			claims = append(claims, claim)
		}
	}
	return claims
}

// lookups gives the embedded interface a name that its method Objects does not have.
type lookups = Objects

// indexed is what is looked up, with an index of its own.
type indexed struct {
	lookups
	index *DeviceIndex
}

// Devices implements DeviceMemory.
func (o indexed) Devices() *DeviceIndex { return o.index }

// recount implements counter: devices become free with the pods whose claims have them.
func (d *deviceDemand) recount(_ *state.Node, pod *state.Pod, by int) {
	if len(d.lacking) == 0 && d.wish == nil || pod.Template == nil || !hasDeviceClaims(&pod.Template.Spec) {
		return
	}
	change := d.known().Return
	if by < 0 {
		change = d.known().Leave
	}
	if change(pod, d.objects) {
		clear(d.outcomes)
		d.devices = nil
	}
}

// known is what is known of devices.
func (d *deviceDemand) known() *DeviceIndex {
	if d.index == nil {
		d.index = deviceIndex(d.objects)
	}
	return d.index
}

// devicesHelp tells whether a node lacks only devices, as far as is known, some of which less important
// pods have. Upstream says of such a node that preemption is of no use.
func (x *preemption) devicesHelp(n *state.NodeInfo) bool {
	if x.rules.KeepDevices || x.eval.rejected != nil || x.eval.isNarrowed(n) {
		return false
	}
	v := x.eval.verdict(n)
	if v < 0 {
		return false
	}
	d, ok := x.eval.filters[v].filter.(*deviceDemand)
	if !ok || d.judge(n.Node).why != cannotAllocate {
		return false
	}
	for p := range n.Pods() {
		if x.mayGo(p) && p.Template != nil && hasDeviceClaims(&p.Template.Spec) {
			return true
		}
	}
	return false
}
