package devices

import (
	"cmp"
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"

	"github.com/berth-scheduler/berth/pkg/state"
)

// taintRules holds the DeviceTaintRules of a cluster (KEP-5055), which add taints to devices as if their drivers had
// published them. An administrator drains a device with one. Source: resourceslice/tracker applyPatches.
//
// The zero value has no rules. Rules are few, and mostly there are none.
type taintRules struct {
	// rules are sorted by name, so that the order of taints does not depend on that of the facts.
	rules []*resourcev1beta2.DeviceTaintRule
	// patched caches the slices to which a rule adds taints.
	patched map[*resourcev1.ResourceSlice]*resourcev1.ResourceSlice
}

// ruleOf returns an object as a rule; nil if it is none.
func ruleOf(o *state.Object) *resourcev1beta2.DeviceTaintRule {
	if o == nil {
		return nil
	}
	r, _ := o.API.(*resourcev1beta2.DeviceTaintRule)
	return r
}

// replace removes a rule, and adds another; each may be nil.
func (t *taintRules) replace(before, after *resourcev1beta2.DeviceTaintRule) {
	if before != nil {
		t.rules = slices.DeleteFunc(slices.Clone(t.rules), func(r *resourcev1beta2.DeviceTaintRule) bool {
			return r.UID == before.UID
		})
	}
	if after != nil {
		t.rules = append(slices.Clone(t.rules), after)
		slices.SortFunc(t.rules, func(a, b *resourcev1beta2.DeviceTaintRule) int {
			return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
		})
	}
	t.patched = nil
}

// forget drops what is cached about a slice.
func (t *taintRules) forget(s *resourcev1.ResourceSlice) { delete(t.patched, s) }

// touches reports whether any rule adds a taint to a device of a slice.
func (t *taintRules) touches(s *resourcev1.ResourceSlice) bool {
	return slices.ContainsFunc(t.rules, func(r *resourcev1beta2.DeviceTaintRule) bool {
		return selectsPool(r, s) && slices.ContainsFunc(s.Spec.Devices, func(d resourcev1.Device) bool {
			return selectsDevice(r, d.Name)
		})
	})
}

// patch returns a slice with the taints of all rules. It returns s itself if no rule selects a device of it. The
// result must not be changed.
func (t *taintRules) patch(s *resourcev1.ResourceSlice) *resourcev1.ResourceSlice {
	if len(t.rules) == 0 || !t.touches(s) {
		return s
	}
	if p, known := t.patched[s]; known {
		return p
	}
	p := s.DeepCopy()
	for _, r := range t.rules {
		if !selectsPool(r, s) {
			continue
		}
		taint := resourcev1.DeviceTaint{
			Key: r.Spec.Taint.Key, Value: r.Spec.Taint.Value,
			Effect: resourcev1.DeviceTaintEffect(r.Spec.Taint.Effect), TimeAdded: r.Spec.Taint.TimeAdded,
		}
		for i := range p.Spec.Devices {
			if selectsDevice(r, p.Spec.Devices[i].Name) {
				p.Spec.Devices[i].Taints = append(p.Spec.Devices[i].Taints, taint)
			}
		}
	}
	if t.patched == nil {
		t.patched = map[*resourcev1.ResourceSlice]*resourcev1.ResourceSlice{}
	}
	t.patched[s] = p
	return p
}

// selectsPool reports whether a rule selects devices of a slice, by its driver and pool. A rule without a selector
// selects all devices of the cluster.
func selectsPool(r *resourcev1beta2.DeviceTaintRule, s *resourcev1.ResourceSlice) bool {
	of := r.Spec.DeviceSelector
	return of == nil ||
		(of.Driver == nil || *of.Driver == s.Spec.Driver) && (of.Pool == nil || *of.Pool == s.Spec.Pool.Name)
}

// selectsDevice reports whether a rule that selects devices of a slice selects the one with this name.
func selectsDevice(r *resourcev1beta2.DeviceTaintRule, device string) bool {
	of := r.Spec.DeviceSelector
	return of == nil || of.Device == nil || *of.Device == device
}
