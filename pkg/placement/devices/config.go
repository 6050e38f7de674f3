package devices

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"iter"
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
)

// The driver's configuration in a claim or in its class is opaque and can be large: 32 times 10 KiB for each of
// them. An allocation repeats it. A reservation leaves it out if it is larger than MaxInlineConfig: a hash
// identifies the parameters of the claim or of a class, and the binder that writes the allocation puts them back.
// The spec of a claim never changes; a class may change, and then its parameters are not found.

// MaxInlineConfig is how many bytes of opaque parameters a reservation carries itself. (Binders of versions without
// such hashes cannot bind a pod with more.)
const MaxInlineConfig = 8 << 10

// ConfigBytes returns how many bytes of opaque parameters the picks have.
func ConfigBytes(picks []Pick) (sum int) {
	for _, p := range picks {
		if p.Allocation == nil {
			continue
		}
		for _, c := range p.Allocation.Devices.Config {
			if c.Opaque != nil {
				sum += len(c.Opaque.Parameters.Raw)
			}
		}
	}
	return sum
}

// WithoutConfig returns an allocation without opaque parameters, and their hashes in the order of its
// configurations; the hash of a configuration without parameters is empty.
func WithoutConfig(a *resourcev1.AllocationResult) (bare *resourcev1.AllocationResult, hashes [][]byte) {
	with := *a
	with.Devices.Config = slices.Clone(a.Devices.Config)
	for i := range with.Devices.Config {
		var hash []byte
		if c := &with.Devices.Config[i]; c.Opaque != nil {
			hash = parametersHash(c.Opaque.Parameters.Raw)
			c.Opaque = &resourcev1.OpaqueDeviceConfiguration{Driver: c.Opaque.Driver}
		}
		hashes = append(hashes, hash)
	}
	return &with, hashes
}

// PutConfigBack restores, in place, the opaque parameters that are missing from the allocation of a claim. Those of
// the claim are in its spec, those of classes in one of the classes. It returns an error if there are none with
// that hash and for that driver, because a class has changed.
func PutConfigBack(
	a *resourcev1.AllocationResult, hashes [][]byte, spec *resourcev1.ResourceClaimSpec, classes []*resourcev1.DeviceClass,
) error {
	if len(hashes) == 0 {
		return nil
	}
	if len(hashes) != len(a.Devices.Config) {
		return fmt.Errorf("%d configurations have %d hashes", len(a.Devices.Config), len(hashes))
	}
	for i, hash := range hashes {
		c := &a.Devices.Config[i]
		if len(hash) == 0 {
			continue
		}
		if c.Opaque == nil {
			return fmt.Errorf("configuration %d has a hash and no driver", i)
		}
		from := ofClasses(classes)
		if c.Source == resourcev1.AllocationConfigSourceClaim {
			from = ofClaim(spec)
		}
		found := false
		for known := range from {
			if found = known.Driver == c.Opaque.Driver && bytes.Equal(parametersHash(known.Parameters.Raw), hash); found {
				c.Opaque.Parameters = *known.Parameters.DeepCopy()
				break
			}
		}
		if !found {
			return fmt.Errorf("the configuration for driver %s (%s) has changed since the decision", c.Opaque.Driver, c.Source)
		}
	}
	return nil
}

// ofClaim yields the opaque parameters in the spec of a claim.
func ofClaim(spec *resourcev1.ResourceClaimSpec) iter.Seq[*resourcev1.OpaqueDeviceConfiguration] {
	return func(yield func(*resourcev1.OpaqueDeviceConfiguration) bool) {
		for _, c := range spec.Devices.Config {
			if c.Opaque != nil && !yield(c.Opaque) {
				return
			}
		}
	}
}

// ofClasses yields the opaque parameters of classes, in their order.
func ofClasses(classes []*resourcev1.DeviceClass) iter.Seq[*resourcev1.OpaqueDeviceConfiguration] {
	return func(yield func(*resourcev1.OpaqueDeviceConfiguration) bool) {
		for _, class := range classes {
			for _, c := range class.Spec.Config {
				if c.Opaque != nil && !yield(c.Opaque) {
					return
				}
			}
		}
	}
}

// parametersHash returns the same hash for equal JSON values: their formatting depends on how they were read from
// the API server. Numbers keep their digits. Text that is not JSON is hashed as it is.
func parametersHash(raw []byte) []byte {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err == nil {
		if canonical, err := json.Marshal(value); err == nil {
			raw = canonical
		}
	}
	sum := sha256.Sum256(raw)
	return sum[:]
}
