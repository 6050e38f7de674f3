package commit

import (
	"errors"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/placement/devices"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

func specOf(class string) resourcev1.ResourceClaimSpec {
	return resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
		Name: "container-0-request-0", Exactly: &resourcev1.ExactDeviceRequest{
			DeviceClassName: class, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1,
		},
	}}}}
}

// madePick returns the work for a pod that gets a device for a resource, before the claim exists.
func madePick(t *testing.T) ledger.DevicePick {
	t.Helper()
	pick := oneDevice(t)[0]
	pick.Claim, pick.ClaimUID, pick.ClaimRV = devices.MadeClaimName(thePod.Name, thePod.UID), "", 0
	spec := specOf("gpu")
	status := corev1.PodExtendedResourceClaimStatus{ResourceClaimName: pick.Claim,
		RequestMappings: []corev1.ContainerExtendedResourceRequest{{
			ContainerName: "c", ResourceName: "example.com/gpu", RequestName: "container-0-request-0",
		}}}
	var err error
	if pick.Spec, err = spec.Marshal(); err != nil {
		t.Fatal(err)
	}
	if pick.PodStatus, err = status.Marshal(); err != nil {
		t.Fatal(err)
	}
	return pick
}

// existing returns a claim of that name, created for the pod with this UID.
func existing(owner, class string) *resourcev1.ResourceClaim {
	claim := devices.NewMadeClaim("ns", thePod.Name, thePod.UID, specOf(class))
	claim.UID, claim.ResourceVersion = "uid-made", "20"
	claim.OwnerReferences[0].UID = types.UID(owner)
	return claim
}

// numbered gives created objects a UID and a version, as the API server does and the fake does not.
func numbered(client *fake.Clientset) *fake.Clientset {
	client.PrependReactor("create", "resourceclaims", func(a clienttesting.Action) (bool, runtime.Object, error) {
		create, ok := a.(clienttesting.CreateAction)
		if !ok {
			return false, nil, nil
		}
		if claim, ok := create.GetObject().(*resourcev1.ResourceClaim); ok {
			claim.UID, claim.ResourceVersion = "uid-made", "20"
		}
		return false, nil, nil
	})
	return client
}

// TestClaimForResourcesIsMade: it is created once; one of an earlier decision that requests something else is deleted
// first, and one that has devices or belongs to another pod is left alone.
func TestClaimForResourcesIsMade(t *testing.T) {
	allocated := existing(thePod.UID, "gpu")
	allocated.Status.Allocation = &resourcev1.AllocationResult{}
	for name, test := range map[string]struct {
		there *resourcev1.ResourceClaim
		want  effect.Result
		next  effect.Result
	}{
		"none":               {nil, effect.ClaimMade, effect.ClaimMade},
		"the same":           {existing(thePod.UID, "gpu"), effect.ClaimMade, effect.ClaimMade},
		"another class":      {existing(thePod.UID, "other"), effect.Unknown, effect.ClaimMade},
		"of an earlier pod":  {existing("earlier", "gpu"), effect.Refused, effect.Refused},
		"with devices of it": {allocated, effect.Refused, effect.Refused},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset()
			if test.there != nil {
				client = fake.NewClientset(test.there)
			}
			room := executorOf(numbered(client))
			bind := effect.Bind{Op: 7, Pod: thePod, NodeName: "n", Devices: &effect.DeviceWork{
				Picks: []ledger.DevicePick{madePick(t)},
			}}
			for i, want := range []effect.Result{test.want, test.next} {
				got := room.bindings.claims.prepare(t.Context(), bind)
				if got.Result != want || got.Op != 7 {
					t.Fatalf("try %d: %+v, want %s", i, got, want)
				}
				if want == effect.ClaimMade && (got.Made.ClaimUID != "uid-made" || got.Made.ClaimRV != 20) {
					t.Errorf("made %+v, want uid-made at 20", got.Made)
				}
			}
			name := bind.Devices.Picks[0].Claim
			claim, err := client.ResourceV1().ResourceClaims("ns").Get(t.Context(), name, metav1.GetOptions{})
			switch {
			case err != nil:
				t.Fatal(err)
			case (claim.Status.Allocation != nil) != (test.there != nil && test.there.Status.Allocation != nil):
				t.Errorf("the claim has %+v", claim.Status)
			case test.next == effect.ClaimMade && claim.Spec.Devices.Requests[0].Exactly.DeviceClassName != "gpu":
				t.Errorf("the claim asks for %+v", claim.Spec)
			}
		})
	}
}

// TestStatusNamesTheClaim: the status is written with the bind's precondition, and the bind continues from the
// resulting version. If the API server does not keep the field, the pod is not bound.
func TestStatusNamesTheClaim(t *testing.T) {
	kept := corev1.PodStatus{ExtendedResourceClaimStatus: &corev1.PodExtendedResourceClaimStatus{}}
	for name, test := range map[string]struct {
		status  corev1.PodStatus
		moved   bool
		version uint64
		want    effect.Result
	}{
		"as decided": {kept, false, 31, effect.Done}, "moved since": {kept, true, 0, effect.Conflict},
		"not kept": {corev1.PodStatus{}, false, 0, effect.Refused},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
				Namespace: thePod.Namespace, Name: thePod.Name, UID: types.UID(thePod.UID), ResourceVersion: "31",
			}, Status: test.status}
			client := fake.NewClientset(pod)
			client.PrependReactor("patch", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
				patch, ok := a.(clienttesting.PatchAction)
				want := `{"metadata":{"resourceVersion":"` + strconv.Itoa(30) + `","uid":"` + thePod.UID + `"},` +
					`"status":{"extendedResourceClaimStatus":{"requestMappings":[{"containerName":"c",` +
					`"resourceName":"example.com/gpu","requestName":"container-0-request-0"}],` +
					`"resourceClaimName":"` + devices.MadeClaimName(thePod.Name, thePod.UID) + `"}}}`
				if !ok || string(patch.GetPatch()) != want || patch.GetSubresource() != "status" {
					t.Errorf("%s, want %s", patch.GetPatch(), want)
				}
				if test.moved {
					return true, nil, apierrors.NewConflict(corev1.Resource("pods"), thePod.Name, errors.New("it moved"))
				}
				return true, pod, nil
			})
			version, got := executorOf(client).bindings.writeMappings(t.Context(), effect.Bind{
				Op: 7, Pod: thePod, NodeName: "n", ResourceVersion: 30,
				Devices: &effect.DeviceWork{Picks: []ledger.DevicePick{madePick(t)}},
			})
			if got.Result != test.want || got.Op != 7 || version != test.version {
				t.Errorf("%+v at version %d, want %s at %d", got, version, test.want, test.version)
			}
		})
	}
}

// TestClaimForResourcesGoesWithItsReservation: a reservation that is taken back leaves no claim, a claim that was not
// created does not matter, and that of a bound pod stays.
func TestClaimForResourcesGoesWithItsReservation(t *testing.T) {
	for name, kept := range map[string]bool{"taken back": false, "the pod is bound": true} {
		t.Run(name, func(t *testing.T) {
			pick := madePick(t)
			claim := existing(thePod.UID, "gpu")
			var err error
			if claim.Status.Allocation, err = allocationOf(pick); err != nil {
				t.Fatal(err)
			}
			client := fake.NewClientset(claim)
			named := pick
			named.ClaimUID, named.ClaimRV = "uid-made", 15
			_, answer := executorOf(client).bindings.claims.settleClaims(t.Context(), effect.FencePod{
				Pod: thePod, NodeName: "n", Value: "v", Claims: []ledger.DevicePick{pick, named},
			}, kept)
			if answer.Result != effect.Done {
				t.Fatalf("settling: %+v", answer)
			}
			_, err = client.ResourceV1().ResourceClaims("ns").Get(t.Context(), pick.Claim, metav1.GetOptions{})
			if apierrors.IsNotFound(err) == kept {
				t.Errorf("the claim afterwards: %v, want it kept %t", err, kept)
			}
		})
	}
}
