package state

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	podresource "k8s.io/component-helpers/resource"

	"github.com/berth-scheduler/berth/pkg/state/resources"
	"github.com/berth-scheduler/berth/pkg/state/strip"
	"github.com/berth-scheduler/berth/pkg/state/wire"
)

// What a container without a request counts as when nodes are scored, so that pods without requests do not all look
// free. Source: pkg/scheduler/util/pod_resources.go.
const (
	// DefaultMilliCPURequest is in milli-CPU.
	DefaultMilliCPURequest int64 = 100
	// DefaultMemoryRequest is in bytes.
	DefaultMemoryRequest int64 = 200 << 20
)

// Pod is one pod as a fact described it. It is immutable and shared: neither it nor what it points to may be
// changed.
//
// There are many pods, made from few templates. Content that a pod has in common with others is kept once for all
// of them, and the whole object is assembled on request.
type Pod struct {
	UID, Namespace, Name string
	// NodeName is the node to which the pod is bound, or empty.
	NodeName string
	// ResourceVersion is the object's own.
	ResourceVersion uint64
	Priority        int32
	// Gated: spec.schedulingGates is not empty. Terminal: the phase is Succeeded or Failed. Deleting: a
	// deletionTimestamp is set.
	Gated, Terminal, Deleting bool
	SchedulerName             string
	// Requests are the resources that the pod uses on a node: max(spec, allocated, actual) under in-place resize,
	// including overhead, sidecars, and one pod.
	Requests resources.Resources
	// NonZero are the requests that count for scoring: only cpu and memory, with defaults for containers without
	// requests.
	NonZero resources.Resources
	// Ports are the host ports of regular and restartable init containers.
	Ports []HostPort
	// Terms are the inter-pod affinity terms, nil when there are none. They are those of Kind, if the pod has one.
	Terms *PodTerms
	// Kind is the part of the pod that other pods' placement rules see, shared by all pods with an equal part; nil
	// for a pod that is not Described.
	Kind *PodClass
	// Template is the part that the pod has in common with the pods of its template: namespace, generateName, labels,
	// owners, finalizers and the spec without nodeName. Everything else in it is empty; Object has it. The same
	// pointer means the same content; the reverse holds for pods of this process whose facts are encoded as
	// Kubernetes encodes protobuf. It is nil only for a pod that is known by its reservation alone, and for a claim
	// to room (see Selectable).
	Template *corev1.Pod

	// form holds the data that the pod shares with others, nil like Template; own holds the rest.
	form *form  // nil like Template
	own  string // see wire.Parts.AppendOwn
}

// NewPod derives the values of a pod. It keeps no reference to obj.
func NewPod(obj *corev1.Pod) *Pod {
	pod, err := (&podReader{}).read(Marshalled(obj), 0)
	if err != nil {
		impossible("read a marshalled pod", err)
	}
	return pod
}

// podReader builds pods from their protobuf. It reuses its buffers, so it is for one goroutine.
type podReader struct {
	parts wire.Parts
	buf   []byte
}

// read decodes a pod. Its resourceVersion is the greater of rv and the object's.
func (r *podReader) read(data []byte, rv uint64) (*Pod, error) {
	f, err := r.form(data)
	if err != nil {
		// Not encoded as Kubernetes does, or not stripped, or not a pod: the Kubernetes decoder decides.
		obj := &corev1.Pod{}
		if err := obj.Unmarshal(data); err != nil {
			return nil, err
		}
		strip.Addresses(&obj.Status)
		if data, err = obj.Marshal(); err != nil {
			return nil, err
		}
		if f, err = r.form(data); err != nil {
			return nil, err
		}
	}
	return r.pod(f, rv), nil
}

// form returns the form of a pod whose message is canonical. The slices in parts are valid until the next call.
func (r *podReader) form(data []byte) (*form, error) {
	if err := r.parts.Read(data); err != nil {
		return nil, err
	}
	var (
		f   *form
		err error
	)
	f, r.buf, err = formOf(&r.parts, r.buf)
	return f, err
}

// pod builds the pod from the parts read last. One string holds all of its individual data: UID, name, and what
// wire.Parts.AppendOwn packs. One allocation of the exact size costs less than three, and the fields are
// substrings.
func (r *podReader) pod(f *form, rv uint64) *Pod {
	p := &r.parts
	rv = max(parseResourceVersion(string(p.ResourceVersion)), rv)
	r.buf = append(append(r.buf[:0], p.UID...), p.Name...)
	r.buf = p.AppendOwn(r.buf, f.usual, rv)
	text := string(r.buf)
	uid, rest := text[:len(p.UID)], text[len(p.UID):]
	name, own := rest[:len(p.Name)], rest[len(p.Name):]
	spec := &f.template.pod.Spec
	pod := &Pod{
		UID:             uid,
		Namespace:       f.template.pod.Namespace,
		Name:            name,
		NodeName:        string(p.NodeName),
		ResourceVersion: rv,
		SchedulerName:   spec.SchedulerName,
		Requests:        f.demand.requests,
		NonZero:         f.demand.nonZero,
		Ports:           f.demand.ports,
		Gated:           len(spec.SchedulingGates) > 0,
		Terminal:        f.status.api.Phase == corev1.PodSucceeded || f.status.api.Phase == corev1.PodFailed,
		Deleting:        p.Deleting,
		Terms:           f.terms,
		Kind:            f.kind,
		Template:        &f.template.pod,
	}
	pod.form, pod.own = f, own
	if spec.Priority != nil {
		pod.Priority = *spec.Priority
	}
	return pod
}

// Occupies reports whether the pod takes resources of the node NodeName: it is bound and not terminal. A pod that
// is being deleted still occupies the node until it is gone.
func (p *Pod) Occupies() bool { return p.NodeName != "" && !p.Terminal }

// Described reports whether a fact has described the pod. A pod that is known by its reservation alone has requests
// and ports, but its labels and terms are not known.
func (p *Pod) Described() bool { return p.Kind != nil }

// Selectable reports whether a label selector can apply to the pod: its labels are known, and it is not a mere
// claim to room, which is Described (nothing about it is in doubt) and has no labels.
func (p *Pod) Selectable() bool { return p.Kind != nil && p.Template != nil }

// CountsLike reports whether two versions of a pod are equal in everything that the rules about other pods read of a
// pod on a node: template, kind, requests and ports. They may differ in the rest: status, annotations, versions, and
// whether the pod is bound to the node or reserved there. Who may be evicted depends on some of that, so a dry run of
// preemption must not rely on it.
func (p *Pod) CountsLike(o *Pod) bool {
	return p.Template != nil && p.Template == o.Template && p.Kind == o.Kind && p.Terms == o.Terms &&
		p.Requests.Equal(o.Requests) && p.NonZero.Equal(o.NonZero) && slices.Equal(p.Ports, o.Ports)
}

// Key returns "namespace/name".
func (p *Pod) Key() string { return p.Namespace + "/" + p.Name }

// readOwn reads all of the pod's individual data, or stops after the creation time.
func (p *Pod) readOwn(all bool) wire.Own { return wire.ReadOwn(p.own, p.ResourceVersion, all) }

// Created returns metadata.creationTimestamp; the zero time if there is none.
func (p *Pod) Created() metav1.Time { return p.readOwn(false).Created.Time() }

// Generation returns metadata.generation.
func (p *Pod) Generation() int64 { return p.readOwn(false).Generation }

// Annotation returns the value of one annotation; empty if there is none. It decodes the pod's packed data: read it
// once, and keep the result, where a pod is asked about repeatedly.
func (p *Pod) Annotation(name string) string {
	found := ""
	p.eachAnnotation(p.readOwn(true), func(n, value string) {
		if n == name {
			found = value
		}
	})
	return found
}

// Annotations returns all annotations, in a new map; nil if there are none.
func (p *Pod) Annotations() map[string]string { return p.annotations(p.readOwn(true)) }

// EachAnnotation visits all annotations, in no particular order.
func (p *Pod) EachAnnotation(visit func(name, value string)) {
	p.eachAnnotation(p.readOwn(true), visit)
}

func (p *Pod) annotations(own wire.Own) map[string]string {
	var all map[string]string
	p.eachAnnotation(own, func(name, value string) {
		if all == nil {
			all = map[string]string{}
		}
		all[name] = value
	})
	return all
}

// eachAnnotation visits the annotations in own, which readOwn has returned for this pod.
func (p *Pod) eachAnnotation(own wire.Own, visit func(name, value string)) {
	if p.form != nil {
		own.Annotations(p.form.usual, visit)
	}
}

// Status returns the pod's status without times, addresses and restart counts, shared and read-only. Object has all
// of these except the addresses. The pointer is an identity in the same way as Template.
func (p *Pod) Status() *corev1.PodStatus {
	if p.form == nil {
		return &corev1.PodStatus{}
	}
	return &p.form.status.api
}

// Object assembles the whole object, as far as Strip keeps it. The struct belongs to the caller; the maps and lists
// in it are shared and must not be changed.
func (p *Pod) Object() *corev1.Pod {
	obj := &corev1.Pod{}
	if p.Template != nil {
		*obj = *p.Template
	}
	own := p.readOwn(true)
	obj.UID = types.UID(p.UID)
	obj.Namespace = p.Namespace
	obj.Name = p.Name
	obj.ResourceVersion, obj.Generation = own.ResourceVersion, own.Generation
	obj.CreationTimestamp, obj.DeletionGracePeriodSeconds = own.Created.Time(), own.Grace
	if own.Deleting {
		deleted := own.Deleted.Time()
		obj.DeletionTimestamp = &deleted
	}
	obj.Spec.NodeName = p.NodeName
	if p.form != nil {
		obj.Status = p.form.status.with(&own.Changing)
	}
	obj.Annotations = p.annotations(own)
	return obj
}

// RequiredAntiAffinity returns the pod's required anti-affinity terms, often none.
func (p *Pod) RequiredAntiAffinity() []corev1.PodAffinityTerm {
	if p.Template == nil || p.Template.Spec.Affinity == nil || p.Template.Spec.Affinity.PodAntiAffinity == nil {
		return nil
	}
	return p.Template.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
}

// PodRequests is the formula of upstream's NodeInfo (pkg/scheduler/framework/types.go PodInfo.CalculateResource). It
// counts what devices take of the node by the pod's status (KEP-5517): a scheduler that gives such devices writes it
// there. missing holds the requests that a container without a request counts with; nil means none.
func PodRequests(obj *corev1.Pod, missing corev1.ResourceList) corev1.ResourceList {
	return podresource.PodRequests(obj, podresource.PodResourcesOptions{
		UseStatusResources: true,
		InPlacePodLevelResourcesVerticalScalingEnabled: true,
		UseDRANodeAllocatableResourceClaimStatus:       true,
		NonMissingContainerRequests:                    missing,
	})
}

// nonZeroRequests fills in defaults per container, but not for a resource that the pod requests at pod level
// (getNonMissingContainerRequests in the same file).
func nonZeroRequests(obj *corev1.Pod, requests corev1.ResourceList) resources.Resources {
	missing := DefaultRequests()
	if podresource.IsPodLevelRequestsSet(obj) {
		for name := range missing {
			if _, ok := requests[name]; ok {
				delete(missing, name)
			}
		}
	}
	if !namesAll(obj, missing) {
		requests = PodRequests(obj, missing)
	}
	cpu, memory := requests[corev1.ResourceCPU], requests[corev1.ResourceMemory]
	return resources.Resources{MilliCPU: cpu.MilliValue(), Memory: memory.Value()}
}

// namesAll reports whether every container requests some of every resource in missing, so that no default is filled
// in. The resources allocated to a container count in addition to what it requests, but not while the kubelet
// cannot resize the pod: then they count instead of it (component-helpers determineEffectiveRequests).
func namesAll(obj *corev1.Pod, missing corev1.ResourceList) bool {
	if podresource.IsPodResizeInfeasible(obj) {
		return len(missing) == 0
	}
	lacks := func(c corev1.Container) bool {
		for name := range missing {
			if _, ok := c.Resources.Requests[name]; !ok {
				return true
			}
		}
		return false
	}
	return !slices.ContainsFunc(obj.Spec.Containers, lacks) && !slices.ContainsFunc(obj.Spec.InitContainers, lacks)
}

// DefaultRequests returns the request list of a container without requests, for scoring.
func DefaultRequests() corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(DefaultMilliCPURequest, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(DefaultMemoryRequest, resource.DecimalSI),
	}
}

// parseResourceVersion parses a resourceVersion as a number, which it is in etcd-backed API servers (KEP-5504
// guarantees that); 0 when there is none.
func parseResourceVersion(s string) uint64 {
	v, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0
	}
	return v
}
