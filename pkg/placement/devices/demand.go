package devices

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Demand holds the requirements of a pod's devices on a node. It is both the filter and the scorer of the rule,
// for one pod and one state of the cluster, and not safe for concurrent use: it caches results.
type Demand struct {
	// claims holds all claims, in the order in which the pod names them; lacking holds those that have no devices
	// yet.
	claims  []demandedClaim
	lacking []*resourcev1.ResourceClaim
	// extended holds the extended resources that the pod requests and that devices may provide; nil for none.
	extended *extendedRequest
	// fast, if not nil, can evaluate most nodes; devices can evaluate all of them, and is created when it is
	// first needed, because it reads all slices.
	fast    *plainSearch
	devices *search
	// index is nil until it is needed, see deviceIndex.
	index    *Index
	compiled *cel.Cache
	objects  rule.Objects
	// outcomes caches results by node: they are expensive and needed more than once.
	outcomes map[*corev1.Node]outcome
}

// demandedClaim is one claim as its object describes it.
type demandedClaim struct {
	claim *resourcev1.ResourceClaim
	// version is the resourceVersion that a Pick refers to, so that a write to a changed claim fails.
	version uint64
	// nodes selects the nodes where its devices can be used; nil for all.
	nodes *nodeaffinity.NodeSelector
	// reserved reports whether the claim already lists the pod as a user.
	reserved bool
	// failed reports whether one of its devices will never be ready.
	failed bool
}

// add classifies a claim, or returns why the pod has to wait: the claim has as many users as it can have, another
// decision has promised devices to it, or a class is missing. Claims that lack devices are appended to lacking.
// Source: dynamicresources.go PreFilter.
func (d *Demand) add(pod *state.Pod, o *state.Object, objects rule.Objects) (why string, err error) {
	claim, ok := o.API.(*resourcev1.ResourceClaim)
	if !ok {
		return "", fmt.Errorf("object %s is a %T, want a ResourceClaim", o.Name, o.API)
	}
	c := demandedClaim{claim: claim, version: o.ResourceVersion, reserved: reservedFor(claim, pod.UID)}
	allocation := claim.Status.Allocation
	switch {
	case allocation != nil && !resourceclaim.CanBeReserved(claim) && !c.reserved:
		return "resourceclaim in use", nil
	case allocation != nil && d.deviceIndex().isMapped(allocation):
		return refusesMapped, nil
	case allocation != nil && allocation.NodeSelector != nil:
		if c.nodes, err = nodeaffinity.NewNodeSelector(allocation.NodeSelector); err != nil {
			return "", err
		}
	case allocation == nil:
		if m, ok := objects.(Memory); ok && m.Devices().Allocating(o.UID) {
			return fmt.Sprintf("resource claim %s/%s is in the process of being allocated", o.Namespace, o.Name), nil
		}
		if why, err := lacksClass(claim, objects); why != "" || err != nil {
			return why, err
		}
		d.lacking = append(d.lacking, claim)
	}
	if allocation != nil {
		_, problem := Ready(claim)
		c.failed = problem != ""
	}
	d.claims = append(d.claims, c)
	return "", nil
}

// outcome is the result of the rule for one node.
type outcome struct {
	// Why is empty for a node that passes.
	Why string
	// allocations are in the order of lacking, followed by that of made. unselected reports that devices are
	// available but have not been selected yet, so that allocations is empty.
	allocations []resourcev1.AllocationResult
	unselected  bool
	// made is the claim to be created, nil for none.
	made *MadeClaim
}

// Judge evaluates one node, and caches the result by its object. A node fails if it lacks devices, or if a claim
// that has devices cannot be used there. Source: dynamicresources.go Filter.
func (d *Demand) Judge(node *state.Node) outcome {
	if o, known := d.outcomes[node.Object]; known {
		return o
	}
	o := d.findDevices(node)
	if o.Why == "" && d.isUnusable(node.Object) {
		o.Why = "resourceclaim not available on the node"
	}
	d.outcomes[node.Object] = o
	return o
}

// findDevices evaluates whether a node has the devices that are still lacking. It leaves open which devices those
// are where that is not needed to decide it.
func (d *Demand) findDevices(node *state.Node) (o outcome) {
	lacking := d.lacking
	if d.extended != nil {
		if o.made, o.Why = d.extended.claimOn(node); o.Why != "" {
			return o
		}
		if o.made != nil {
			lacking = append(slices.Clone(lacking), o.made.Claim)
		}
	}
	if len(lacking) == 0 {
		return o
	}
	// Plain devices first: a count of bits.
	if d.fast != nil {
		if enough, known := d.fast.hasEnough(node.Name); known {
			o.unselected = enough
			if !enough {
				o.Why = CannotAllocate
			}
			return o
		}
	}
	// The general search is made once per pod and state of the cluster, and used for all nodes.
	if d.devices == nil {
		var err error
		if d.devices, err = newDeviceSearch(d.compiled, d.objects, d.deviceIndex()); err != nil {
			return outcome{Why: err.Error()}
		}
	}
	o.allocations, o.Why = d.devices.allocate(node.Object, lacking)
	for i := range o.allocations {
		if d.index.isMapped(&o.allocations[i]) {
			return outcome{Why: refusesMapped}
		}
	}
	return o
}

// selectDevices is Judge, but also selects the devices. It is called once per decision, for the chosen node.
func (d *Demand) selectDevices(node *state.Node) outcome {
	o := d.Judge(node)
	if !o.unselected || o.Why != "" {
		return o
	}
	search, err := d.fast.search(node.Object, d.objects)
	if err != nil {
		return outcome{Why: err.Error()}
	}
	o.unselected = false
	o.allocations, o.Why = search.allocate(node.Object, d.lacking)
	d.outcomes[node.Object] = o
	return o
}

// isUnusable reports whether a claim has devices that cannot be used on a node, or on any node.
func (d *Demand) isUnusable(node *corev1.Node) bool {
	for i := range d.claims {
		c := &d.claims[i]
		if c.failed || c.nodes != nil && !c.nodes.Match(node) {
			return true
		}
	}
	return false
}

// Check implements Filter. Every failure is unresolvable, as upstream: package preempt decides by itself where
// the eviction of pods would free devices. The fast search comes first and needs no cache.
func (d *Demand) Check(n *state.NodeInfo) rule.Code {
	if d.fast != nil {
		if enough, known := d.fast.hasEnough(n.Node.Name); known {
			if !enough || d.isUnusable(n.Node.Object) {
				return rule.UnschedulableAndUnresolvable
			}
			return rule.Success
		}
	}
	if d.Judge(n.Node).Why != "" {
		return rule.UnschedulableAndUnresolvable
	}
	return rule.Success
}

// Explain implements Filter.
func (d *Demand) Explain(n *state.NodeInfo) []string {
	return []string{d.Judge(n.Node).Why}
}

// prioritized reports whether a request has alternatives, of which earlier ones are preferred, and whether they
// are still to be chosen.
func (d *Demand) prioritized() bool {
	for i := range d.claims {
		for j := range d.claims[i].claim.Spec.Devices.Requests {
			if len(d.claims[i].claim.Spec.Devices.Requests[j].FirstAvailable) > 0 {
				return len(d.lacking) > 0
			}
		}
	}
	return false
}

// Score implements Scorer: nodes where earlier alternatives are available score higher. Source:
// dynamicresources.go computeScore.
func (d *Demand) Score(n *state.NodeInfo) int64 {
	fresh := d.Judge(n.Node).allocations
	var score int64
	for i := range d.claims {
		allocation := d.claims[i].claim.Status.Allocation
		if allocation == nil && len(fresh) > 0 {
			allocation, fresh = &fresh[0], fresh[1:]
		}
		if allocation != nil {
			score += preference(d.claims[i].claim, allocation)
		}
	}
	return score
}

// preference returns more points for earlier alternatives: for each request with alternatives, the largest number
// of alternatives (8) minus the position of the one that was taken.
func preference(claim *resourcev1.ResourceClaim, allocation *resourcev1.AllocationResult) (points int64) {
	taken := map[string]bool{}
	for i := range allocation.Devices.Results {
		taken[allocation.Devices.Results[i].Request] = true
	}
	for i := range claim.Spec.Devices.Requests {
		r := &claim.Spec.Devices.Requests[i]
		for j := range r.FirstAvailable {
			if taken[resourceclaim.CreateSubRequestRef(r.Name, r.FirstAvailable[j].Name)] {
				points += int64(resourcev1.FirstAvailableDeviceRequestMaxSize - j)
			}
		}
	}
	return points
}

// plainSearch returns the quick search for the claims without devices, or nil if the quick search cannot handle
// them. It handles one claim with one request for a number of devices, without constraints between devices,
// without alternatives and without capacity, in a cluster where every slice belongs to one node.
func (d *Demand) plainSearch(compiled *cel.Cache, objects rule.Objects) *plainSearch {
	if d.extended != nil || len(d.lacking) != 1 || len(d.lacking[0].Spec.Devices.Requests) != 1 ||
		len(d.lacking[0].Spec.Devices.Constraints) != 0 {
		return nil
	}
	r := d.lacking[0].Spec.Devices.Requests[0].Exactly
	if r == nil || ptr.Deref(r.AdminAccess, false) || r.Capacity != nil ||
		r.AllocationMode != resourcev1.DeviceAllocationModeExactCount ||
		r.Count < 1 || r.Count > resourcev1.AllocationResultsMaxSize {
		return nil
	}
	class, ok := rule.Find[*resourcev1.DeviceClass](objects, events.KindDeviceClass, "", r.DeviceClassName)
	if !ok {
		return nil
	}
	selectors := slices.Concat(class.Spec.Selectors, r.Selectors)
	if slices.ContainsFunc(selectors, func(s resourcev1.DeviceSelector) bool { return s.CEL == nil }) {
		return nil
	}
	index := d.deviceIndex()
	if len(index.multiNode) > 0 {
		return nil
	}
	return &plainSearch{
		index: index, compiled: compiled, selectors: selectors, count: int(r.Count), cache: index.verdictsOf(selectors),
	}
}

// Recount counts again when a pod is removed (-1) or put back (1): devices become free together with the pods
// whose claims hold them. Results that the change may affect are dropped: those of the general search, which was
// made for the old state; the fast search reads the index every time.
func (d *Demand) Recount(_ *state.Node, pod *state.Pod, by int) {
	if len(d.lacking) == 0 && d.extended == nil || pod.Template == nil || !rule.HasDeviceClaims(&pod.Template.Spec) {
		return
	}
	change := d.deviceIndex().Return
	if by < 0 {
		change = d.deviceIndex().Leave
	}
	if change(pod, d.objects) {
		clear(d.outcomes)
		d.devices = nil
	}
}

// deviceIndex returns the device index, and creates it on first use. Where the objects keep one (Memory), that
// costs nothing; otherwise it is filled from all claims and slices.
func (d *Demand) deviceIndex() *Index {
	if d.index == nil {
		d.index = IndexOf(d.objects)
	}
	return d.index
}

// picks returns the writes that the outcome requires. A claim that already has devices and lists the pod needs
// none; fresh holds the new allocations that are left, in the order of the claims without devices. Allocations
// are copied, because the outcome is cached.
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
		list = append(list, d.extended.pick(outcome.made, &fresh[0], seed))
	}
	return list
}
