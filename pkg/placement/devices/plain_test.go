package devices

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

// deviceWorld is a store with a class and the devices of one node.
type deviceWorld struct {
	store    *state.Store
	sequence uint64
}

func (w *deviceWorld) apply(t *rapid.T, kind events.Kind, obj state.APIObject) {
	data, err := obj.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	w.sequence++
	_, err = w.store.Apply([]events.SequencedFact{{Sequence: w.sequence, Fact: events.Fact{
		Kind: kind, Op: events.OpUpsert, UID: string(obj.GetUID()), Namespace: obj.GetNamespace(), Name: obj.GetName(),
		ResourceVersion: w.sequence, Progress: w.sequence, Object: data,
	}}})
	if err != nil {
		t.Fatal(err)
	}
}

func objectMeta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)}
}

// drawSlice draws a pool of a node, most often of plain devices.
func drawSlice(t *rapid.T, i int) *resourcev1.ResourceSlice {
	node := "n"
	s := &resourcev1.ResourceSlice{ObjectMeta: objectMeta(fmt.Sprintf("slice-%d", i)), Spec: resourcev1.ResourceSliceSpec{
		Driver: rapid.SampledFrom([]string{"a.example.com", "b.example.com"}).Draw(t, "driver"), NodeName: &node,
		Pool: resourcev1.ResourcePool{Name: fmt.Sprintf("pool-%d", rapid.IntRange(0, 3).Draw(t, "pool")),
			ResourceSliceCount: rapid.SampledFrom([]int64{1, 1, 1, 2}).Draw(t, "count")},
	}}
	for d := range rapid.IntRange(0, 4).Draw(t, "devices") {
		device := resourcev1.Device{Name: fmt.Sprintf("d-%d", d)}
		switch rapid.IntRange(0, 11).Draw(t, "kind") {
		case 0:
			device.Taints = []resourcev1.DeviceTaint{{Key: "k", Effect: resourcev1.DeviceTaintEffectNoSchedule}}
		case 1:
			device.Name = "d-0"
		case 2, 3, 4:
			model := rapid.SampledFrom([]string{"x", "y"}).Draw(t, "model")
			device.Attributes = map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"model": {StringValue: &model}}
		}
		s.Spec.Devices = append(s.Spec.Devices, device)
	}
	return s
}

// Where the quick answer is known, it equals the allocator's, and so do the devices that are found.
func TestPlainDevicesAreTheAllocators(t *testing.T) {
	known := map[bool]int{}
	rapid.Check(t, func(t *rapid.T) {
		w := &deviceWorld{store: state.New()}
		expression := rapid.SampledFrom([]string{
			`true`, `device.driver == "a.example.com"`, `device.attributes["a.example.com"].model == "x"`,
		}).Draw(t, "expression")
		class := &resourcev1.DeviceClass{ObjectMeta: objectMeta("c")}
		class.Spec.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: expression}}}
		w.apply(t, events.KindDeviceClass, class)
		for i := range rapid.IntRange(0, 3).Draw(t, "slices") {
			s := drawSlice(t, i)
			w.apply(t, events.KindResourceSlice, s)
			for _, d := range s.Spec.Devices {
				if rapid.Bool().Draw(t, "taken") {
					taken := &resourcev1.ResourceClaim{ObjectMeta: objectMeta(fmt.Sprintf("taken-%d", w.sequence))}
					taken.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
						Results: []resourcev1.DeviceRequestAllocationResult{
							{Driver: s.Spec.Driver, Pool: s.Spec.Pool.Name, Device: d.Name},
						},
					}}
					w.apply(t, events.KindResourceClaim, taken)
				}
			}
		}
		for range rapid.IntRange(0, 2).Draw(t, "rules") {
			w.apply(t, events.KindDeviceTaintRule, drawTaintRule(t))
		}
		claim := &resourcev1.ResourceClaim{ObjectMeta: objectMeta("claim")}
		claim.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{
			DeviceClassName: "c", AllocationMode: resourcev1.DeviceAllocationModeExactCount,
			Count: rapid.Int64Range(1, 3).Draw(t, "wanted"),
		}}}
		compiled := NewExpressions()
		objects := w.store.Snapshot()
		demand := func() *Demand {
			return &Demand{
				lacking: []*resourcev1.ResourceClaim{claim}, outcomes: map[*corev1.Node]outcome{},
				compiled: compiled, objects: objects,
			}
		}
		quick, slow := demand(), demand()
		node := state.NewNode(&corev1.Node{ObjectMeta: objectMeta("n")})
		if quick.fast = quick.plainSearch(compiled, objects); quick.fast == nil {
			t.Fatal("a single request for a number of devices is not plain")
		}
		_, answered := quick.fast.hasEnough("n")
		known[answered]++
		if got, want := quick.Judge(node).Why, slow.Judge(node).Why; got != want {
			t.Fatalf("%q, the allocator says %q", got, want)
		}
		got, want := quick.selectDevices(node).allocations, slow.selectDevices(node).allocations
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("devices %v, the allocator takes %v", got, want)
		}
	})
	if known[true] == 0 || known[false] == 0 {
		t.Errorf("known and not known: %v, want both", known)
	}
}
