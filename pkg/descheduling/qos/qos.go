package qos

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Of computes the quality of service of a pod whose status does not report it, from the requests and limits
// of its containers. (Upstream pkg/utils/qos.go, which follows Kubernetes' own rule and does not know pod-level
// requests.)
func Of(spec *corev1.PodSpec) corev1.PodQOSClass {
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
