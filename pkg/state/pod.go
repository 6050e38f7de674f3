package state

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	podresource "k8s.io/component-helpers/resource"
)

// What a container that names no request counts as when nodes are scored, so that pods
// without requests do not all look free. Source: pkg/scheduler/util/pod_resources.go.
const (
	// DefaultMilliCPURequest is in milli-CPU.
	DefaultMilliCPURequest int64 = 100
	// DefaultMemoryRequest is in bytes.
	DefaultMemoryRequest int64 = 200 << 20
)

// Pod is one pod as a fact described it. Immutable and shared: nobody may change it or
// what it points to.
type Pod struct {
	UID, Namespace, Name string
	// NodeName is where the pod is bound, or empty.
	NodeName string
	// ResourceVersion is the object's own.
	ResourceVersion uint64
	Priority        int32
	SchedulerName   string
	// Requests is what the pod takes from a node: max(spec, allocated, actual) under
	// in-place resize, overhead and sidecars included, and one pod.
	Requests Resources
	// NonZero is what the pod counts as for scoring: cpu and memory alone, with defaults
	// for containers that name none.
	NonZero Resources
	// Ports are the host ports of regular and restartable init containers.
	Ports []HostPort
	// Gated: spec.schedulingGates is not empty. Terminal: the phase is Succeeded or
	// Failed. Deleting: a deletionTimestamp is set.
	Gated, Terminal, Deleting bool
	// Terms are the inter-pod affinity terms, nil when there are none. Those of Kind, if the
	// pod has one.
	Terms *PodTerms
	// Kind is what other pods' placement rules see of the pod, shared by all pods of which
	// they see the same; nil for a pod that is not Described.
	Kind *Kind
	// Object is the stripped object; nil only for a pod known by its reservation alone.
	Object *corev1.Pod
}

// NewPod derives the values of a pod. It keeps obj: the caller gives it away.
func NewPod(obj *corev1.Pod) *Pod {
	requests := podRequests(obj, nil)
	pod := &Pod{
		UID:             string(obj.UID),
		Namespace:       obj.Namespace,
		Name:            obj.Name,
		NodeName:        obj.Spec.NodeName,
		ResourceVersion: parseResourceVersion(obj.ResourceVersion),
		SchedulerName:   obj.Spec.SchedulerName,
		Requests:        NewResources(requests),
		NonZero:         nonZeroRequests(obj, requests),
		Ports:           hostPorts(obj),
		Gated:           len(obj.Spec.SchedulingGates) > 0,
		Terminal:        obj.Status.Phase == corev1.PodSucceeded || obj.Status.Phase == corev1.PodFailed,
		Deleting:        obj.DeletionTimestamp != nil,
		Object:          obj,
	}
	if pod.Described() {
		pod.Kind = kindOf(obj)
		pod.Terms = pod.Kind.Terms
		obj.Labels = pod.Kind.Labels
	} else {
		pod.Terms = newPodTerms(obj)
	}
	pod.Requests.Pods = 1
	if obj.Spec.Priority != nil {
		pod.Priority = *obj.Spec.Priority
	}
	return pod
}

// Occupies tells whether the pod takes resources of the node NodeName: it is bound and
// not terminal. A pod that is being deleted still occupies until it is gone.
func (p *Pod) Occupies() bool { return p.NodeName != "" && !p.Terminal }

// Described tells whether a fact has described the pod. One that is known by its
// reservation alone has requests and ports, but nobody knows its labels and terms.
func (p *Pod) Described() bool { return p.Object != nil && p.Object.UID != "" }

// Key is "namespace/name".
func (p *Pod) Key() string { return p.Namespace + "/" + p.Name }

// RequiredAntiAffinity returns the pod's required anti-affinity terms, often none.
func (p *Pod) RequiredAntiAffinity() []corev1.PodAffinityTerm {
	if p.Object == nil || p.Object.Spec.Affinity == nil || p.Object.Spec.Affinity.PodAntiAffinity == nil {
		return nil
	}
	return p.Object.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
}

// podRequests is the formula of upstream's NodeInfo with the feature gates of 1.36
// (pkg/scheduler/framework/types.go PodInfo.CalculateResource).
func podRequests(obj *corev1.Pod, missing corev1.ResourceList) corev1.ResourceList {
	return podresource.PodRequests(obj, podresource.PodResourcesOptions{
		UseStatusResources: true,
		InPlacePodLevelResourcesVerticalScalingEnabled: true,
		NonMissingContainerRequests:                    missing,
	})
}

// nonZeroRequests fills in defaults per container; for a resource that the pod asks for
// as a whole it does not (getNonMissingContainerRequests in the same file).
func nonZeroRequests(obj *corev1.Pod, requests corev1.ResourceList) Resources {
	missing := DefaultRequests()
	if podresource.IsPodLevelRequestsSet(obj) {
		for name := range missing {
			if _, ok := requests[name]; ok {
				delete(missing, name)
			}
		}
	}
	if len(missing) > 0 {
		requests = podRequests(obj, missing)
	}
	cpu, memory := requests[corev1.ResourceCPU], requests[corev1.ResourceMemory]
	return Resources{MilliCPU: cpu.MilliValue(), Memory: memory.Value()}
}

// DefaultRequests is the request list of a container that names none, for scoring.
func DefaultRequests() corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(DefaultMilliCPURequest, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(DefaultMemoryRequest, resource.DecimalSI),
	}
}

// parseResourceVersion reads a resourceVersion as the number it is in etcd-backed API
// servers (KEP-5504 makes that a promise); 0 when there is none.
func parseResourceVersion(s string) uint64 {
	v, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0
	}
	return v
}
