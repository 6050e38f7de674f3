package plugins

import (
	"maps"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/state/resources"
)

// amounts are resources as plugins see them: CPU in millicores, memory and storage in bytes, all others in units. It
// implements framework.Resource.
type amounts struct {
	cpu, memory, storage int64
	pods                 int
	scalars              map[corev1.ResourceName]int64
}

// amountsOf converts resources of the state. pods is set only for what a node has; requests of pods do not include
// it.
func amountsOf(r resources.Resources) *amounts {
	a := &amounts{cpu: r.MilliCPU, memory: r.Memory, storage: r.EphemeralStorage, pods: int(r.Pods)}
	for name, v := range r.Extended {
		a.setScalar(corev1.ResourceName(name), v)
	}
	return a
}

// setScalar sets the amount of an extended resource.
func (a *amounts) setScalar(name corev1.ResourceName, v int64) {
	if a.scalars == nil {
		a.scalars = map[corev1.ResourceName]int64{}
	}
	a.scalars[name] = v
}

// The getters implement framework.Resource. The map is shared: plugins must not change it.
func (a *amounts) GetMilliCPU() int64                                { return a.cpu }
func (a *amounts) GetMemory() int64                                  { return a.memory }
func (a *amounts) GetEphemeralStorage() int64                        { return a.storage }
func (a *amounts) GetAllowedPodNumber() int                          { return a.pods }
func (a *amounts) GetScalarResources() map[corev1.ResourceName]int64 { return a.scalars }

// SetMaxResource raises each amount to that of a list, where the list has more.
func (a *amounts) SetMaxResource(list corev1.ResourceList) {
	for name, quantity := range list {
		switch name {
		case corev1.ResourceCPU:
			a.cpu = max(a.cpu, quantity.MilliValue())
		case corev1.ResourceMemory:
			a.memory = max(a.memory, quantity.Value())
		case corev1.ResourceEphemeralStorage:
			a.storage = max(a.storage, quantity.Value())
		default:
			if v := quantity.Value(); v > a.scalars[name] {
				a.setScalar(name, v)
			}
		}
	}
}

// add adds b to the amounts, multiplied by sign.
func (a *amounts) add(sign int64, b *amounts) {
	a.cpu += sign * b.cpu
	a.memory += sign * b.memory
	a.storage += sign * b.storage
	for name, v := range b.scalars {
		a.setScalar(name, a.scalars[name]+sign*v)
	}
}

// clone returns a copy that shares nothing.
func (a *amounts) clone() *amounts {
	c := *a
	c.scalars = maps.Clone(a.scalars)
	return &c
}
