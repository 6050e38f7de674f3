package devices

import (
	"fmt"

	"github.com/cespare/xxhash/v2"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Pick is a claim in the pod's namespace that has to be written before the pod is bound, so that the pod becomes
// one of its users. A reservation carries the picks of its pod, and the binder writes them.
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
// share ID follows the name. Two shards that place pods on two nodes could both take such a device, so that the
// ledger has to compare more than the documents of the nodes.
type PoolUse struct {
	Driver, Pool string
	Items        []string
}

// Picks implements Profile.DevicePicks: it compiles the pod again and selects devices on one node. ok is false if
// the node would be rejected, because the cluster has changed since the evaluation.
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
	selected := d.selectDevices(node)
	if selected.Why != "" {
		return nil, false
	}
	return d.picks(selected, seed), true
}

// nameShares names the shares of devices. Upstream's allocator uses random names, but a decision must be
// reproducible. uid is that of the claim, or of the pod for a claim that does not exist yet.
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
// nodes. Devices that only one node reaches are guarded together with the node. Example: a pool of
// network-attached accelerators, one slice of which is for all nodes: the ledger has to compare a key of the pool
// as well, so that two shards do not give one accelerator to pods on two nodes.
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
	// A pool is shared if one of its slices is not this node's alone.
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

// itemOf names an allocated device within its pool.
func itemOf(r *resourcev1.DeviceRequestAllocationResult) string {
	if r.ShareID == nil {
		return r.Device
	}
	return r.Device + "#" + string(*r.ShareID)
}
