package descheduling

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/descheduling/qos"
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
		class = qos.Of(p.spec())
	}
	return slices.Index(qualities, class)
}
