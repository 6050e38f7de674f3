package devices

import (
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Index indexes the devices of one state of the cluster: where they are, and which of them are allocated or
// promised to claims. Its owner reads the facts once (Fill) and applies every change after that, so that a
// decision has no cost per claim; Withdraw undoes Promise. The zero value has not been filled. It is not safe for
// concurrent use.
//
// Example: claim c1 has device gpu-0 by its status. A decision promises gpu-1 to c2: taken is {gpu-0: 1, gpu-1:
// 1}. The binder writes c2, and the fact arrives before the promise is withdrawn: taken[gpu-1] is 2, then 1 again
// after Withdraw. At no moment is gpu-1 free.
type Index struct {
	filled bool
	// nodes holds the nodes that have slices of their own, by name.
	nodes map[string]*nodeDevices
	// multiNode holds the UIDs of slices that more than one node can reach, or that count the consumption of
	// devices. While there is one, the fast search is not used.
	multiNode map[types.UID]struct{}
	// pools holds the slices of nodes by their pool.
	pools map[poolKey][]*nodeSlice
	// taken counts the allocations and promises of each device; allocated is the same in the form that the
	// allocator takes.
	taken     map[structured.DeviceID]int
	allocated structured.AllocatedState
	// shares holds the shares of each device that several claims can use (KEP-5075); shared counts the shares in
	// a pool.
	shares map[structured.DeviceID]map[structured.SharedDeviceID]*share
	shared map[poolKey]int
	// promised holds the promises to a claim, by its UID.
	promised map[string][]claimPromise
	treatedAsGone
	// tainted holds the DeviceTaintRules. mapped holds the slices with devices that take resources of their node, by
	// UID, and listed those with devices that have lists of values as attributes.
	tainted taintRules
	mapped  map[types.UID]*resourcev1.ResourceSlice
	listed  map[types.UID]struct{}
	// verdicts holds the results of selectors for devices, by the text of all their expressions.
	verdicts map[string]*verdicts
}

// share is a share of a device: how many claims and promises refer to it (a promise and a claim may mean the same
// share), and its size.
type share struct {
	uses     int
	consumed map[resourcev1.QualifiedName]resource.Quantity
}

// Memory is implemented by an Objects that also keeps an index of the devices. The index includes promises, which
// the objects do not show.
type Memory interface {
	// Devices returns the index. One that has not been filled yet is filled on first use.
	Devices() *Index
}

// IndexOf returns the index of objects, filled. Objects without an index get one for this call alone, without
// promises.
func IndexOf(objects rule.Objects) *Index {
	x := &Index{}
	if m, ok := objects.(Memory); ok {
		x = m.Devices()
	}
	if !x.filled {
		x.Fill(objects)
	}
	return x
}

// Fill builds the index from scratch from facts, without promises. Promises of before are forgotten.
func (x *Index) Fill(objects rule.Objects) {
	*x = Index{
		filled: true, nodes: map[string]*nodeDevices{}, multiNode: map[types.UID]struct{}{},
		pools: map[poolKey][]*nodeSlice{}, taken: map[structured.DeviceID]int{},
		allocated: structured.AllocatedState{
			AllocatedDevices:         sets.New[structured.DeviceID](),
			AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
			AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
		},
		shares: map[structured.DeviceID]map[structured.SharedDeviceID]*share{}, shared: map[poolKey]int{},
		promised: map[string][]claimPromise{}, verdicts: map[string]*verdicts{},
		treatedAsGone: treatedAsGone{left: map[string]bool{}, freed: map[string][]*resourcev1.AllocationResult{}},
		mapped:        map[types.UID]*resourcev1.ResourceSlice{}, listed: map[types.UID]struct{}{},
	}
	for o := range objects.Objects(events.KindDeviceTaintRule) {
		x.tainted.replace(nil, ruleOf(o))
	}
	for o := range objects.ObjectsOf(events.KindResourceClaim, "") {
		if claim, ok := o.API.(*resourcev1.ResourceClaim); ok {
			x.count(claim.Status.Allocation, 1)
		}
	}
	for o := range objects.Objects(events.KindResourceSlice) {
		if s, ok := o.API.(*resourcev1.ResourceSlice); ok {
			x.addSlice(s)
		}
	}
}

// Apply applies the change of an object; kinds that have nothing to do with devices are ignored, and so is every
// change before Fill. Each change must be applied once: one that is counted twice would keep a device taken.
func (x *Index) Apply(c state.ObjectChange) {
	if !x.filled {
		return
	}
	switch c.Kind {
	case events.KindResourceClaim:
		// The new allocation comes first, so that no device is free in between.
		x.count(rule.AllocationOf(c.After), 1)
		x.count(rule.AllocationOf(c.Before), -1)
	case events.KindResourceSlice:
		if s, ok := sliceOf(c.Before); ok {
			x.dropSlice(s)
		}
		if s, ok := sliceOf(c.After); ok {
			x.addSlice(s)
		}
	case events.KindDeviceTaintRule:
		x.tainted.replace(ruleOf(c.Before), ruleOf(c.After))
		for _, n := range x.nodes {
			for _, s := range n.slices {
				s.tainted = x.tainted.touches(s.ResourceSlice)
			}
			n.sort()
		}
	}
}

// claimPromise is the allocation that was promised to a claim together with a place for a pod that will use it;
// it is nil if the claim already has its devices. Promises are compared by pod and by the pointer of the
// allocation.
type claimPromise struct {
	podUID     string
	allocation *resourcev1.AllocationResult
}

// Promise records what has been promised to a claim, by its UID, for a pod; nil means only that the pod will use
// the claim. It does no harm if the claim already shows the same allocation. a must not be changed afterwards.
func (x *Index) Promise(claimUID, podUID string, a *resourcev1.AllocationResult) {
	x.promised[claimUID] = append(x.promised[claimUID], claimPromise{podUID, a})
	x.count(a, 1)
}

// Withdraw removes a promise, given the same arguments. A promise that is not recorded is ignored.
func (x *Index) Withdraw(claimUID, podUID string, a *resourcev1.AllocationResult) {
	list := x.promised[claimUID]
	at := slices.Index(list, claimPromise{podUID, a})
	if at < 0 {
		return
	}
	if list = slices.Delete(list, at, at+1); len(list) == 0 {
		delete(x.promised, claimUID)
	} else {
		x.promised[claimUID] = list
	}
	x.count(a, -1)
}

// Allocating reports whether a claim, by its UID, has been promised devices.
func (x *Index) Allocating(claimUID string) bool {
	if _, freed := x.freed[claimUID]; freed {
		return false
	}
	return slices.ContainsFunc(x.promised[claimUID], func(p claimPromise) bool { return p.allocation != nil })
}

// count adds an allocation, or removes it if by is -1. Administrative access counts for nothing: it neither takes
// a device nor waits for a free one. Source: allocateddevices.go foreachAllocatedDevice.
func (x *Index) count(a *resourcev1.AllocationResult, by int) {
	if a == nil {
		return
	}
	for i := range a.Devices.Results {
		r := &a.Devices.Results[i]
		switch {
		case ptr.Deref(r.AdminAccess, false): // does not exclude other claims
		case r.ShareID != nil:
			x.countShare(r, by)
		default:
			x.countDevice(r, by)
		}
	}
}

// countDevice adds an allocation of a device or, if by is -1, removes one. Only the first and the last of them
// change whether the device is free, in the allocator's set and in the bits of its slice.
func (x *Index) countDevice(r *resourcev1.DeviceRequestAllocationResult, by int) {
	id := structured.MakeDeviceID(r.Driver, r.Pool, r.Device)
	before := x.taken[id]
	x.taken[id] = before + by
	switch {
	case before == 0 && by > 0:
		x.allocated.AllocatedDevices.Insert(id)
	case before+by == 0:
		delete(x.taken, id)
		x.allocated.AllocatedDevices.Delete(id)
	default:
		return
	}
	for _, s := range x.pools[poolKey{r.Driver, r.Pool}] {
		s.mark(r.Device, by > 0)
	}
}

// countShare counts a share once, however many claims and promises refer to it: the share ID identifies the same
// share in a promise and in a claim.
func (x *Index) countShare(r *resourcev1.DeviceRequestAllocationResult, by int) {
	device := structured.MakeDeviceID(r.Driver, r.Pool, r.Device)
	id := structured.MakeSharedDeviceID(device, r.ShareID)
	of := x.shares[device]
	if of == nil {
		of = map[structured.SharedDeviceID]*share{}
		x.shares[device] = of
	}
	// The first user of a share adds its size to what the device gives.
	s := of[id]
	if s == nil {
		s = &share{consumed: r.ConsumedCapacity}
		of[id] = s
		x.shared[poolKey{r.Driver, r.Pool}]++
		x.allocated.AllocatedSharedDeviceIDs.Insert(id)
		x.consume(device, s)
	}
	if s.uses += by; s.uses > 0 {
		return
	}
	// The last user is gone: the share ends.
	delete(of, id)
	x.allocated.AllocatedSharedDeviceIDs.Delete(id)
	if x.shared[poolKey{r.Driver, r.Pool}]--; x.shared[poolKey{r.Driver, r.Pool}] == 0 {
		delete(x.shared, poolKey{r.Driver, r.Pool})
	}
	// Amounts are summed up from scratch: a share of zero must remain when another one is removed.
	delete(x.allocated.AggregatedCapacity, device)
	for _, left := range of {
		x.consume(device, left)
	}
	if len(of) == 0 {
		delete(x.shares, device)
	}
}

// consume adds the size of a share to the amounts in use of its device.
func (x *Index) consume(device structured.DeviceID, s *share) {
	if s.consumed != nil {
		x.allocated.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(device, s.consumed))
	}
}

// addSlice adds a slice. Devices that claims already have are marked as taken: claims may arrive before slices.
func (x *Index) addSlice(s *resourcev1.ResourceSlice) {
	if hasMappings(s) {
		x.mapped[s.UID] = s
	}
	if hasLists(s) {
		x.listed[s.UID] = struct{}{}
	}
	if isMultiNode(s) {
		x.multiNode[s.UID] = struct{}{}
		return
	}
	own := &nodeSlice{ResourceSlice: s, tainted: x.tainted.touches(s)}
	for i := range min(len(s.Spec.Devices), maxPlainDevices) {
		if x.taken[structured.MakeDeviceID(s.Spec.Driver, s.Spec.Pool.Name, s.Spec.Devices[i].Name)] > 0 {
			own.taken |= 1 << i
		}
	}
	x.pools[own.pool()] = append(x.pools[own.pool()], own)
	n := x.nodes[*s.Spec.NodeName]
	if n == nil {
		n = &nodeDevices{}
		x.nodes[*s.Spec.NodeName] = n
	}
	n.slices = append(n.slices, own)
	n.sort()
}

// dropSlice removes a slice and the results of selectors for its devices. Allocations of its devices still count:
// they are in claims.
func (x *Index) dropSlice(s *resourcev1.ResourceSlice) {
	x.tainted.forget(s)
	delete(x.mapped, s.UID)
	delete(x.listed, s.UID)
	delete(x.multiNode, s.UID)
	n := x.nodes[ptr.Deref(s.Spec.NodeName, "")]
	if n == nil {
		return
	}
	at := slices.IndexFunc(n.slices, func(o *nodeSlice) bool { return o.UID == s.UID })
	if at < 0 {
		return
	}
	own := n.slices[at]
	// Results are kept by slice: without this, they would keep the slice in memory.
	for _, v := range x.verdicts {
		delete(v.of, own)
	}
	pool := slices.DeleteFunc(x.pools[own.pool()], func(o *nodeSlice) bool { return o == own })
	if x.pools[own.pool()] = pool; len(pool) == 0 {
		delete(x.pools, own.pool())
	}
	if n.slices = slices.Delete(n.slices, at, at+1); len(n.slices) == 0 {
		delete(x.nodes, *s.Spec.NodeName)
		return
	}
	n.sort()
}

// isPlain reports whether each slice of a node is a pool of its own with plain devices only, and no device is
// shared. A node without slices is plain.
func (x *Index) isPlain(n *nodeDevices) bool {
	if n == nil || !n.plain || len(x.shared) == 0 {
		return n == nil || n.plain
	}
	return !slices.ContainsFunc(n.slices, func(s *nodeSlice) bool { return x.shared[s.pool()] > 0 })
}

// treatedAsGone records the pods that an index temporarily treats as gone, and what is free because of that.
type treatedAsGone struct {
	// left holds these pods by UID.
	left map[string]bool
	// freed holds the allocations and promises of claims, by UID, all of whose users have left.
	freed map[string][]*resourcev1.AllocationResult
}

// maxVerdicts is the number of selector lists whose verdicts are kept: more than a cluster has classes. One list
// takes some 50 bytes a slice. When there are more, all are dropped.
const maxVerdicts = 64

// verdictsOf returns the cached results of these selectors, which are identified by the text of their
// expressions.
func (x *Index) verdictsOf(selectors []resourcev1.DeviceSelector) *verdicts {
	var key strings.Builder
	for i := range selectors {
		key.WriteString(selectors[i].CEL.Expression)
		key.WriteByte(0)
	}
	v := x.verdicts[key.String()]
	if v == nil {
		if len(x.verdicts) >= maxVerdicts {
			clear(x.verdicts)
		}
		v = &verdicts{of: map[*nodeSlice]uint32{}, bare: map[string]bool{}}
		x.verdicts[key.String()] = v
	}
	return v
}
