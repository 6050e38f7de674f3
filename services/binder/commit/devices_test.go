package commit

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// faults selects writes of a test, by number: at answer, the answer is lost; at lost, the write as well.
type faults struct{ answer, lost, writes int }

// claimStore is a cluster with claims c0 and c1, which have no devices yet. Its patches have the API server's
// preconditions and versions.
func claimStore(t *testing.T, f *faults) *fake.Clientset {
	t.Helper()
	claim := func(name string) *resourcev1.ResourceClaim {
		return &resourcev1.ResourceClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name), ResourceVersion: "10"},
		}
	}
	client := fake.NewClientset(claim("c0"), claim("c1"))
	claims := resourcev1.SchemeGroupVersion.WithResource("resourceclaims")
	client.PrependReactor("patch", "resourceclaims", func(a clienttesting.Action) (bool, runtime.Object, error) {
		f.writes++
		if f.writes == f.lost {
			return true, nil, errors.New("the connection is gone")
		}
		var guarded struct{ Metadata metav1.ObjectMeta }
		patch, isPatch := a.(clienttesting.PatchAction)
		if !isPatch || json.Unmarshal(patch.GetPatch(), &guarded) != nil {
			t.Fatalf("%v is no patch", a)
		}
		now, err := client.Tracker().Get(claims, "ns", patch.GetName())
		claim, ok := now.(*resourcev1.ResourceClaim)
		if err != nil || !ok {
			return true, nil, err
		}
		if guarded.Metadata.ResourceVersion != claim.ResourceVersion || guarded.Metadata.UID != claim.UID {
			return true, nil, apierrors.NewConflict(claims.GroupResource(), patch.GetName(), errors.New("it moved"))
		}
		_, changed, err := clienttesting.ObjectReaction(client.Tracker())(a)
		claim, ok = changed.(*resourcev1.ResourceClaim)
		if err != nil || !ok {
			return true, nil, err
		}
		claim = claim.DeepCopy()
		claim.ResourceVersion = strconv.FormatUint(versionOf(claim)+1, 10)
		if err := client.Tracker().Update(claims, claim, "ns"); err != nil {
			return true, nil, err
		}
		if f.writes == f.answer {
			return true, nil, errors.New("the connection is gone")
		}
		return true, claim, nil
	})
	return client
}

func claimNow(t *testing.T, client *fake.Clientset) *resourcev1.ResourceClaim {
	t.Helper()
	return claimNamed(t, client, "c0")
}

func claimNamed(t *testing.T, client *fake.Clientset, name string) *resourcev1.ResourceClaim {
	t.Helper()
	claim, err := client.ResourceV1().ResourceClaims("ns").Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return claim
}

// oneDevice returns the work for a pod whose claim, of version 10, gets a device.
func oneDevice(t *testing.T) []ledger.DevicePick {
	t.Helper()
	a := resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
		Results: []resourcev1.DeviceRequestAllocationResult{{Request: "r", Driver: "d", Pool: "p", Device: "0"}},
	}}
	data, err := a.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return []ledger.DevicePick{{Claim: "c0", ClaimUID: "uid-c0", ClaimRV: 10, Allocation: data}}
}

func prepares(t *testing.T, client *fake.Clientset) effect.Answered {
	t.Helper()
	return executorOf(client).bindings.claims.prepare(t.Context(), effect.Bind{
		Op: 7, Pod: thePod, NodeName: "n", Devices: &effect.DeviceWork{Picks: oneDevice(t)},
	})
}

func settleClaims(t *testing.T, client *fake.Clientset, kept bool) uint64 {
	t.Helper()
	version, answer := executorOf(client).bindings.claims.settleClaims(t.Context(),
		effect.FencePod{Pod: thePod, NodeName: "n", Value: "v", Claims: oneDevice(t)}, kept)
	if answer.Result != effect.Done {
		t.Fatalf("settling the claim: %+v", answer)
	}
	return version
}

// TestDevicesAfterACrashAtEachWrite: a binder dies before or after any of its writes, or does not receive the answer.
// The next one continues, or has to take everything back; then nothing is left of it, and no late write succeeds.
func TestDevicesAfterACrashAtEachWrite(t *testing.T) {
	for name, test := range map[string]struct {
		faults faults
		next   effect.Result
	}{
		"no crash":                      {faults{}, effect.Done},
		"before it is protected":        {faults{lost: 1}, effect.Done},
		"after it is protected":         {faults{answer: 1}, effect.Refused},
		"before its devices":            {faults{lost: 2}, effect.Refused},
		"after its devices are written": {faults{answer: 2}, effect.Done},
	} {
		t.Run(name, func(t *testing.T) {
			client := claimStore(t, &test.faults)
			crashed := test.faults != faults{}
			if first := prepares(t, client); crashed == (first.Result == effect.Done) {
				t.Fatalf("the first binder gets %+v", first)
			}
			next := prepares(t, client)
			if next.Result != test.next || next.Op != 7 {
				t.Fatalf("the next binder gets %+v, want %s", next, test.next)
			}
			claim := claimNow(t, client)
			if done := claim.Status.Allocation != nil; done != (next.Result == effect.Done) {
				t.Errorf("the claim has %+v", claim.Status)
			}
			if next.Result == effect.Done {
				if len(claim.Status.ReservedFor) != 1 || string(claim.Status.ReservedFor[0].UID) != thePod.UID {
					t.Errorf("users %+v, want the pod", claim.Status.ReservedFor)
				}
				if kept := settleClaims(t, client, true); kept != versionOf(claim) || claimNow(t, client).Status.Allocation == nil {
					t.Errorf("the claim of a bound pod was taken back")
				}
			}
			version := settleClaims(t, client, false)
			claim = claimNow(t, client)
			switch {
			case claim.Status.Allocation != nil || len(claim.Status.ReservedFor) > 0:
				t.Errorf("left of it: %+v", claim.Status)
			case slices.Contains(claim.Finalizers, resourcev1.Finalizer) || version != versionOf(claim) || version <= 10:
				t.Errorf("finalizers %v at version %d, want none, and %d after 10", claim.Finalizers, version, versionOf(claim))
			}
			if late := prepares(t, client); late.Result != effect.Refused {
				t.Errorf("a late binder gets %+v, want it refused", late)
			}
			if again := settleClaims(t, client, false); again != version {
				t.Errorf("settled again at %d, want %d", again, version)
			}
		})
	}
}

// twoDevices returns the work for a pod both of whose claims get a device.
func twoDevices(t *testing.T) []ledger.DevicePick {
	t.Helper()
	picks := oneDevice(t)
	other := picks[0]
	other.Claim, other.ClaimUID = "c1", "uid-c1"
	return append(picks, other)
}

func preparesBoth(t *testing.T, client *fake.Clientset) effect.Answered {
	t.Helper()
	return executorOf(client).bindings.claims.prepare(t.Context(), effect.Bind{
		Op: 7, Pod: thePod, NodeName: "n", Devices: &effect.DeviceWork{Picks: twoDevices(t)},
	})
}

func settleTwoClaims(t *testing.T, client *fake.Clientset) effect.Answered {
	t.Helper()
	_, answer := executorOf(client).bindings.claims.settleClaims(t.Context(),
		effect.FencePod{Pod: thePod, NodeName: "n", Value: "v", Claims: twoDevices(t)}, false)
	return answer
}

// TestTwoClaimsAfterACrashAtEachWrite: a binder dies at any of the four writes for a pod with two claims, and the one
// that takes the reservation back dies at any of its own; in the end nothing is left, and late writes are refused.
func TestTwoClaimsAfterACrashAtEachWrite(t *testing.T) {
	const writes, most = 4, 8 // to prepare both, and to settle both as well
	for at := 1; at <= most; at++ {
		for _, happened := range []bool{false, true} {
			t.Run(fmt.Sprintf("write %d, happened %t", at, happened), func(t *testing.T) {
				f := &faults{lost: at}
				if happened {
					f = &faults{answer: at}
				}
				client := claimStore(t, f)
				if first := preparesBoth(t, client); (at <= writes) == (first.Result == effect.Done) {
					t.Fatalf("the first binder gets %+v", first)
				}
				first := settleTwoClaims(t, client)
				if at > writes && first.Result == effect.Done {
					t.Fatalf("who takes it back gets %+v after %d writes", first, f.writes)
				}
				if first.Result != effect.Done {
					if late := preparesBoth(t, client); at > writes+1 && late.Result != effect.Refused {
						t.Errorf("a late binder in the middle of it gets %+v", late)
					}
					first = settleTwoClaims(t, client)
				}
				if first.Result != effect.Done {
					t.Fatalf("who takes it back again gets %+v", first)
				}
				for _, name := range []string{"c0", "c1"} {
					claim := claimNamed(t, client, name)
					if claim.Status.Allocation != nil || len(claim.Status.ReservedFor)+len(claim.Finalizers) > 0 ||
						versionOf(claim) <= 10 {
						t.Errorf("left of claim %s: %v at version %s, %+v", name, claim.Finalizers,
							claim.ResourceVersion, claim.Status)
					}
				}
				if late := preparesBoth(t, client); late.Result != effect.Refused {
					t.Errorf("a late binder gets %+v, want it refused", late)
				}
			})
		}
	}
}

// TestSharedClaimAfterACrashAtItsWrite: the single write for a claim that already has its devices adds the pod as a
// user, once.
func TestSharedClaimAfterACrashAtItsWrite(t *testing.T) {
	for name, f := range map[string]*faults{"before": {lost: 1}, "after": {answer: 1}, "no crash": {}} {
		t.Run(name, func(t *testing.T) {
			client := claimStore(t, f)
			claim := claimNow(t, client)
			claim.Status.Allocation = &resourcev1.AllocationResult{}
			claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{
				{Resource: "pods", Name: "other", UID: "uid-other"},
			}
			claims := resourcev1.SchemeGroupVersion.WithResource("resourceclaims")
			if err := client.Tracker().Update(claims, claim, "ns"); err != nil {
				t.Fatal(err)
			}
			pick := ledger.DevicePick{Claim: "c0", ClaimUID: "uid-c0", ClaimRV: 10}
			prepare := func() effect.Answered {
				return executorOf(client).bindings.claims.prepare(t.Context(), effect.Bind{
					Op: 7, Pod: thePod, NodeName: "n", Devices: &effect.DeviceWork{Picks: []ledger.DevicePick{pick}},
				})
			}
			if first := prepare(); (*f == faults{writes: f.writes}) != (first.Result == effect.Done) {
				t.Fatalf("the first binder gets %+v", first)
			}
			if next := prepare(); next.Result != effect.Done {
				t.Fatalf("the next binder gets %+v", next)
			}
			if users := claimNow(t, client).Status.ReservedFor; len(users) != 2 || string(users[1].UID) != thePod.UID {
				t.Errorf("users %+v, want the other and the pod", users)
			}
		})
	}
}

// TestDevicesOfOthersAreLeftAlone: a claim to which another scheduler has given devices, or that another pod uses as
// well, keeps them.
func TestDevicesOfOthersAreLeftAlone(t *testing.T) {
	other := resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: "other", UID: "uid-other"}
	for name, device := range map[string]string{"other devices": "1", "another user": "0"} {
		t.Run(name, func(t *testing.T) {
			client := claimStore(t, &faults{})
			claim := claimNow(t, client)
			claim.ResourceVersion = "11"
			claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{other}
			claim.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
				Results: []resourcev1.DeviceRequestAllocationResult{{Request: "r", Driver: "d", Pool: "p", Device: device}},
			}}
			claims := resourcev1.SchemeGroupVersion.WithResource("resourceclaims")
			if err := client.Tracker().Update(claims, claim, "ns"); err != nil {
				t.Fatal(err)
			}
			if settleClaims(t, client, false) != 11 {
				t.Error("the claim was changed")
			}
			now := claimNow(t, client)
			if now.Status.Allocation == nil || len(now.Status.ReservedFor) != 1 || now.Status.ReservedFor[0].UID != other.UID {
				t.Errorf("left: %+v", now.Status)
			}
			got := prepares(t, client)
			if want := map[string]effect.Result{"1": effect.Refused, "0": effect.Done}[device]; got.Result != want {
				t.Errorf("%+v, want %s", got, want)
			}
		})
	}
}

// A claim that the facts show as the decision saw it is not read again; a write to one that has changed since is
// refused.
func TestKnownClaimIsNotReadFirst(t *testing.T) {
	for version, want := range map[string]effect.Result{"10": effect.Done, "9": effect.Unknown} {
		client := claimStore(t, &faults{})
		known := claimNow(t, client)
		known.ResourceVersion = version
		client.PrependReactor("get", "resourceclaims", func(clienttesting.Action) (bool, runtime.Object, error) {
			t.Error("read")
			return false, nil, nil
		})
		picks := oneDevice(t)
		picks[0].ClaimRV = versionOf(known)
		got := executorOf(client).bindings.claims.prepare(t.Context(), effect.Bind{
			Op: 7, Pod: thePod, NodeName: "n", Devices: &effect.DeviceWork{
				Picks: picks, Known: map[string]*resourcev1.ResourceClaim{"c0": known},
			},
		})
		if got.Result != want {
			t.Errorf("version %s: %+v, want %s", version, got, want)
		}
	}
}
