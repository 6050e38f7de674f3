package devices

import (
	"iter"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// lookups gives the embedded interface a name that differs from its method Objects.
type lookups = rule.Objects

// withoutClasses hides device classes from rules that are compiled for pods without resources backed by devices.
type withoutClasses struct{ lookups }

// WithoutClasses returns the objects without device classes. The engine compiles its classes of pods with it:
// their pods request no resource that devices back, so that no class can matter to them.
func WithoutClasses(objects rule.Objects) rule.Objects { return withoutClasses{objects} }

// ObjectByName implements Objects.
func (o withoutClasses) ObjectByName(k events.Kind, namespace, name string) (*state.Object, bool) {
	if k == events.KindDeviceClass {
		return nil, false
	}
	return o.lookups.ObjectByName(k, namespace, name)
}

// Objects implements Objects.
func (o withoutClasses) Objects(k events.Kind) iter.Seq[*state.Object] {
	if k == events.KindDeviceClass {
		return func(func(*state.Object) bool) {}
	}
	return o.lookups.Objects(k)
}
