package devices_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/pkg/placement/devices"
)

func opaque(driver, raw string) resourcev1.DeviceConfiguration {
	return resourcev1.DeviceConfiguration{Opaque: &resourcev1.OpaqueDeviceConfiguration{
		Driver: driver, Parameters: runtime.RawExtension{Raw: []byte(raw)},
	}}
}

// configured returns a claim and a class with as many large parameters as they may have, and the allocation that
// repeats them.
func configured() (*resourcev1.ResourceClaimSpec, *resourcev1.DeviceClass, *resourcev1.AllocationResult) {
	spec, class, a := &resourcev1.ResourceClaimSpec{}, &resourcev1.DeviceClass{}, &resourcev1.AllocationResult{}
	for i := range 32 {
		text := strings.Repeat("x", resourcev1.OpaqueParametersMaxLength-40)
		ofClaim := opaque("driver", fmt.Sprintf(`{"claim": %d, "text": "%s"}`, i, text))
		ofClass := opaque("driver", fmt.Sprintf(`{"class": %d, "text": "%s"}`, i, text))
		spec.Devices.Config = append(spec.Devices.Config, resourcev1.DeviceClaimConfiguration{DeviceConfiguration: ofClaim})
		class.Spec.Config = append(class.Spec.Config, resourcev1.DeviceClassConfiguration{DeviceConfiguration: ofClass})
		a.Devices.Config = append(a.Devices.Config,
			resourcev1.DeviceAllocationConfiguration{
				Source: resourcev1.AllocationConfigSourceClaim, DeviceConfiguration: ofClaim,
			},
			resourcev1.DeviceAllocationConfiguration{
				Source: resourcev1.AllocationConfigSourceClass, Requests: []string{"r"}, DeviceConfiguration: ofClass,
			})
	}
	return spec, class, a
}

// What a reservation leaves out is restored unchanged, even if it was read from the API server in another way, and
// takes little space until then.
func TestConfigurationComesBack(t *testing.T) {
	spec, class, a := configured()
	before := a.DeepCopy()
	if n := devices.ConfigBytes([]devices.Pick{{Allocation: a}, {}}); n <= 32*devices.MaxInlineConfig {
		t.Fatalf("%d bytes of parameters, want many", n)
	}
	bare, hashes := devices.WithoutConfig(a)
	data, err := bare.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if size := len(data) + len(bytes.Join(hashes, nil)); size > 8<<10 {
		t.Errorf("without parameters it has %d bytes", size)
	}
	if diff := cmp.Diff(before, a); diff != "" {
		t.Errorf("the allocation that was given has changed: %s", diff)
	}
	read := &resourcev1.AllocationResult{}
	if err := read.Unmarshal(data); err != nil {
		t.Fatal(err)
	}
	for _, c := range read.Devices.Config {
		if len(c.Opaque.Parameters.Raw) > 0 {
			t.Fatalf("parameters are left: %.40s", c.Opaque.Parameters.Raw)
		}
	}
	// As a JSON client reads them.
	for i := range spec.Devices.Config {
		raw := &spec.Devices.Config[i].Opaque.Parameters.Raw
		*raw = bytes.ReplaceAll(*raw, []byte(`": "`), []byte(`":"`))
	}
	other := &resourcev1.DeviceClass{}
	if err := devices.PutConfigBack(read, hashes, spec, []*resourcev1.DeviceClass{other, class}); err != nil {
		t.Fatal(err)
	}
	for i := range before.Devices.Config {
		raw := &before.Devices.Config[i].Opaque.Parameters.Raw
		if before.Devices.Config[i].Source == resourcev1.AllocationConfigSourceClaim {
			*raw = bytes.ReplaceAll(*raw, []byte(`": "`), []byte(`":"`))
		}
	}
	if diff := cmp.Diff(before, read); diff != "" {
		t.Errorf("allocation (-want +got): %s", diff)
	}
}

// A class that has changed since, or is gone, is an error, and so is another driver or source.
func TestConfigurationThatHasChanged(t *testing.T) {
	for name, change := range map[string]func(*resourcev1.DeviceClass, [][]byte) [][]byte{
		"a parameter of the class": func(c *resourcev1.DeviceClass, h [][]byte) [][]byte {
			c.Spec.Config[3] = resourcev1.DeviceClassConfiguration{DeviceConfiguration: opaque("driver", `{"class": 99}`)}
			return h
		},
		"the driver": func(c *resourcev1.DeviceClass, h [][]byte) [][]byte {
			c.Spec.Config[3].Opaque.Driver = "another"
			return h
		},
		"no class":       func(c *resourcev1.DeviceClass, h [][]byte) [][]byte { c.Spec.Config = nil; return h },
		"too few hashes": func(_ *resourcev1.DeviceClass, h [][]byte) [][]byte { return h[:3] },
	} {
		spec, class, a := configured()
		bare, hashes := devices.WithoutConfig(a)
		hashes = change(class, hashes)
		if err := devices.PutConfigBack(bare, hashes, spec, []*resourcev1.DeviceClass{class}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
