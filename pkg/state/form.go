package state

import (
	"encoding/binary"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/state/intern"
	"github.com/berth-scheduler/berth/pkg/state/resources"
)

// form is the common part of pods of one template in the same condition: everything except names, times, node and
// annotations. All values that are derived from a pod are derived once per form. It is immutable, and unique for
// its content in this process.
type form struct {
	template *template
	status   *status
	kind     *Kind // nil for pods that are not described
	terms    *PodTerms
	demand   *demand
	// usual are annotations that the first pod of the form had; pods store how theirs differ. This determines how
	// much memory pods take and nothing else.
	usual []string
}

var forms intern.Table[form]

// maxUsual is the number of usual annotations for which the mask in a pod has room.
const maxUsual = 64

// form returns the form of a pod that has been split into parts. buf is working space, and is returned.
func (p *podParts) form(buf []byte) (*form, []byte, error) {
	buf = append(buf[:0], flag(p.deleting), flag(len(p.uid) > 0))
	buf = appendBytes(buf, p.skeleton)
	start := len(buf)
	buf = appendBytes(appendBytes(buf, p.metadata), p.spec)
	f, err := forms.TryGet(buf, func() (*form, error) { return p.newForm(buf[start:]) })
	return f, buf, err
}

// newForm builds a form; template is the bytes that the template stands for.
func (p *podParts) newForm(template []byte) (*form, error) {
	t, err := templates.TryGet(template, p.newTemplate)
	if err != nil {
		return nil, err
	}
	s, err := statuses.TryGet(p.skeleton, p.newStatus)
	if err != nil {
		return nil, err
	}
	obj := t.pod
	obj.Status = s.api
	if p.deleting {
		obj.DeletionTimestamp = &metav1.Time{}
	}
	f := &form{template: t, status: s, demand: p.demand(&obj)}
	if len(p.uid) > 0 {
		f.kind = kindOf(&obj)
		f.terms = f.kind.Terms
	} else {
		f.terms = newPodTerms(&obj)
	}
	f.usual = make([]string, min(len(p.annotations), maxUsual))
	for i := range f.usual {
		f.usual[i] = string(p.annotations[i])
	}
	return f, nil
}

// demand is the set of resources and ports that a pod uses on a node. Pods with equal containers and an equal
// status share it, even if their templates differ. It is immutable.
type demand struct {
	requests, nonZero resources.Resources
	ports             []HostPort
}

var demands intern.Table[demand]

// demand returns the demand of obj, whose parts are p.
func (p *podParts) demand(obj *corev1.Pod) *demand {
	key := make([]byte, 0, binary.MaxVarintLen64+len(p.skeleton)+len(p.spec))
	key = appendBytes(key, p.skeleton) // whose resources, and conditions about resizing, matter
	// The fields have been visited before, so no error is possible.
	_ = eachField(p.spec, func(f field) error {
		switch f.number {
		case specContainers, specInitContainers, specOverhead, specResources:
			key = append(key, f.raw...)
		}
		return nil
	})
	return demands.Get(key, func() *demand {
		requests := PodRequests(obj, nil)
		d := &demand{requests: resources.NewResources(requests), nonZero: nonZeroRequests(obj, requests),
			ports: HostPorts(obj)}
		d.requests.Pods = 1
		return d
	})
}

func flag(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// appendBytes writes a part preceded by its length, so that parts cannot run together.
func appendBytes[T string | []byte](b []byte, part T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(part))), part...)
}
