package commit

import (
	"fmt"
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/placement/devices"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// parameters returns parameters of the largest allowed size.
func parameters(name string, i int) resourcev1.DeviceConfiguration {
	text := strings.Repeat("x", resourcev1.OpaqueParametersMaxLength-40)
	return resourcev1.DeviceConfiguration{Opaque: &resourcev1.OpaqueDeviceConfiguration{
		Driver: "d", Parameters: runtime.RawExtension{Raw: fmt.Appendf(nil, `{"%s":%d,"text":"%s"}`, name, i, text)},
	}}
}

// hashed returns the work for a pod whose claim has large parameters, of its own and of its class, which the
// reservation leaves out.
func hashed(
	t *testing.T,
) (picks []ledger.DevicePick, spec resourcev1.ResourceClaimSpec, class *resourcev1.DeviceClass) {
	t.Helper()
	class = &resourcev1.DeviceClass{}
	a := &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
		Results: []resourcev1.DeviceRequestAllocationResult{{Request: "r", Driver: "d", Pool: "p", Device: "0"}},
	}}
	for i := range 32 {
		own, common := parameters("claim", i), parameters("class", i)
		spec.Devices.Config = append(spec.Devices.Config, resourcev1.DeviceClaimConfiguration{DeviceConfiguration: own})
		class.Spec.Config = append(class.Spec.Config, resourcev1.DeviceClassConfiguration{DeviceConfiguration: common})
		a.Devices.Config = append(a.Devices.Config,
			resourcev1.DeviceAllocationConfiguration{
				Source: resourcev1.AllocationConfigSourceClaim, DeviceConfiguration: own,
			},
			resourcev1.DeviceAllocationConfiguration{
				Source: resourcev1.AllocationConfigSourceClass, DeviceConfiguration: common,
			})
	}
	bare, hashes := devices.WithoutConfig(a)
	data, err := bare.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	pick := ledger.DevicePick{Claim: "c0", ClaimUID: "uid-c0", ClaimRV: 10, Allocation: data, ConfigHashes: hashes}
	return []ledger.DevicePick{pick}, spec, class
}

// The parameters that a reservation leaves out are written from the claim and its class. If the class has changed
// since, nothing is written, and the reservation is taken back.
func TestConfigurationIsPutBackBeforeItIsWritten(t *testing.T) {
	picks, spec, class := hashed(t)
	changed := class.DeepCopy()
	changed.Spec.Config[7] = resourcev1.DeviceClassConfiguration{DeviceConfiguration: parameters("changed", 7)}
	for name, c := range map[string]struct {
		classes []*resourcev1.DeviceClass
		want    effect.Result
	}{
		"as decided":             {[]*resourcev1.DeviceClass{{}, class}, effect.Done},
		"the class has changed":  {[]*resourcev1.DeviceClass{changed}, effect.Refused},
		"the class is not known": {nil, effect.Refused},
	} {
		t.Run(name, func(t *testing.T) {
			f := &faults{}
			client := claimStore(t, f)
			claim := claimNow(t, client)
			claim.Spec = *spec.DeepCopy()
			claims := client.ResourceV1().ResourceClaims("ns")
			if _, err := claims.Update(t.Context(), claim, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			answer := executorOf(client).bindings.claims.prepare(t.Context(), effect.Bind{
				Op: 7, Pod: thePod, NodeName: "n", Devices: &effect.DeviceWork{Picks: picks, Classes: c.classes},
			})
			if answer.Result != c.want {
				t.Fatalf("answer %+v, want %s", answer, c.want)
			}
			claim = claimNow(t, client)
			if answer.Result == effect.Refused {
				if claim.Status.Allocation != nil || f.writes > 0 {
					t.Errorf("%d writes, and the claim has %+v", f.writes, claim.Status)
				}
				return
			}
			for i, got := range claim.Status.Allocation.Devices.Config {
				want := parameters([]string{"claim", "class"}[i%2], i/2).Opaque.Parameters.Raw
				if string(got.Opaque.Parameters.Raw) != string(want) {
					t.Errorf("configuration %d is %.40s, want %.40s", i, got.Opaque.Parameters.Raw, want)
				}
			}
		})
	}
}
