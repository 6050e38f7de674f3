package placementtest

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Drivers: of GPUs on nodes, of parts of them, and of devices on a network. The class "lost" has no object.
const (
	gpuDriver     = "gpu.example.com"
	partDriver    = "part.example.com"
	networkDriver = "network.example.com"
)

var deviceClassNames = []string{"gpu", "gpu", "gpu", "large", "part", "network", "any"}

func (g *Generator) deviceClass(name string) *resourcev1.DeviceClass {
	c := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + g.next(name))}}
	expressions := map[string]string{
		"gpu":   `device.driver == "` + gpuDriver + `"`,
		"large": `device.driver == "` + gpuDriver + `" && device.attributes["` + gpuDriver + `"].model == "large"`,
		"part":  `device.driver == "` + partDriver + `"`, "network": `device.driver == "` + networkDriver + `"`,
	}
	if e := expressions[name]; e != "" {
		c.Spec.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: e}}}
	}
	if name == "gpu" && g.Chance(70) {
		resource := string(gpu)
		c.Spec.ExtendedResourceName = &resource
		c.CreationTimestamp = metav1.Unix(int64(g.IntN(3)), 0)
	}
	g.listSelector(c)
	return c
}

// asksForResources makes containers of a pod request resources that devices may back.
func (g *Generator) asksForResources(p *corev1.Pod) {
	ask := func(c *corev1.Container) {
		if c.Resources.Requests == nil {
			c.Resources.Requests = corev1.ResourceList{}
		}
		name := Pick(g, gpu, corev1.ResourceName(resourcev1.ResourceDeviceClassPrefix+Pick(g, "part", "gpu", "none")))
		c.Resources.Requests[name] = *resource.NewQuantity(int64(g.IntN(3)), resource.DecimalSI)
	}
	for i := range p.Spec.InitContainers {
		if g.Chance(50) {
			ask(&p.Spec.InitContainers[i])
		}
	}
	for i := range p.Spec.Containers {
		if g.Chance(70) {
			ask(&p.Spec.Containers[i])
		}
	}
}

// devices draws classes, and pools beyond nodes, before any pod.
func (g *Generator) devices(c *Cluster) {
	for _, name := range []string{"gpu", "large", "part", "network", "any"} {
		c.put(events.KindDeviceClass, g.deviceClass(name))
	}
	for range g.IntN(3) {
		c.put(events.KindResourceSlice, g.networkSlice())
	}
}

// claimsToDevices draws claims once the nodes are known.
func (g *Generator) claimsToDevices(c *Cluster) {
	for range 10 + g.IntN(25) {
		c.put(events.KindResourceClaim, g.deviceClaim(c))
	}
}

func (g *Generator) slice(name, driver, pool string) *resourcev1.ResourceSlice {
	return &resourcev1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + g.next(name))},
		Spec: resourcev1.ResourceSliceSpec{
			Driver: driver, Pool: resourcev1.ResourcePool{Name: pool, Generation: 1, ResourceSliceCount: 1},
		},
	}
}

// nodeSlices returns the devices of a node. Occasionally a pool is incomplete.
func (g *Generator) nodeSlices(node string) []*resourcev1.ResourceSlice {
	s := g.slice("gpus-"+node, gpuDriver, node)
	s.Spec.NodeName = &node
	for i := range 1 + g.IntN(4) {
		s.Spec.Devices = append(s.Spec.Devices, g.device(fmt.Sprint("gpu-", i)))
	}
	if g.Chance(8) {
		s.Spec.Pool.ResourceSliceCount = 2
	}
	list := []*resourcev1.ResourceSlice{s}
	if g.Chance(40) {
		list = append(list, g.partitionable(node)...)
	}
	return list
}

func (g *Generator) device(name string) resourcev1.Device {
	model, numa := Pick(g, "small", "large"), int64(g.IntN(2))
	d := resourcev1.Device{Name: name, Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
		"model": {StringValue: &model}, "numa": {IntValue: &numa},
	}}
	d.Capacity = map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{
		"memory": {Value: *resource.NewQuantity(Pick[int64](g, 8, 16)<<30, resource.BinarySI)},
	}
	switch n := g.IntN(100); {
	case n < 15:
		d.Taints = []resourcev1.DeviceTaint{{
			Key: "health", Value: "poor",
			Effect: Pick(g, resourcev1.DeviceTaintEffectNoSchedule, resourcev1.DeviceTaintEffectNoExecute),
		}}
	case n < 30:
		shared := true
		d.AllowMultipleAllocations = &shared
	case n < 38:
		d.BindingConditions, d.BindingFailureConditions = []string{"ready"}, []string{"broken"}
	}
	g.listAttributes(&d)
	return d
}

// partitionable returns devices that are parts of one device and consume its counters.
func (g *Generator) partitionable(node string) []*resourcev1.ResourceSlice {
	amount := func(n int64) map[string]resourcev1.Counter {
		return map[string]resourcev1.Counter{"memory": {Value: *resource.NewQuantity(n, resource.DecimalSI)}}
	}
	counters, parts := g.slice("counters-"+node, partDriver, node), g.slice("parts-"+node, partDriver, node)
	counters.Spec.NodeName, parts.Spec.NodeName = &node, &node
	counters.Spec.Pool.ResourceSliceCount, parts.Spec.Pool.ResourceSliceCount = 2, 2
	counters.Spec.SharedCounters = []resourcev1.CounterSet{{Name: "whole", Counters: amount(4)}}
	for i, size := range []int64{4, 2, 2, 1} {
		parts.Spec.Devices = append(parts.Spec.Devices, resourcev1.Device{
			Name:             fmt.Sprint("part-", i),
			ConsumesCounters: []resourcev1.DeviceCounterConsumption{{CounterSet: "whole", Counters: amount(size)}},
		})
	}
	return []*resourcev1.ResourceSlice{counters, parts}
}

// networkSlice returns a pool that some or all nodes reach.
func (g *Generator) networkSlice() *resourcev1.ResourceSlice {
	name, all := g.next("network"), true
	s := g.slice(name, networkDriver, name)
	if g.Chance(40) {
		s.Spec.AllNodes = &all
	} else {
		s.Spec.NodeSelector = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"z1", Pick(g, "z2", "z3")}},
			},
		}}}
	}
	for i := range 1 + g.IntN(3) {
		s.Spec.Devices = append(s.Spec.Devices, g.device(fmt.Sprint("nic-", i)))
	}
	return s
}

// deviceClaim draws a claim with a new name: with its devices, or still without.
func (g *Generator) deviceClaim(c *Cluster) *resourcev1.ResourceClaim {
	claim := &resourcev1.ResourceClaim{ObjectMeta: g.meta(Pick(g, namespaces...), "devices")}
	for i := range 1 + g.IntN(2) {
		claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, g.deviceRequest(fmt.Sprint("r", i)))
	}
	if g.Chance(15) {
		attribute := resourcev1.FullyQualifiedName(gpuDriver + "/numa")
		claim.Spec.Devices.Constraints = []resourcev1.DeviceConstraint{{MatchAttribute: &attribute}}
	}
	g.listConstraint(claim)
	if g.Chance(45) {
		g.allocated(claim, c)
	}
	if g.rarely() {
		claim.Finalizers = []string{resourcev1.Finalizer}
		claim.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	}
	return claim
}

func (g *Generator) deviceRequest(name string) resourcev1.DeviceRequest {
	if g.Chance(25) {
		r := resourcev1.DeviceRequest{Name: name}
		for i := range 2 + g.IntN(2) {
			r.FirstAvailable = append(r.FirstAvailable, resourcev1.DeviceSubRequest{
				Name: fmt.Sprint("s", i), DeviceClassName: g.deviceClassName(),
				AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1 + g.Int64N(2),
			})
		}
		return r
	}
	e := &resourcev1.ExactDeviceRequest{
		DeviceClassName: g.deviceClassName(), AllocationMode: resourcev1.DeviceAllocationModeExactCount,
		Count: Pick[int64](g, 1, 1, 1, 2, 3),
	}
	if g.Chance(8) {
		e.AllocationMode, e.Count = resourcev1.DeviceAllocationModeAll, 0
	}
	if g.Chance(15) {
		e.Tolerations = []resourcev1.DeviceToleration{{Key: "health", Operator: resourcev1.DeviceTolerationOpExists}}
	}
	if yes := true; g.Chance(6) {
		e.AdminAccess = &yes
	}
	if g.Chance(15) {
		e.Capacity = &resourcev1.CapacityRequirements{Requests: map[resourcev1.QualifiedName]resource.Quantity{
			"memory": *resource.NewQuantity(6<<30, resource.BinarySI),
		}}
	}
	return resourcev1.DeviceRequest{Name: name, Exactly: e}
}

func (g *Generator) deviceClassName() string {
	if g.Chance(3) {
		return "lost"
	}
	return Pick(g, deviceClassNames...)
}

// hasOwner reports whether a claim has a device.
func hasOwner(driver, pool, device string, c *Cluster) bool {
	for _, obj := range c.Others[events.KindResourceClaim] {
		claim, ok := obj.(*resourcev1.ResourceClaim)
		if !ok || claim.Status.Allocation == nil {
			continue
		}
		for _, r := range claim.Status.Allocation.Devices.Results {
			if r.Driver == driver && r.Pool == pool && r.Device == device && r.ShareID == nil {
				return true
			}
		}
	}
	return false
}

// allocated gives a claim a device for its first request, and some users.
func (g *Generator) allocated(claim *resourcev1.ResourceClaim, c *Cluster) {
	slices := c.Others[events.KindResourceSlice]
	if len(slices) == 0 {
		return
	}
	s, ok := Pick(g, slices...).(*resourcev1.ResourceSlice)
	if !ok || len(s.Spec.Devices) == 0 {
		return
	}
	d := Pick(g, s.Spec.Devices...)
	if hasOwner(s.Spec.Driver, s.Spec.Pool.Name, d.Name, c) {
		return // upstream forgets that it is taken when the first of two owners is gone
	}
	result := resourcev1.DeviceRequestAllocationResult{
		Request: "r0", Driver: s.Spec.Driver, Pool: s.Spec.Pool.Name, Device: d.Name,
		BindingConditions: d.BindingConditions, BindingFailureConditions: d.BindingFailureConditions,
	}
	if d.AllowMultipleAllocations != nil {
		share := types.UID(g.next("share"))
		result.ShareID = &share
		result.ConsumedCapacity = map[resourcev1.QualifiedName]resource.Quantity{"memory": d.Capacity["memory"].Value}
	}
	a := &resourcev1.AllocationResult{}
	a.Devices.Results = []resourcev1.DeviceRequestAllocationResult{result}
	a.NodeSelector = s.Spec.NodeSelector
	if s.Spec.NodeName != nil {
		a.NodeSelector = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchFields: []corev1.NodeSelectorRequirement{
				{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{*s.Spec.NodeName}},
			},
		}}}
	}
	claim.Status.Allocation = a
	for i := range g.IntN(3) {
		claim.Status.ReservedFor = append(claim.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{
			Resource: "pods", Name: fmt.Sprint("user-", i), UID: types.UID(fmt.Sprint("uid-user-", i)),
		})
	}
	if len(result.BindingConditions) > 0 && g.Chance(60) {
		claim.Status.Devices = []resourcev1.AllocatedDeviceStatus{{
			Driver: result.Driver, Pool: result.Pool, Device: result.Device,
			Conditions: []metav1.Condition{{Type: Pick(g, "ready", "broken"), Status: metav1.ConditionTrue, Reason: "Drawn"}},
		}}
	}
}

// asksForDevices gives a pod claims, named explicitly or as if created for it.
func (g *Generator) asksForDevices(p *corev1.Pod, c *Cluster) {
	if g.Chance(30) {
		if g.asksForResources(p); g.Chance(60) {
			return
		}
	}
	for i := range 1 + g.IntN(2) {
		name, template := g.deviceClaimName(p, c), "template"
		claim := corev1.PodResourceClaim{Name: fmt.Sprint("d", i)}
		if g.Chance(80) {
			claim.ResourceClaimName = &name
			p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, claim)
			continue
		}
		claim.ResourceClaimTemplateName = &template
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, claim)
		status := corev1.PodResourceClaimStatus{Name: claim.Name, ResourceClaimName: &name}
		if g.Chance(20) {
			status.ResourceClaimName = nil
		}
		if !g.Chance(15) {
			p.Status.ResourceClaimStatuses = append(p.Status.ResourceClaimStatuses, status)
		}
	}
}

func (g *Generator) deviceClaimName(p *corev1.Pod, c *Cluster) string {
	var names []string
	for _, claim := range c.Others[events.KindResourceClaim] {
		if claim.GetNamespace() == p.Namespace {
			names = append(names, claim.GetName())
		}
	}
	if len(names) == 0 || g.Chance(2) {
		return "no-such-claim"
	}
	return Pick(g, names...)
}

// deviceEvent changes devices, claims or classes.
func (g *Generator) deviceEvent(c *Cluster) Event {
	if g.Size.Alpha && g.Chance(20) {
		return g.taintRuleEvent(c)
	}
	kind := Pick(g, events.KindResourceClaim, events.KindResourceClaim, events.KindResourceSlice, events.KindDeviceClass)
	existing := c.Others[kind]
	if len(existing) > 0 && g.Chance(20) {
		return Event{What: string(kind) + " removed", Kind: kind, Old: Pick(g, existing...)}
	}
	var obj state.APIObject
	switch kind {
	case events.KindResourceClaim:
		obj = g.deviceClaim(c)
	case events.KindResourceSlice:
		obj = Pick(g, g.nodeSlices(g.nodeName(c))[0], g.networkSlice())
	default:
		obj = g.deviceClass(Pick(g, deviceClassNames...))
	}
	e := Event{What: string(kind) + " added", Kind: kind, New: obj, Old: c.find(kind, obj.GetNamespace(), obj.GetName())}
	if e.Old == nil && kind == events.KindResourceClaim && len(existing) > 0 && g.Chance(60) {
		e.replace(Pick(g, existing...))
	}
	return e.changed()
}
