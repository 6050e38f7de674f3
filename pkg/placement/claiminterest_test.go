package placement_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	_ "github.com/berth-scheduler/berth/pkg/seedtest" // seed of rapid
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
)

func drawDeviceClaim(t *rapid.T, name string) *resourcev1.ResourceClaim {
	yes := true
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: "x", Name: name, UID: types.UID("uid-" + name),
	}}
	if owner := rapid.SampledFrom([]string{"", "p0", "p1"}).Draw(t, "owner"); owner != "" {
		claim.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: "v1", Kind: "Pod", Name: owner, UID: types.UID("uid-" + owner), Controller: &yes,
		}}
	}
	if rapid.Bool().Draw(t, "has") {
		claim.Status.Allocation = &resourcev1.AllocationResult{}
	}
	return claim
}

// drawClaimant draws a pod with one or two claims, named explicitly or created for it.
func drawClaimant(t *rapid.T, name string) *state.Pod {
	obj := statetest.Pod("x", name)
	obj.UID = types.UID("uid-" + name)
	for i := range rapid.IntRange(1, 2).Draw(t, "claims") {
		of := fmt.Sprintf("c%d", rapid.IntRange(0, 2).Draw(t, "claim"))
		ref := corev1.PodResourceClaim{Name: fmt.Sprint(i)}
		if rapid.Bool().Draw(t, "made") {
			ref.ResourceClaimTemplateName = &of
			if rapid.Bool().Draw(t, "known") {
				obj.Status.ResourceClaimStatuses = append(obj.Status.ResourceClaimStatuses,
					corev1.PodResourceClaimStatus{Name: ref.Name, ResourceClaimName: &of})
			}
		} else {
			ref.ResourceClaimName = &of
		}
		obj.Spec.ResourceClaims = append(obj.Spec.ResourceClaims, ref)
	}
	return state.NewPod(obj)
}

// A change of a claim wakes only pods that have it within reach, and some pods do not.
func TestClaimInterests(t *testing.T) {
	profile, err := placement.NewProfile(placement.DefaultProfile("s"))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		store, sequence := state.New(), uint64(0)
		apply := func(c *resourcev1.ResourceClaim) state.ObjectChange {
			data, err := c.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			sequence++
			changes, err := store.Apply([]events.SequencedFact{{Sequence: sequence, Fact: events.Fact{
				Kind: events.KindResourceClaim, Op: events.OpUpsert, UID: string(c.UID), Namespace: "x", Name: c.Name,
				ResourceVersion: sequence, Progress: sequence, Object: data,
			}}})
			if err != nil || len(changes.Others) != 1 {
				t.Fatalf("%v, %d changes", err, len(changes.Others))
			}
			return changes.Others[0]
		}
		var last state.ObjectChange
		for range rapid.IntRange(1, 5).Draw(t, "claims") {
			last = apply(drawDeviceClaim(t, fmt.Sprintf("c%d", rapid.IntRange(0, 2).Draw(t, "name"))))
		}
		c := rule.ObjectChange(last)
		c.Objects = store.Snapshot()
		pod := drawClaimant(t, rapid.SampledFrom([]string{"p0", "p1"}).Draw(t, "pod"))
		wakes := profile.Wakes(pod, []string{names.DynamicResources}, c)
		within := reachOf{profile.Interest(names.DynamicResources, pod)}.holds(c)
		if wakes && !within {
			t.Fatalf("a pod of %+v is woken by %q", profile.Interest(names.DynamicResources, pod), c.Topics())
		}
		seen[fmt.Sprintf("wakes %t, within reach %t", wakes, within)]++
	})
	if len(seen) != 3 {
		t.Errorf("seen %v, want pods that wake, that do not, and that are not reached", seen)
	}
}
