package conformance

import (
	"encoding/json"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/apis/resource"
	convert "k8s.io/kubernetes/pkg/apis/resource/v1"
	"k8s.io/kubernetes/pkg/apis/resource/validation"

	"github.com/berth-scheduler/berth/pkg/placement/devices"
)

// What a reservation leaves out of an allocation cannot get lost on its way to the claim: the API server
// refuses a configuration without parameters. A binder that does not know of their hashes writes one.
func TestConfigurationWithoutParametersIsRefused(t *testing.T) {
	claim := &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "c", UID: "uid", ResourceVersion: "1"},
		Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{
			Name: "r", Exactly: &resourceapi.ExactDeviceRequest{
				DeviceClassName: "class", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1,
			},
		}}}},
	}
	whole := &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
		Results: []resourceapi.DeviceRequestAllocationResult{
			{Request: "r", Driver: "driver.example.com", Pool: "pool", Device: "device"},
		},
		Config: []resourceapi.DeviceAllocationConfiguration{{
			Source: resourceapi.AllocationConfigSourceClass,
			DeviceConfiguration: resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{
				Driver: "driver.example.com", Parameters: runtime.RawExtension{Raw: []byte(`{"a":1}`)},
			}},
		}},
	}}
	bare, _ := devices.WithoutConfig(whole)
	if problem := written(t, claim, whole); problem != "" {
		t.Errorf("an allocation with parameters is refused: %s", problem)
	}
	if problem := written(t, claim, bare); !strings.Contains(problem, "parameters: Required value") {
		t.Errorf("an allocation without parameters: %q, want that they are required", problem)
	}
}

// written is the API server's objection to an allocation, as a binder sends it; empty for none.
func written(t *testing.T, claim *resourceapi.ResourceClaim, a *resourceapi.AllocationResult) string {
	t.Helper()
	body, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	with := claim.DeepCopy()
	with.Status.Allocation = &resourceapi.AllocationResult{}
	if err := json.Unmarshal(body, with.Status.Allocation); err != nil {
		t.Fatal(err)
	}
	before, after := &resource.ResourceClaim{}, &resource.ResourceClaim{}
	for _, pair := range []struct {
		from *resourceapi.ResourceClaim
		to   *resource.ResourceClaim
	}{{claim, before}, {with, after}} {
		if err := convert.Convert_v1_ResourceClaim_To_resource_ResourceClaim(pair.from, pair.to, nil); err != nil {
			t.Fatal(err)
		}
	}
	if errs := validation.ValidateResourceClaimStatusUpdate(after, before); len(errs) > 0 {
		return errs.ToAggregate().Error()
	}
	return ""
}
