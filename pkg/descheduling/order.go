package descheduling

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// compareForEviction orders pods of a node by how readily they are evicted: low priority first (pods without a
// priority before all others), then by quality of service, BestEffort first, then Reluctant pods last. (Upstream
// SortPodsBasedOnPriorityLowToHigh, which leaves the order of equal pods open.)
func compareForEviction(a, b *Pod) int {
	pa, oka := a.priority()
	pb, okb := b.priority()
	return cmp.Or(
		compareBool(oka, okb),
		cmp.Compare(pa, pb),
		cmp.Compare(a.quality(), b.quality()),
		compareBool(a.Reluctant, b.Reluctant),
	)
}

// compareBool puts false first.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}

// qualities lists the classes in the order in which they are evicted.
var qualities = []corev1.PodQOSClass{corev1.PodQOSBestEffort, corev1.PodQOSBurstable, corev1.PodQOSGuaranteed}

// quality returns the rank of the pod's quality of service among qualities, computed if the status does not have
// it.
func (p *Pod) quality() int {
	class := p.Status().QOSClass
	if class == "" {
		class = qualityOf(p.spec())
	}
	return slices.Index(qualities, class)
}

// qualityOf computes the quality of service of a pod whose status does not report it, from the requests and limits
// of its containers. (Upstream pkg/utils/qos.go, which follows Kubernetes' own rule and does not know pod-level
// requests.)
func qualityOf(spec *corev1.PodSpec) corev1.PodQOSClass {
	requests, limits := corev1.ResourceList{}, corev1.ResourceList{}
	allLimited := true
	for _, c := range slices.Concat(spec.Containers, spec.InitContainers) {
		addCompute(requests, c.Resources.Requests)
		allLimited = addCompute(limits, c.Resources.Limits) == 2 && allLimited
	}
	if len(requests) == 0 && len(limits) == 0 {
		return corev1.PodQOSBestEffort
	}
	for name, want := range requests {
		limit, ok := limits[name]
		allLimited = allLimited && ok && limit.Cmp(want) == 0
	}
	if allLimited && len(requests) == len(limits) {
		return corev1.PodQOSGuaranteed
	}
	return corev1.PodQOSBurstable
}

// addCompute adds the positive amounts of cpu and memory and returns how many of the two are positive.
func addCompute(sum, list corev1.ResourceList) int {
	found := 0
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		q, ok := list[name]
		if !ok || q.Cmp(resource.Quantity{}) <= 0 {
			continue
		}
		found++
		total := sum[name].DeepCopy()
		total.Add(q)
		sum[name] = total
	}
	return found
}
