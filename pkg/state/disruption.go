package state

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
)

// Ready reports whether the pod's condition Ready is true.
func (p *Pod) Ready() bool {
	return slices.ContainsFunc(p.Status().Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// DisruptionsAllowed returns how many disruptions a budget's status allows: none, if the status is older than the
// spec.
func DisruptionsAllowed(pdb *policyv1.PodDisruptionBudget) int32 {
	if pdb.Status.ObservedGeneration < pdb.Generation {
		return 0
	}
	return pdb.Status.DisruptionsAllowed
}

// SparesUnready reports whether a budget permits the eviction of pods that are not ready: its policy covers only
// the ready pods, or enough of those are healthy (registry/core/pod/storage/eviction.go).
func SparesUnready(pdb *policyv1.PodDisruptionBudget) bool {
	if p := pdb.Spec.UnhealthyPodEvictionPolicy; p != nil && *p == policyv1.AlwaysAllow {
		return true
	}
	return pdb.Status.DesiredHealthy > 0 && pdb.Status.CurrentHealthy >= pdb.Status.DesiredHealthy
}

// Annotations of pods whose eviction another controller turns into something gentler, such as a live migration
// (sigs.k8s.io/descheduler pkg/descheduler/evictions, KEP-1397 there). Their values do not matter.
const (
	// AnnotationRequestEvictOnly means that an eviction of the pod is only a request: the API server refuses it, and
	// the controller that set the annotation makes the pod leave later, or not.
	AnnotationRequestEvictOnly = "descheduler.alpha.kubernetes.io/request-evict-only"
	// AnnotationEvictionInProgress means that the controller has taken such a request on.
	AnnotationEvictionInProgress = "descheduler.alpha.kubernetes.io/eviction-in-progress"
)

// EvictionRequest reports whether the pod's annotations say that its eviction can only be requested and, if so,
// whether a controller is carrying such a request out. It decodes the pod's packed data, like Annotation.
func (p *Pod) EvictionRequest() (only, inProgress bool) {
	p.EachAnnotation(func(name, _ string) {
		only = only || name == AnnotationRequestEvictOnly
		inProgress = inProgress || name == AnnotationEvictionInProgress
	})
	return only, only && inProgress
}

// EvictsByRequest reports whether the pod's eviction can only be requested; see EvictionRequest.
func (p *Pod) EvictsByRequest() bool {
	only, _ := p.EvictionRequest()
	return only
}
