package plugins

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/state"
)

// podInfo is a pod as plugins see it; it implements framework.PodInfo. It is immutable; the object is built on first
// use, because most pods of a cluster are only counted.
type podInfo struct {
	pod  *state.Pod
	node string // where it counts
	// api and term build their value once, on whichever goroutine asks first.
	api  func() *corev1.Pod
	term func() terms
}

// terms are the inter-pod affinity terms of a pod. Terms that cannot be parsed count as none, as the API server
// refuses them.
type terms struct {
	affinity, antiAffinity                   []framework.AffinityTerm
	preferredAffinity, preferredAntiAffinity []framework.WeightedAffinityTerm
}

// newPodInfo returns a pod that counts on a node, bound or not: upstream sets the node in pods that it assumes.
func newPodInfo(pod *state.Pod, node string) *podInfo {
	p := &podInfo{pod: pod, node: node}
	p.api = sync.OnceValue(func() *corev1.Pod {
		obj := pod.Object()
		obj.Spec.NodeName = node
		return obj
	})
	p.term = sync.OnceValue(func() terms { return termsOf(p.api()) })
	return p
}

// termsOf parses the terms of a pod's object.
func termsOf(pod *corev1.Pod) (t terms) {
	a := pod.Spec.Affinity
	if a == nil {
		return t
	}
	t.affinity, _ = framework.GetAffinityTerms(pod, framework.GetPodAffinityTerms(a))
	t.antiAffinity, _ = framework.GetAffinityTerms(pod, framework.GetPodAntiAffinityTerms(a))
	if a.PodAffinity != nil {
		t.preferredAffinity, _ = framework.GetWeightedAffinityTerms(pod,
			a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if a.PodAntiAffinity != nil {
		t.preferredAntiAffinity, _ = framework.GetWeightedAffinityTerms(pod,
			a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	return t
}

// GetPod returns the shared object: plugins must not change it.
func (p *podInfo) GetPod() *corev1.Pod { return p.api() }

// The terms are parsed when a plugin first asks for any of them, and shared: plugins must not change them.
func (p *podInfo) GetRequiredAffinityTerms() []framework.AffinityTerm { return p.term().affinity }

func (p *podInfo) GetRequiredAntiAffinityTerms() []framework.AffinityTerm {
	return p.term().antiAffinity
}

func (p *podInfo) GetPreferredAffinityTerms() []framework.WeightedAffinityTerm {
	return p.term().preferredAffinity
}

func (p *podInfo) GetPreferredAntiAffinityTerms() []framework.WeightedAffinityTerm {
	return p.term().preferredAntiAffinity
}

// CalculateResource returns the resources that the pod uses on a node.
func (p *podInfo) CalculateResource() framework.PodResource {
	return framework.PodResource{
		Resource: amountsOf(p.pod.Requests), Non0CPU: p.pod.NonZero.MilliCPU, Non0Mem: p.pod.NonZero.Memory,
	}
}
