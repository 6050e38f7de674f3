package devices

import (
	"fmt"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	"pgregory.net/rapid"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/seedtest"
	"github.com/berth-scheduler/berth/pkg/state"
)

// drawTaintRule draws a rule about devices that drawSlice makes.
func drawTaintRule(t *rapid.T) *resourcev1beta2.DeviceTaintRule {
	r := &resourcev1beta2.DeviceTaintRule{
		ObjectMeta: objectMeta(fmt.Sprintf("rule-%d", rapid.IntRange(0, 2).Draw(t, "rule"))),
	}
	r.Spec.Taint = resourcev1beta2.DeviceTaint{Key: "drain", Effect: rapid.SampledFrom([]resourcev1beta2.DeviceTaintEffect{
		resourcev1beta2.DeviceTaintEffectNoSchedule, resourcev1beta2.DeviceTaintEffectNone,
	}).Draw(t, "effect")}
	of := &resourcev1beta2.DeviceTaintSelector{}
	if rapid.Bool().Draw(t, "by driver") {
		of.Driver = new("a.example.com")
	}
	if rapid.Bool().Draw(t, "by pool") {
		of.Pool = new(fmt.Sprintf("pool-%d", rapid.IntRange(0, 3).Draw(t, "tainted pool")))
	}
	if rapid.Bool().Draw(t, "by device") {
		of.Device = new(fmt.Sprintf("d-%d", rapid.IntRange(0, 4).Draw(t, "tainted device")))
	}
	if rapid.IntRange(0, 5).Draw(t, "selects all") > 0 {
		r.Spec.DeviceSelector = of
	}
	return r
}

// attempts is how many pods are tried while rules come and go.
const attempts = 10_000

// drained is a cluster of four nodes with four devices each, and pods for one device. Rules about it are kept beside
// the store, so that what is given can be compared with them.
type drained struct {
	*testing.T
	*rand.Rand
	store    *state.Store
	index    *Index
	sequence uint64
	rules    map[string]*resourcev1beta2.DeviceTaintRule
}

// put applies a new version of an object, or its deletion.
func (d *drained) put(kind events.Kind, obj state.APIObject, gone bool) []state.ObjectChange {
	d.Helper()
	data, err := obj.Marshal()
	if err != nil {
		d.Fatal(err)
	}
	d.sequence++
	fact := events.Fact{
		Kind: kind, Op: events.OpUpsert, UID: string(obj.GetUID()), Namespace: obj.GetNamespace(), Name: obj.GetName(),
		ResourceVersion: d.sequence, Progress: d.sequence, Object: data,
	}
	if gone {
		fact.Op, fact.Object = events.OpDelete, nil
	}
	changes, err := d.store.Apply([]events.SequencedFact{{Sequence: d.sequence, Fact: fact}})
	if err != nil {
		d.Fatal(err)
	}
	for _, c := range changes.Others {
		d.index.Apply(c)
	}
	return changes.Others
}

// newDrained returns the cluster, with a claim that the pods use.
func newDrained(t *testing.T, seed uint64) *drained {
	d := &drained{
		T: t, Rand: rand.New(rand.NewPCG(seed, 0)), store: state.New(), index: &Index{},
		rules: map[string]*resourcev1beta2.DeviceTaintRule{},
	}
	d.index.Fill(d.store.Snapshot())
	d.put(events.KindDeviceClass, &resourcev1.DeviceClass{ObjectMeta: objectMeta("c")}, false)
	for n := range 4 {
		node := fmt.Sprintf("n%d", n)
		s := &resourcev1.ResourceSlice{ObjectMeta: objectMeta("slice-" + node), Spec: resourcev1.ResourceSliceSpec{
			Driver: "gpu.example.com", NodeName: &node,
			Pool: resourcev1.ResourcePool{Name: node, ResourceSliceCount: 1},
		}}
		for i := range 4 {
			s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{Name: fmt.Sprintf("gpu-%d", i)})
		}
		d.put(events.KindResourceSlice, s, false)
	}
	return d
}

// claimFor creates the claim of an attempt. Some tolerate the taint.
func (d *drained) claimFor(tolerates bool) (*resourcev1.ResourceClaim, *state.Pod) {
	claim := &resourcev1.ResourceClaim{ObjectMeta: objectMeta("claim")}
	claim.Namespace = "default"
	request := &resourcev1.ExactDeviceRequest{
		DeviceClassName: "c", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1 + d.Int64N(2),
	}
	if tolerates {
		request.Tolerations = []resourcev1.DeviceToleration{{Operator: resourcev1.DeviceTolerationOpExists}}
	}
	claim.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "r", Exactly: request}}
	d.put(events.KindResourceClaim, claim, false)
	pod := &corev1.Pod{ObjectMeta: objectMeta("pod")}
	pod.Namespace = "default"
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: new("claim")}}
	return claim, state.NewPod(pod)
}

// changeRule adds, changes or removes a rule.
func (d *drained) changeRule() {
	name := fmt.Sprintf("rule-%d", d.IntN(6))
	if r, ok := d.rules[name]; ok && d.IntN(2) == 0 {
		d.put(events.KindDeviceTaintRule, r, true)
		delete(d.rules, name)
		return
	}
	r := &resourcev1beta2.DeviceTaintRule{ObjectMeta: objectMeta(name)}
	r.Spec.Taint = resourcev1beta2.DeviceTaint{Key: "drain", Effect: resourcev1beta2.DeviceTaintEffectNoExecute}
	of := &resourcev1beta2.DeviceTaintSelector{Pool: new(fmt.Sprintf("n%d", d.IntN(4)))}
	if d.IntN(4) > 0 {
		of.Device = new(fmt.Sprintf("gpu-%d", d.IntN(4)))
	}
	r.Spec.DeviceSelector = of
	d.put(events.KindDeviceTaintRule, r, false)
	d.rules[name] = r
}

// tainted reports whether a rule selects a device.
func (d *drained) tainted(pool, device string) bool {
	for _, r := range d.rules {
		of := r.Spec.DeviceSelector
		if *of.Pool == pool && (of.Device == nil || *of.Device == device) {
			return true
		}
	}
	return false
}

// withIndex is the state of the cluster with the index that follows it.
type withIndex struct {
	*state.Snapshot
	index *Index
}

// Devices implements Memory.
func (o withIndex) Devices() *Index { return o.index }

// TestNoTaintedDeviceIsGiven: while rules come and go, no pod gets a device that a rule taints, unless its claim
// tolerates that; and a node is refused only if it lacks devices without taints.
func TestNoTaintedDeviceIsGiven(t *testing.T) {
	d := newDrained(t, seedtest.First(t, 0))
	plugin, err := New(nil)
	if err != nil {
		t.Fatal(err)
	}
	given, refused := 0, 0
	for i := range attempts {
		d.changeRule()
		tolerates := d.IntN(10) == 0
		claim, pod := d.claimFor(tolerates)
		node := state.NewNode(&corev1.Node{ObjectMeta: objectMeta(fmt.Sprintf("n%d", d.IntN(4)))})
		free := 0
		for g := range 4 {
			if tolerates || !d.tainted(node.Name, fmt.Sprintf("gpu-%d", g)) {
				free++
			}
		}
		objects := withIndex{d.store.Snapshot(), d.index}
		compiled, err := plugin.Compile(pod, objects)
		if err != nil || compiled.Rejection != "" {
			t.Fatalf("attempt %d: %v, %s", i, err, compiled.Rejection)
		}
		want := int64(free) >= claim.Spec.Devices.Requests[0].Exactly.Count
		if got := compiled.Filter.Check(state.NewNodeInfo(node)) == rule.Success; got != want {
			t.Fatalf("attempt %d: the node passes: %t, but %d devices are free of taints", i, got, free)
		}
		picks, ok := plugin.(Plugin).Picks(pod, node, objects, 1)
		if ok != want {
			t.Fatalf("attempt %d: devices are picked: %t, want %t", i, ok, want)
		}
		if !ok {
			refused++
			continue
		}
		for _, r := range picks[0].Allocation.Devices.Results {
			given++
			if d.tainted(r.Pool, r.Device) && !tolerates {
				t.Fatalf("attempt %d: device %s/%s is given and tainted", i, r.Pool, r.Device)
			}
		}
	}
	if given < attempts/10 || refused < attempts/10 {
		t.Errorf("%d devices given and %d pods refused of %d: want a tenth of each", given, refused, attempts)
	}
}

// TestRulesWake: a pod that was refused is woken by a rule that goes or changes, and not by a new one.
func TestRulesWake(t *testing.T) {
	d := newDrained(t, 1)
	_, pod := d.claimFor(false)
	wakes := func(changes []state.ObjectChange) bool {
		t.Helper()
		if len(changes) != 1 {
			t.Fatalf("%d changes, want 1", len(changes))
		}
		change := rule.ObjectChange(changes[0])
		for _, e := range (Plugin{}).Events() {
			if change.Is(e) && (Plugin{}).Hint(pod, change) {
				return true
			}
		}
		return false
	}
	r := &resourcev1beta2.DeviceTaintRule{ObjectMeta: objectMeta("rule")}
	if wakes(d.put(events.KindDeviceTaintRule, r, false)) {
		t.Error("a new rule wakes the pod: it can only add taints")
	}
	r = r.DeepCopy()
	r.Spec.DeviceSelector = &resourcev1beta2.DeviceTaintSelector{Driver: new("other")}
	if !wakes(d.put(events.KindDeviceTaintRule, r, false)) {
		t.Error("a changed rule does not wake the pod")
	}
	if !wakes(d.put(events.KindDeviceTaintRule, r, true)) {
		t.Error("a removed rule does not wake the pod")
	}
}

// TestMappedDevicesAreRefused: a pod that would get, or has, a device that takes resources of its node is refused, with
// a reason that names the feature; a node whose devices take none passes.
func TestMappedDevicesAreRefused(t *testing.T) {
	d := newDrained(t, 1)
	_, pod := d.claimFor(false)
	node := "mapped"
	s := &resourcev1.ResourceSlice{ObjectMeta: objectMeta("slice-mapped"), Spec: resourcev1.ResourceSliceSpec{
		Driver: "cpu.example.com", NodeName: &node, Pool: resourcev1.ResourcePool{Name: node, ResourceSliceCount: 1},
		Devices: []resourcev1.Device{{Name: "cpus"}, {Name: "more"}},
	}}
	for i := range s.Spec.Devices {
		s.Spec.Devices[i].NodeAllocatableResourceMappings = map[corev1.ResourceName]resourcev1.NodeAllocatableResourceMapping{
			corev1.ResourceCPU: {},
		}
	}
	d.put(events.KindResourceSlice, s, false)
	check := func(name string) (rule.Code, []string) {
		t.Helper()
		compiled, err := Plugin{NewExpressions()}.Compile(pod, withIndex{d.store.Snapshot(), d.index})
		if err != nil || compiled.Rejection != "" {
			t.Fatalf("%v, %s", err, compiled.Rejection)
		}
		n := state.NewNodeInfo(state.NewNode(&corev1.Node{ObjectMeta: objectMeta(name)}))
		code := compiled.Filter.Check(n)
		if code == rule.Success {
			return code, nil
		}
		return code, compiled.Filter.Explain(n)
	}
	if code, why := check(node); code == rule.Success || len(why) != 1 || why[0] != refusesMapped {
		t.Errorf("%s %q, want %q", code, why, refusesMapped)
	}
	if code, why := check("n0"); code != rule.Success {
		t.Errorf("another node: %s %q, want Success", code, why)
	}
	claim := &resourcev1.ResourceClaim{ObjectMeta: objectMeta("claim")}
	claim.Namespace = "default"
	claim.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
		Results: []resourcev1.DeviceRequestAllocationResult{
			{Request: "r", Driver: "cpu.example.com", Pool: node, Device: "cpus"},
		},
	}}
	d.put(events.KindResourceClaim, claim, false)
	compiled, err := Plugin{NewExpressions()}.Compile(pod, withIndex{d.store.Snapshot(), d.index})
	if err != nil || compiled.Rejection != refusesMapped {
		t.Errorf("a claim that has such a device: %v %q, want %q", err, compiled.Rejection, refusesMapped)
	}
	d.put(events.KindResourceSlice, s, true)
	compiled, err = Plugin{NewExpressions()}.Compile(pod, withIndex{d.store.Snapshot(), d.index})
	if err != nil || compiled.Rejection != "" {
		t.Errorf("a device that is no longer published: %v %q, want no rejection", err, compiled.Rejection)
	}
}

// TestConstraintsOverLists: devices match if they share a value of their lists, and are distinct if they share none.
func TestConstraintsOverLists(t *testing.T) {
	attribute := resourcev1.FullyQualifiedName("gpu.example.com/numa")
	match := resourcev1.DeviceConstraint{MatchAttribute: &attribute}
	distinct := resourcev1.DeviceConstraint{DistinctAttribute: &attribute}
	for name, test := range map[string]struct {
		constraint resourcev1.DeviceConstraint
		one, two   []int64
		found      bool
	}{
		"share a value":         {match, []int64{0, 1}, []int64{1, 2}, true},
		"share none":            {match, []int64{0}, []int64{1, 2}, false},
		"distinct":              {distinct, []int64{0}, []int64{1, 2}, true},
		"not distinct":          {distinct, []int64{0, 1}, []int64{1, 2}, false},
		"one value and a list":  {match, []int64{1}, []int64{1, 2}, true},
		"one value, not listed": {match, []int64{3}, []int64{1, 2}, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDrained(t, 1)
			node := "listed"
			device := func(name string, values []int64) resourcev1.Device {
				a := resourcev1.DeviceAttribute{IntValues: values}
				if len(values) == 1 {
					a = resourcev1.DeviceAttribute{IntValue: &values[0]}
				}
				return resourcev1.Device{
					Name: name, Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"numa": a},
				}
			}
			d.put(events.KindResourceSlice, &resourcev1.ResourceSlice{
				ObjectMeta: objectMeta("slice-listed"), Spec: resourcev1.ResourceSliceSpec{
					Driver: "gpu.example.com", NodeName: &node,
					Pool:    resourcev1.ResourcePool{Name: node, ResourceSliceCount: 1},
					Devices: []resourcev1.Device{device("one", test.one), device("two", test.two)},
				},
			}, false)
			_, pod := d.claimFor(false)
			claim := &resourcev1.ResourceClaim{ObjectMeta: objectMeta("claim")}
			claim.Namespace = "default"
			claim.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{
				DeviceClassName: "c", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 2,
			}}}
			claim.Spec.Devices.Constraints = []resourcev1.DeviceConstraint{test.constraint}
			d.put(events.KindResourceClaim, claim, false)
			compiled, err := Plugin{NewExpressions()}.Compile(pod, withIndex{d.store.Snapshot(), d.index})
			if err != nil {
				t.Fatal(err)
			}
			n := state.NewNodeInfo(state.NewNode(&corev1.Node{ObjectMeta: objectMeta(node)}))
			if got := compiled.Filter.Check(n) == rule.Success; got != test.found {
				t.Errorf("the node passes: %t, want %t", got, test.found)
			}
		})
	}
}
