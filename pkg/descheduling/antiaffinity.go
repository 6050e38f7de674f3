package descheduling

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/descheduling/policy"
)

// interPodAntiAffinity implements RemovePodsViolatingInterPodAntiAffinity. It evicts the pod that has the term;
// once that is accepted, its counterpart may stay.
func (p *pass) interPodAntiAffinity(args *policy.InterPodAntiAffinity) {
	c := newCrowd(p.view, p.Upstream)
	for _, n := range p.view.looked {
		for _, pod := range n.Pods {
			if !pod.Terminal && args.Has(pod.Namespace, pod.Template.Labels) {
				c.on[n] = append(c.on[n], pod)
			}
		}
	}
	for _, n := range p.view.looked {
		pods := selectPods(c.on[n], func(pod *Pod) bool { return pod.Kind.RequiredAntiAffinity && !p.tooManyRules(pod) })
		slices.SortStableFunc(pods, compareForEviction)
		if !p.separate(c, pods) {
			return
		}
	}
}

// separate processes the pods of one node and reports whether the pass should continue.
func (p *pass) separate(c *crowd, pods []*Pod) bool {
	for _, pod := range pods {
		other := c.conflict(pod)
		if other == nil {
			continue
		}
		switch p.try(pod, "repels "+other.Key()+" on node "+other.NodeName) {
		case Accepted:
			c.gone[pod] = true
		case NodeDone:
			return true
		case Done:
			return false
		}
	}
	return true
}

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

// quality returns the rank of the pod's quality of service.
func (p *Pod) quality() int {
	class := p.Status().QOSClass
	if class == "" {
		class = qualityOf(p.spec())
	}
	return slices.Index(qualities, class)
}
