package devices

import (
	"fmt"

	"github.com/cespare/xxhash/v2"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Pick is a claim in the pod's namespace that has to be written before the pod is bound, so that the pod
// becomes one of its users.
type Pick struct {
	// UID is empty for a claim that has yet to be created.
	Claim, UID string
	// Version is the resourceVersion of the claim that the decision is based on; 0 with an empty UID.
	Version uint64
	// Allocation is the allocation to write to the claim; nil if it already has its devices.
	Allocation *resourcev1.AllocationResult
	// Made is set for the claim that is created for extended resources of the pod.
	Made *MadeClaim
}

// PoolUse names the devices that a pod gets from a pool that other nodes reach as well. For a shared device, the
// share ID follows the name.
type PoolUse struct {
	Driver, Pool string
	Items        []string
}

// Picks implements Profile.DevicePicks.
func (p Plugin) Picks(
	pod *state.Pod, node *state.Node, objects rule.Objects, seed uint64,
) (picks []Pick, ok bool) {
	c, err := p.Compile(pod, objects)
	if err != nil || c.Rejection != "" {
		return nil, false
	}
	d, ok := c.Filter.(*Demand)
	if !ok {
		return nil, true
	}
	outcome := d.settle(node)
	if outcome.Why != "" {
		return nil, false
	}
	return d.picks(outcome, seed), true
}

func (d *Demand) picks(outcome outcome, seed uint64) []Pick {
	var list []Pick
	fresh := outcome.allocations
	for i := range d.claims {
		c := &d.claims[i]
		pick := Pick{Claim: c.claim.Name, UID: string(c.claim.UID), Version: c.version}
		switch {
		case c.claim.Status.Allocation == nil:
			pick.Allocation, fresh = fresh[0].DeepCopy(), fresh[1:]
			nameShares(pick.Allocation, pick.UID, seed)
		case c.reserved:
			continue
		}
		list = append(list, pick)
	}
	if outcome.made != nil {
		list = append(list, d.wish.pick(outcome.made, &fresh[0], seed))
	}
	return list
}

// pick returns the claim to be created, with its devices. An existing claim with the same spec is reused.
func (w *wish) pick(made *MadeClaim, fresh *resourcev1.AllocationResult, seed uint64) Pick {
	pick := Pick{Claim: made.Claim.Name, Allocation: fresh.DeepCopy(), Made: made}
	if w.existing != nil && equality.Semantic.DeepEqual(w.existing.Spec, made.Claim.Spec) {
		pick.UID, pick.Version = string(w.existing.UID), w.version
	}
	nameShares(pick.Allocation, w.pod.UID, seed)
	return pick
}

// nameShares names the shares of devices. Upstream's allocator uses random names, but a decision must be
// reproducible.
func nameShares(a *resourcev1.AllocationResult, uid string, seed uint64) {
	for i := range a.Devices.Results {
		r := &a.Devices.Results[i]
		if r.ShareID == nil {
			continue
		}
		text := fmt.Sprintf("%s/%d", uid, i)
		high, low := xxhash.NewWithSeed(seed), xxhash.NewWithSeed(^seed)
		_, _ = high.WriteString(text) // a hash never fails
		_, _ = low.WriteString(text)
		r.ShareID = ptr.To(randomUUID(high.Sum64(), low.Sum64()))
	}
}

// randomUUID returns a UUID made of the given random bits. Source: RFC 9562, version 4.
func randomUUID(high, low uint64) types.UID {
	high = high&^0xf000 | 0x4000
	low = low&^(3<<62) | 2<<62
	return types.UID(fmt.Sprintf("%08x-%04x-%04x-%04x-%012x",
		high>>32, high>>16&0xffff, high&0xffff, low>>48, low&(1<<48-1)))
}

// SharedPools returns the pools from which the picks take devices that could also be allocated to pods on other
// nodes. Devices that only one node reaches are guarded together with the node.
func SharedPools(picks []Pick, nodeName string, objects rule.Objects) []PoolUse {
	type pool struct{ driver, name string }
	items, order := map[pool][]string{}, []pool{}
	for i := range picks {
		if picks[i].Allocation == nil {
			continue
		}
		for j := range picks[i].Allocation.Devices.Results {
			r := &picks[i].Allocation.Devices.Results[j]
			if ptr.Deref(r.AdminAccess, false) {
				continue
			}
			of := pool{r.Driver, r.Pool}
			if _, known := items[of]; !known {
				order = append(order, of)
			}
			items[of] = append(items[of], itemOf(r))
		}
	}
	if len(order) == 0 {
		return nil
	}
	beyond := map[pool]bool{}
	for o := range rule.OrNone(objects).Objects(events.KindResourceSlice) {
		if s, ok := o.API.(*resourcev1.ResourceSlice); ok && ptr.Deref(s.Spec.NodeName, "") != nodeName {
			beyond[pool{s.Spec.Driver, s.Spec.Pool.Name}] = true
		}
	}
	var list []PoolUse
	for _, of := range order {
		if beyond[of] {
			list = append(list, PoolUse{Driver: of.driver, Pool: of.name, Items: items[of]})
		}
	}
	return list
}

func itemOf(r *resourcev1.DeviceRequestAllocationResult) string {
	if r.ShareID == nil {
		return r.Device
	}
	return r.Device + "#" + string(*r.ShareID)
}

// Ready reports whether the devices of a claim are ready, so that a pod that uses it can be bound. problem
// is set if a device reports that it will never be ready. Source: dynamicresources.go isClaimReadyForBinding.
func Ready(claim *resourcev1.ResourceClaim) (ready bool, problem string) {
	if claim.Status.Allocation == nil {
		return false, ""
	}
	for i := range claim.Status.Allocation.Devices.Results {
		r := &claim.Status.Allocation.Devices.Results[i]
		if len(r.BindingConditions) == 0 {
			continue
		}
		conditions, known := conditionsOf(claim, r)
		if !known {
			return false, ""
		}
		for _, name := range r.BindingFailureConditions {
			if c := meta.FindStatusCondition(conditions, name); c != nil && c.Status == metav1.ConditionTrue {
				return false, fmt.Sprintf("device %s/%s/%s of claim %s: %s: %s",
					r.Driver, r.Pool, r.Device, claim.Name, c.Reason, c.Message)
			}
		}
		for _, name := range r.BindingConditions {
			if !meta.IsStatusConditionTrue(conditions, name) {
				return false, ""
			}
		}
	}
	return true, ""
}

func conditionsOf(
	claim *resourcev1.ResourceClaim, r *resourcev1.DeviceRequestAllocationResult,
) (conditions []metav1.Condition, known bool) {
	for i := range claim.Status.Devices {
		d := &claim.Status.Devices[i]
		if d.Driver == r.Driver && d.Pool == r.Pool && d.Device == r.Device &&
			ptr.Deref(d.ShareID, "") == string(ptr.Deref(r.ShareID, "")) {
			return d.Conditions, true
		}
	}
	return nil, false
}
