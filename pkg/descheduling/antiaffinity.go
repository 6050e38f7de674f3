package descheduling

import (
	"slices"

	"github.com/berth-scheduler/berth/pkg/descheduling/policy"
)

// interPodAntiAffinity implements RemovePodsViolatingInterPodAntiAffinity. It evicts the pod that has the term;
// once that is accepted, its counterpart may stay.
func (p *pass) interPodAntiAffinity(args *policy.InterPodAntiAffinity) {
	c := newPodIndex(p.view, p.Upstream)
	for _, n := range p.view.selected {
		for _, pod := range n.Pods {
			if !pod.Terminal && args.Has(pod.Namespace, pod.Template.Labels) {
				c.byNode[n] = append(c.byNode[n], pod)
			}
		}
	}
	for _, n := range p.view.selected {
		pods := selectPods(c.byNode[n], func(pod *Pod) bool { return pod.Kind.RequiredAntiAffinity && !p.tooManyRules(pod) })
		slices.SortStableFunc(pods, compareForEviction)
		if !p.evictConflicting(c, pods) {
			return
		}
	}
}

// evictConflicting processes the pods of one node and reports whether the pass should continue.
func (p *pass) evictConflicting(c *podIndex, pods []*Pod) bool {
	for _, pod := range pods {
		other := c.conflict(pod)
		if other == nil {
			continue
		}
		switch p.try(pod, "repels "+other.Key()+" on node "+other.NodeName) {
		case Accepted:
			c.evicted[pod] = true
		case NodeDone:
			return true
		case Done:
			return false
		}
	}
	return true
}
