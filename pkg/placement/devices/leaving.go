package devices

import (
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// leaving records the pods that an index temporarily treats as gone, and what is free because of that.
type leaving struct {
	// left holds these pods by UID.
	left map[string]bool
	// freed holds the allocations and promises of claims, by UID, all of whose users have left.
	freed map[string][]*resourcev1.AllocationResult
}

// Leave treats a pod as gone until Return. Claims that no other pod uses or will use give their devices back, as
// Kubernetes' claim controller does when the last user of a claim is gone, whether or not the claim was created for
// the pod. It reports whether any device has become free. Facts and promises must not change between Leave and
// Return.
func (x *Index) Leave(pod *state.Pod, objects rule.Objects) (changed bool) {
	x.left[pod.UID] = true
	return x.regard(pod, objects)
}

// Return undoes Leave. It reports whether any device is taken again.
func (x *Index) Return(pod *state.Pod, objects rule.Objects) (changed bool) {
	delete(x.left, pod.UID)
	return x.regard(pod, objects)
}

// regard updates the claims of a pod that has left or come back.
func (x *Index) regard(pod *state.Pod, objects rule.Objects) (changed bool) {
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

// counted returns all allocations that count for a claim.
func (x *Index) counted(claim *resourcev1.ResourceClaim) []*resourcev1.AllocationResult {
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

// unused reports whether all current and future users of a claim have left. A claim without users frees nothing:
// the devices that it still has are either being taken from it already, or are kept for its next user.
func (x *Index) unused(claim *resourcev1.ResourceClaim) bool {
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

// usedClaims returns those claims of a pod that exist.
func usedClaims(pod *state.Pod, objects rule.Objects) (claims []*resourcev1.ResourceClaim) {
	if pod.Template == nil || !rule.HasDeviceClaims(&pod.Template.Spec) {
		return nil
	}
	named := claimNamer(pod)
	for i := range pod.Template.Spec.ResourceClaims {
		name, _, err := resourceclaim.Name(named, &pod.Template.Spec.ResourceClaims[i])
		if err != nil || name == nil {
			continue
		}
		if claim, ok := rule.Find[*resourcev1.ResourceClaim](objects, events.KindResourceClaim, pod.Namespace, *name); ok {
			claims = append(claims, claim)
		}
	}
	return claims
}

// lookups gives the embedded interface a name that differs from its method Objects.
type lookups = rule.Objects

// indexed is an Objects with an index of its own.
type indexed struct {
	lookups
	index *Index
}

// Devices implements Memory.
func (o indexed) Devices() *Index { return o.index }

// WithoutUsers returns the objects with an index of their own in which devices used only by these pods are free.
// restore must be called at the end.
func WithoutUsers(objects rule.Objects, gone []*state.Pod) (without rule.Objects, restore func()) {
	index := IndexOf(objects)
	without = indexed{objects, index}
	for _, pod := range gone {
		index.Leave(pod, without)
	}
	return without, func() {
		for _, pod := range slices.Backward(gone) {
			index.Return(pod, without)
		}
	}
}

// Recount counts again when a pod is removed (-1) or put back (1): devices become free together with the pods whose
// claims hold them.
func (d *Demand) Recount(_ *state.Node, pod *state.Pod, by int) {
	if len(d.lacking) == 0 && d.wish == nil || pod.Template == nil || !rule.HasDeviceClaims(&pod.Template.Spec) {
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

// known returns the device index, and creates it on first use.
func (d *Demand) known() *Index {
	if d.index == nil {
		d.index = IndexOf(d.objects)
	}
	return d.index
}
