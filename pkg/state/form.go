package state

import (
	"encoding/binary"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/state/intern"
	"github.com/berth-scheduler/berth/pkg/state/resources"
	"github.com/berth-scheduler/berth/pkg/state/wire"
)

// form is the common part of pods of one template in the same condition: everything except names, times, node and
// annotations. All values that are derived from a pod are derived once per form. It is immutable, and unique for
// its content in this process. A Deployment whose pods are all running has one form; a pod that starts passes
// through a few.
type form struct {
	template *template
	status   *status
	kind     *PodClass // nil for pods that are not described
	terms    *PodTerms
	demand   *demand
	// usual are annotations that the first pod of the form had; pods store how theirs differ. This determines how
	// much memory pods take and nothing else.
	usual []string
}

var forms intern.Table[form]

// formOf returns the form of a pod that has been split into parts. buf is working space, and is returned.
//
// The key is the content: whether the pod is being deleted, whether it has a UID (one without is not described),
// the skeleton of the status, and the template. An existing form is found by the hash of these bytes, without
// decoding any.
func formOf(p *wire.Parts, buf []byte) (*form, []byte, error) {
	buf = append(buf[:0], flag(p.Deleting), flag(len(p.UID) > 0))
	buf = wire.AppendSized(buf, p.Skeleton)
	start := len(buf)
	buf = wire.AppendSized(wire.AppendSized(buf, p.Metadata), p.Spec)
	f, err := forms.TryGet(buf, func() (*form, error) { return newForm(p, buf[start:]) })
	return f, buf, err
}

// newForm builds a form; key is the bytes that identify its template.
func newForm(p *wire.Parts, key []byte) (*form, error) {
	t, err := templates.TryGet(key, func() (*template, error) { return newTemplate(p) })
	if err != nil {
		return nil, err
	}
	s, err := statuses.TryGet(p.Skeleton, func() (*status, error) { return newStatus(p) })
	if err != nil {
		return nil, err
	}
	obj := t.pod
	obj.Status = s.api
	if p.Deleting {
		obj.DeletionTimestamp = &metav1.Time{}
	}
	f := &form{template: t, status: s, demand: demandOf(p, &obj)}
	if len(p.UID) > 0 {
		f.kind = kindOf(&obj)
		f.terms = f.kind.Terms
	} else {
		f.terms = newPodTerms(&obj)
	}
	f.usual = make([]string, min(len(p.Annotations), wire.MaxUsual))
	for i := range f.usual {
		f.usual[i] = string(p.Annotations[i])
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

// demandOf returns the demand of obj, whose parts are p.
func demandOf(p *wire.Parts, obj *corev1.Pod) *demand {
	key := make([]byte, 0, binary.MaxVarintLen64+len(p.Skeleton)+len(p.Spec))
	key = wire.AppendSized(key, p.Skeleton) // whose resources, and conditions about resizing, matter
	// The fields have been visited before, so no error is possible.
	_ = wire.EachField(p.Spec, func(f wire.Field) error {
		switch f.Number {
		case specContainers, specInitContainers, specOverhead, specResources:
			key = append(key, f.Raw...)
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

// flag encodes a bool as one byte of a key.
func flag(b bool) byte {
	if b {
		return 1
	}
	return 0
}
