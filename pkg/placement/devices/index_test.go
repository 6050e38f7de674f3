package devices

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	_ "github.com/berth-scheduler/berth/pkg/seedtest" // seed of rapid
	"github.com/berth-scheduler/berth/pkg/state"
)

// drawAllocation allocates some of the devices that drawSlice makes, and some that do not exist.
func drawAllocation(t *rapid.T) *resourcev1.AllocationResult {
	a := &resourcev1.AllocationResult{}
	for range rapid.IntRange(1, 3).Draw(t, "results") {
		r := resourcev1.DeviceRequestAllocationResult{
			Driver: rapid.SampledFrom([]string{"a.example.com", "b.example.com"}).Draw(t, "driver"),
			Pool:   fmt.Sprintf("pool-%d", rapid.IntRange(0, 3).Draw(t, "pool")),
			Device: fmt.Sprintf("d-%d", rapid.IntRange(0, 4).Draw(t, "device")),
		}
		switch rapid.IntRange(0, 5).Draw(t, "kind") {
		case 0:
			admin := true
			r.AdminAccess = &admin
		case 1, 2:
			share := types.UID(fmt.Sprintf("share-%d", rapid.IntRange(0, 2).Draw(t, "share")))
			r.ShareID = &share
			r.ConsumedCapacity = map[resourcev1.QualifiedName]resource.Quantity{
				// Derived from the share's name, because a promise and an allocation of the same share are equal.
				"memory": *resource.NewQuantity(int64(share[len(share)-1]-'0'), resource.DecimalSI),
			}
		}
		a.Devices.Results = append(a.Devices.Results, r)
	}
	return a
}

// promisedTo is one existing promise.
type promisedTo struct {
	claim, pod string
	allocation *resourcev1.AllocationResult
}

// An index that applied every change equals one that is filled from scratch.
func TestDeviceIndexFollows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &deviceWorld{store: state.New()}
		index, promises := &Index{}, []promisedTo(nil)
		index.Fill(w.store.Snapshot())
		for step := range rapid.IntRange(1, 30).Draw(t, "steps") {
			switch rapid.IntRange(0, 6).Draw(t, "what") {
			case 0, 1:
				s := drawSlice(t, rapid.IntRange(0, 3).Draw(t, "slice"))
				switch rapid.IntRange(0, 9).Draw(t, "reach") {
				case 0:
					s.Spec.NodeName = nil
				case 1, 2, 3:
					other := "m"
					s.Spec.NodeName = &other
				}
				w.follow(t, index, events.KindResourceSlice, s, rapid.IntRange(0, 4).Draw(t, "gone") == 0)
			case 2, 3:
				name := fmt.Sprintf("claim-%d", rapid.IntRange(0, 4).Draw(t, "claim"))
				claim := &resourcev1.ResourceClaim{ObjectMeta: objectMeta(name)}
				if rapid.Bool().Draw(t, "allocated") {
					claim.Status.Allocation = drawAllocation(t)
				}
				w.follow(t, index, events.KindResourceClaim, claim, rapid.IntRange(0, 4).Draw(t, "gone") == 0)
			case 4:
				p := promisedTo{
					fmt.Sprintf("uid-claim-%d", rapid.IntRange(0, 4).Draw(t, "to")),
					fmt.Sprintf("pod-%d", rapid.IntRange(0, 2).Draw(t, "for")), nil,
				}
				if rapid.IntRange(0, 4).Draw(t, "new") > 0 {
					p.allocation = drawAllocation(t)
				}
				promises = append(promises, p)
				index.Promise(p.claim, p.pod, p.allocation)
			case 5:
				if len(promises) > 0 {
					at := rapid.IntRange(0, len(promises)-1).Draw(t, "back")
					index.Withdraw(promises[at].claim, promises[at].pod, promises[at].allocation)
					promises = slices.Delete(promises, at, at+1)
				}
			case 6:
				w.follow(t, index, events.KindDeviceTaintRule, drawTaintRule(t), rapid.IntRange(0, 3).Draw(t, "gone") == 0)
			}
			fresh := &Index{}
			fresh.Fill(w.store.Snapshot())
			for _, p := range promises {
				fresh.Promise(p.claim, p.pod, p.allocation)
			}
			if diff := cmp.Diff(fresh.String(), index.String()); diff != "" {
				t.Fatalf("step %d: anew (-) and followed (+) differ:\n%s", step, diff)
			}
		}
	})
}

// follow applies a new version of an object, or its deletion, to the store and the index.
func (w *deviceWorld) follow(t *rapid.T, x *Index, kind events.Kind, obj state.APIObject, gone bool) {
	data, err := obj.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	w.sequence++
	fact := events.Fact{
		Kind: kind, Op: events.OpUpsert, UID: string(obj.GetUID()), Namespace: obj.GetNamespace(), Name: obj.GetName(),
		ResourceVersion: w.sequence, Progress: w.sequence, Object: data,
	}
	if gone {
		fact.Op, fact.Object = events.OpDelete, nil
	}
	changes, err := w.store.Apply([]events.SequencedFact{{Sequence: w.sequence, Fact: fact}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range changes.Others {
		x.Apply(c)
	}
}

// A share without consumed capacity remains when another share is removed.
func TestShareOfNothingStays(t *testing.T) {
	give := func(share types.UID, amount int64) *resourcev1.AllocationResult {
		return &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
			Results: []resourcev1.DeviceRequestAllocationResult{{
				Driver: "a", Pool: "p", Device: "d", ShareID: &share,
				ConsumedCapacity: map[resourcev1.QualifiedName]resource.Quantity{
					"m": *resource.NewQuantity(amount, resource.DecimalSI),
				},
			}},
		}}
	}
	x := &Index{}
	x.Fill(rule.NoObjects{})
	two := give("s2", 5)
	x.Promise("one", "p", give("s1", 0))
	x.Promise("two", "q", two)
	x.Withdraw("two", "q", two)
	if got := slices.Collect(maps.Values(x.allocated.AggregatedCapacity)); len(got) != 1 || !got[0].Empty() {
		t.Errorf("consumed is %v, want nothing of one device", got)
	}
}
