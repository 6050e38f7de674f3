package state

import (
	"encoding/binary"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-scheduler/berth/pkg/state/intern"
	"github.com/berth-scheduler/berth/pkg/state/wire"
)

// template is Pod.Template, with references that keep the parts it shares with other templates alive. It is
// immutable, and unique for its content in this process.
type template struct {
	pod   corev1.Pod
	parts []*specPart
}

// specPart is one field of a spec, which templates that differ elsewhere may share: the pods of a StatefulSet have
// individual labels and hostnames, and so do those of Jobs.
type specPart struct {
	spec  corev1.PodSpec // everything but the one field is empty
	lists []*resourceList
}

// The templates of all pods of this process, and the parts that templates share.
var (
	templates intern.Table[template]
	specParts intern.Table[specPart]
)

const (
	specContainers     = protowire.Number(2)
	specAffinity       = protowire.Number(18)
	specInitContainers = protowire.Number(20)
	specTolerations    = protowire.Number(22)
	specOverhead       = protowire.Number(32)
	specSpread         = protowire.Number(33)
	specResources      = protowire.Number(40)
)

// newTemplate decodes a template: the metadata and the rest of the spec on its own, and each of the sharedFields by
// way of the part that other templates may have too.
func newTemplate(p *wire.Parts) (*template, error) {
	t := &template{}
	if err := t.pod.ObjectMeta.Unmarshal(p.Metadata); err != nil {
		return nil, err
	}
	if len(t.pod.Labels) == 0 {
		t.pod.Labels = nil
	}
	rest, shared, err := splitSpec(p.Spec)
	if err != nil {
		return nil, err
	}
	if err := t.pod.Spec.Unmarshal(rest); err != nil {
		return nil, err
	}
	for i, data := range shared {
		if len(data) == 0 {
			continue
		}
		part, err := specParts.TryGet(data, func() (*specPart, error) { return newSpecPart(data) })
		if err != nil {
			return nil, err
		}
		sharedFields[i].take(&t.pod.Spec, &part.spec)
		t.parts = append(t.parts, part)
	}
	return t, nil
}

// sharedFields are the fields that become parts: those that are large and seldom individual to a pod.
var sharedFields = [...]struct {
	number protowire.Number
	take   func(to, from *corev1.PodSpec)
}{
	{specContainers, func(to, from *corev1.PodSpec) { to.Containers = from.Containers }},
	{specAffinity, func(to, from *corev1.PodSpec) { to.Affinity = from.Affinity }},
	{specInitContainers, func(to, from *corev1.PodSpec) { to.InitContainers = from.InitContainers }},
	{specTolerations, func(to, from *corev1.PodSpec) { to.Tolerations = from.Tolerations }},
	{specSpread, func(to, from *corev1.PodSpec) { to.TopologySpreadConstraints = from.TopologySpreadConstraints }},
}

// splitSpec divides the spec into the sharedFields, each a message, and the rest. Since fields ascend, those with
// one number are adjacent.
func splitSpec(spec []byte) (rest []byte, shared [len(sharedFields)][]byte, err error) {
	rest = make([]byte, 0, len(spec))
	at := 0
	err = wire.EachField(spec, func(f wire.Field) error {
		from := at
		at += len(f.Raw)
		for i := range sharedFields {
			if sharedFields[i].number == f.Number {
				shared[i] = spec[from-len(shared[i]) : at]
				return nil
			}
		}
		rest = append(rest, f.Raw...)
		return nil
	})
	return rest, shared, err
}

// newSpecPart decodes a part, and shares the resource lists of its containers.
func newSpecPart(data []byte) (*specPart, error) {
	part := &specPart{}
	if err := part.spec.Unmarshal(data); err != nil {
		return nil, err
	}
	for _, containers := range [][]corev1.Container{part.spec.Containers, part.spec.InitContainers} {
		for i := range containers {
			part.lists = shareRequirements(part.lists, &containers[i].Resources)
		}
	}
	return part, nil
}

// resourceList is a list that many containers have: a map of quantities takes more memory than anything else in a
// pod. It is immutable.
type resourceList struct{ list corev1.ResourceList }

var resourceLists intern.Table[resourceList]

// shareRequirements replaces the lists of r by shared ones, and appends the references that must be held for as
// long as r is.
func shareRequirements(held []*resourceList, r *corev1.ResourceRequirements) []*resourceList {
	if r == nil {
		return held
	}
	return shareList(shareList(held, &r.Requests), &r.Limits)
}

// shareList replaces one list by a shared one.
func shareList(held []*resourceList, list *corev1.ResourceList) []*resourceList {
	if len(*list) == 0 {
		return held
	}
	shared := resourceLists.Get(listKey(*list), func() *resourceList { return &resourceList{list: *list} })
	*list = shared.list
	return append(held, shared)
}

// listKey encodes a list so that equal bytes are the same names with equal quantities in the same format. It does
// what marshalling would do, and for whole and milli units in a fraction of the time.
func listKey(list corev1.ResourceList) []byte {
	var room [usualResources]string
	names := room[:0]
	for name := range list {
		names = append(names, string(name))
	}
	slices.Sort(names)
	key := make([]byte, 0, listKeySize)
	for _, name := range names {
		q := list[corev1.ResourceName(name)]
		key = wire.AppendSized(wire.AppendSized(key, name), string(q.Format))
		if v, whole := q.AsInt64(); whole {
			key = binary.AppendVarint(append(key, 'i'), v)
		} else if m := q.MilliValue(); resource.NewMilliQuantity(m, q.Format).Cmp(q) == 0 {
			key = binary.AppendVarint(append(key, 'm'), m)
		} else {
			key = wire.AppendSized(append(key, 's'), q.String())
		}
	}
	return key
}

const (
	// listKeySize is room for the key of most lists, usualResources for their names.
	listKeySize    = 128
	usualResources = 8
)
