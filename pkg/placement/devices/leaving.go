package devices

import (
	"slices"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Leave treats a pod as gone until Return. Claims that no other pod uses or will use give their devices back, as
// Kubernetes' claim controller does when the last user of a claim is gone, whether or not the claim was created
// for the pod. It reports whether any device has become free. Facts and promises must not change between Leave
// and Return.
//
// It is how preemption asks which devices the eviction of a pod would free, without a copy of the index.
func (x *Index) Leave(pod *state.Pod, objects rule.Objects) (changed bool) {
	x.left[pod.UID] = true
	return x.updateClaims(pod, objects)
}

// Return undoes Leave. It reports whether any device is taken again.
func (x *Index) Return(pod *state.Pod, objects rule.Objects) (changed bool) {
	delete(x.left, pod.UID)
	return x.updateClaims(pod, objects)
}

// updateClaims frees or takes again the devices of a pod's claims, after the pod has left or come back.
func (x *Index) updateClaims(pod *state.Pod, objects rule.Objects) (changed bool) {
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

// indexed is an Objects with an index of its own. Rules that are compiled with it see the devices of that index.
type indexed struct {
	lookups
	index *Index
}

// Devices implements Memory.
func (o indexed) Devices() *Index { return o.index }

// WithoutUsers returns the objects with an index of their own in which devices used only by these pods are free.
// restore must be called at the end: the index may be the caller's, which is changed meanwhile.
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
