package resources

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Resources is an amount of every resource that a node has or a pod requests, in the scheduler's units: cpu in
// milli-CPU, memory and storage in bytes, every other resource in its own unit. It is a value: Add and Sub return a
// new one and leave both operands unchanged. All arithmetic saturates at the ends of int64 instead of wrapping, so
// that an absurd request can make a pod unplaceable but never make a node look empty.
//
// Extended holds extended resources, huge pages, attachable volumes and other prefixed names. It is nil when empty
// and never holds a zero, so that equal amounts are deeply equal.
type Resources struct {
	// MilliCPU is in milli-CPU, Memory and EphemeralStorage are in bytes, Pods is a number of pods.
	MilliCPU, Memory, EphemeralStorage, Pods int64
	Extended                                 map[string]int64
}

// NewResources converts a Kubernetes resource list. Names that the scheduler does not
// account for (no prefix and not one of the built-in ones) are dropped, as upstream's
// framework.Resource does.
func NewResources(list corev1.ResourceList) Resources {
	var r Resources
	for name, q := range list {
		switch name {
		case corev1.ResourceCPU:
			r.MilliCPU = q.MilliValue()
		case corev1.ResourceMemory:
			r.Memory = q.Value()
		case corev1.ResourceEphemeralStorage:
			r.EphemeralStorage = q.Value()
		case corev1.ResourcePods:
			r.Pods = q.Value()
		default:
			if IsAccountedResource(string(name)) {
				r.setExtended(string(name), q.Value())
			}
		}
	}
	return r
}

// FromMap is the inverse of Map. Unknown names are kept in Extended.
func FromMap(m map[string]int64) Resources {
	var r Resources
	for name, v := range m {
		switch corev1.ResourceName(name) {
		case corev1.ResourceCPU:
			r.MilliCPU = v
		case corev1.ResourceMemory:
			r.Memory = v
		case corev1.ResourceEphemeralStorage:
			r.EphemeralStorage = v
		case corev1.ResourcePods:
			r.Pods = v
		default:
			r.setExtended(name, v)
		}
	}
	return r
}

// Map returns the amounts that are not zero, by Kubernetes resource name, for the ledger and for messages. The map
// belongs to the caller.
func (r Resources) Map() map[string]int64 {
	m := make(map[string]int64, 4+len(r.Extended))
	for _, e := range []struct {
		name  corev1.ResourceName
		value int64
	}{
		{corev1.ResourceCPU, r.MilliCPU},
		{corev1.ResourceMemory, r.Memory},
		{corev1.ResourceEphemeralStorage, r.EphemeralStorage},
		{corev1.ResourcePods, r.Pods},
	} {
		if e.value != 0 {
			m[string(e.name)] = e.value
		}
	}
	maps.Copy(m, r.Extended)
	return m
}

// Add returns r + o.
func (r Resources) Add(o Resources) Resources {
	r.Extended = maps.Clone(r.Extended)
	r.Accumulate(o)
	return r
}

// Sub returns r - o. Amounts may become negative, as on a node that is overcommitted.
func (r Resources) Sub(o Resources) Resources {
	r.Extended = maps.Clone(r.Extended)
	r.Deduct(o)
	return r
}

// Clone returns a copy that shares nothing with r.
func (r Resources) Clone() Resources {
	r.Extended = maps.Clone(r.Extended)
	return r
}

// Get returns the amount of one resource by its Kubernetes name; 0 for a name that is not there.
func (r Resources) Get(name string) int64 {
	switch corev1.ResourceName(name) {
	case corev1.ResourceCPU:
		return r.MilliCPU
	case corev1.ResourceMemory:
		return r.Memory
	case corev1.ResourceEphemeralStorage:
		return r.EphemeralStorage
	case corev1.ResourcePods:
		return r.Pods
	default:
		return r.Extended[name]
	}
}

// String lists the amounts that are not zero, sorted by name: "cpu 100m, memory 209715200".
func (r Resources) String() string {
	m := r.Map()
	parts := make([]string, 0, len(m))
	for _, name := range slices.Sorted(maps.Keys(m)) {
		unit := ""
		if name == string(corev1.ResourceCPU) {
			unit = "m"
		}
		parts = append(parts, fmt.Sprintf("%s %d%s", name, m[name], unit))
	}
	return strings.Join(parts, ", ")
}

// Accumulate adds o to r in place; r must own its Extended map.
func (r *Resources) Accumulate(o Resources) {
	r.MilliCPU = addSaturating(r.MilliCPU, o.MilliCPU)
	r.Memory = addSaturating(r.Memory, o.Memory)
	r.EphemeralStorage = addSaturating(r.EphemeralStorage, o.EphemeralStorage)
	r.Pods = addSaturating(r.Pods, o.Pods)
	for name, v := range o.Extended {
		r.setExtended(name, addSaturating(r.Extended[name], v))
	}
}

// Deduct subtracts o from r in place; r must own its Extended map.
func (r *Resources) Deduct(o Resources) {
	r.MilliCPU = subSaturating(r.MilliCPU, o.MilliCPU)
	r.Memory = subSaturating(r.Memory, o.Memory)
	r.EphemeralStorage = subSaturating(r.EphemeralStorage, o.EphemeralStorage)
	r.Pods = subSaturating(r.Pods, o.Pods)
	for name, v := range o.Extended {
		r.setExtended(name, subSaturating(r.Extended[name], v))
	}
}

// setExtended sets one amount, and keeps the rule that Extended holds no zeros and is nil when empty.
func (r *Resources) setExtended(name string, v int64) {
	if v == 0 {
		delete(r.Extended, name)
		if len(r.Extended) == 0 {
			r.Extended = nil
		}
		return
	}
	if r.Extended == nil {
		r.Extended = make(map[string]int64, 1)
	}
	r.Extended[name] = v
}

// addSaturating returns a + b, or the nearest end of int64 if that overflows.
func addSaturating(a, b int64) int64 {
	sum := a + b
	switch {
	case a > 0 && b > 0 && sum < 0:
		return math.MaxInt64
	case a < 0 && b < 0 && sum >= 0:
		return math.MinInt64
	default:
		return sum
	}
}

// subSaturating returns a - b, or the nearest end of int64 if that overflows.
func subSaturating(a, b int64) int64 {
	diff := a - b
	switch {
	case a >= 0 && b < 0 && diff < 0:
		return math.MaxInt64
	case a < 0 && b > 0 && diff >= 0:
		return math.MinInt64
	default:
		return diff
	}
}

// IsAccountedResource reports whether the scheduler accounts for a resource in addition to the built-in ones:
// extended resources, huge pages, attachable volumes and names under kubernetes.io. Source: pkg/scheduler/util
// IsScalarResourceName.
func IsAccountedResource(name string) bool {
	return IsExtendedResource(name) ||
		strings.HasPrefix(name, corev1.ResourceHugePagesPrefix) ||
		strings.HasPrefix(name, corev1.ResourceAttachableVolumesPrefix) ||
		isPrefixedNative(name)
}

// IsExtendedResource reports whether name is a fully qualified name outside kubernetes.io that could also occur in
// a quota. Source: pkg/apis/core/v1/helper IsExtendedResourceName.
func IsExtendedResource(name string) bool {
	if !strings.Contains(name, "/") || isPrefixedNative(name) ||
		strings.HasPrefix(name, corev1.DefaultResourceRequestsPrefix) {
		return false
	}
	return len(validation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix+name)) == 0
}

// isPrefixedNative reports whether a name is under kubernetes.io.
func isPrefixedNative(name string) bool {
	return strings.Contains(name, corev1.ResourceDefaultNamespacePrefix)
}

// Equal reports whether both are the same amounts. A resource that is missing equals one of 0.
func (r Resources) Equal(o Resources) bool {
	return r.MilliCPU == o.MilliCPU && r.Memory == o.Memory &&
		r.EphemeralStorage == o.EphemeralStorage && r.Pods == o.Pods && maps.Equal(r.Extended, o.Extended)
}
