package state

import (
	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/state/intern"
)

// template is Pod.Template, with what keeps the parts that it shares with other templates
// from being forgotten. Immutable, one for equal content in this process.
type template struct {
	pod   corev1.Pod
	parts []*specPart
}

// specPart is one field of a spec, which templates that differ elsewhere may share: the
// pods of a StatefulSet have labels and hostnames of their own, and those of Jobs.
type specPart struct {
	spec  corev1.PodSpec // all but the one field is empty
	lists []*resourceList
}

// The templates of all pods of this process, and what templates share.
var (
	templates intern.Table[template]
	specParts intern.Table[specPart]
)

const (
	specContainers     = protowire.Number(2)
	specNodeName       = protowire.Number(10)
	specAffinity       = protowire.Number(18)
	specInitContainers = protowire.Number(20)
	specTolerations    = protowire.Number(22)
	specOverhead       = protowire.Number(32)
	specSpread         = protowire.Number(33)
	specResources      = protowire.Number(40)
)

// appendTemplate writes what makes a template.
func (p *podParts) appendTemplate(b []byte) []byte {
	return appendBytes(appendBytes(b, p.metadata), p.spec)
}

func (p *podParts) template() (*template, error) {
	return templates.TryGet(p.appendTemplate(nil), p.newTemplate)
}

func (p *podParts) newTemplate() (*template, error) {
	t := &template{}
	if err := t.pod.ObjectMeta.Unmarshal(p.metadata); err != nil {
		return nil, err
	}
	if len(t.pod.Labels) == 0 {
		t.pod.Labels = nil
	}
	var own []byte
	shared := map[protowire.Number][]byte{}
	err := eachField(p.spec, func(f field) error {
		switch f.number {
		case specContainers, specAffinity, specInitContainers, specTolerations, specSpread:
			shared[f.number] = append(shared[f.number], f.raw...)
		default:
			own = append(own, f.raw...)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	spec := &t.pod.Spec
	if err := spec.Unmarshal(own); err != nil {
		return nil, err
	}
	for number, data := range shared {
		part, err := specParts.TryGet(data, func() (*specPart, error) { return newSpecPart(data) })
		if err != nil {
			return nil, err
		}
		t.parts = append(t.parts, part)
		switch number {
		case specContainers:
			spec.Containers = part.spec.Containers
		case specAffinity:
			spec.Affinity = part.spec.Affinity
		case specInitContainers:
			spec.InitContainers = part.spec.InitContainers
		case specTolerations:
			spec.Tolerations = part.spec.Tolerations
		case specSpread:
			spec.TopologySpreadConstraints = part.spec.TopologySpreadConstraints
		}
	}
	return t, nil
}

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

// resourceList is a list that many containers have: a map of quantities takes more room than
// anything else in a pod. Immutable.
type resourceList struct{ list corev1.ResourceList }

var resourceLists intern.Table[resourceList]

// shareRequirements puts shared lists in the place of those of r, and appends what must be
// held for as long as r is.
func shareRequirements(held []*resourceList, r *corev1.ResourceRequirements) []*resourceList {
	if r == nil {
		return held
	}
	return shareList(shareList(held, &r.Requests), &r.Limits)
}

func shareList(held []*resourceList, list *corev1.ResourceList) []*resourceList {
	if len(*list) == 0 {
		return held
	}
	shared := resourceLists.Get(marshalled(&corev1.ResourceRequirements{Requests: *list}), func() *resourceList {
		return &resourceList{list: *list}
	})
	*list = shared.list
	return append(held, shared)
}
