package descheduling

import (
	corev1 "k8s.io/api/core/v1"
	schedulingcorev1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/berth-scheduler/berth/pkg/descheduling/policy"
)

// nodeAffinity is RemovePodsViolatingNodeAffinity. It looks for another place in upstream's
// way whatever the policy's nodeFit says.
func (p *pass) nodeAffinity(args *policy.NodeAffinity) {
	for _, kind := range args.Types {
		var picks func(*Pod) bool
		why := func(pod *Pod) string { return "node " + pod.NodeName + " does not match its required node affinity" }
		switch kind {
		case policy.RequiredNodeAffinity:
			picks = p.missesRequired
		case policy.PreferredNodeAffinity:
			picks = p.prefersOther
			why = func(pod *Pod) string { return "a node fits that it prefers to node " + pod.NodeName }
		default:
			continue
		}
		for _, n := range p.view.looked {
			picked := selectPods(n.Pods, func(pod *Pod) bool {
				return !pod.Terminal && args.Has(pod.Namespace, pod.Template.Labels) && picks(pod)
			})
			if !p.tryAll(picked, why) {
				return
			}
		}
	}
}

// missesRequired: a node selector alone is not looked at, only beside a required affinity.
func (p *pass) missesRequired(pod *Pod) bool {
	a := pod.spec().Affinity
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return false
	}
	match, err := nodeaffinity.GetRequiredNodeAffinity(pod.Template).Match(pod.Node.Object)
	return (err != nil || !match) && p.view.fitsAny(pod, p.view.looked)
}

// prefersOther: some node is worth more to the pod, and it fits one that is; for upstream it
// is enough that it fits any, its own included, from where it may come back.
func (p *pass) prefersOther(pod *Pod) bool {
	a := pod.spec().Affinity
	if a == nil || a.NodeAffinity == nil || len(a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution) == 0 {
		return false
	}
	weights := p.view.preferences(a.NodeAffinity)
	own := preference(a.NodeAffinity, pod.Node)
	var better []*Node
	for i, n := range p.view.looked {
		if w := weights[i]; w > own && w > 0 {
			better = append(better, n)
		}
	}
	if len(better) == 0 {
		return false
	}
	if p.Upstream {
		return p.view.fitsAny(pod, p.view.looked)
	}
	return p.view.fitsOther(pod, better)
}

// preferences are what each node looked at is worth, shared by pods with equal terms.
func (v *View) preferences(a *corev1.NodeAffinity) []int32 {
	key := (&corev1.NodeAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: a.PreferredDuringSchedulingIgnoredDuringExecution,
	}).String()
	weights, known := v.weights[key]
	if !known {
		for _, n := range v.looked {
			weights = append(weights, preference(a, n))
		}
		v.weights[key] = weights
	}
	return weights
}

// preference is the sum of the weights of the preferred terms that the node matches. A term
// that cannot be read counts nothing.
func preference(a *corev1.NodeAffinity, n *Node) int32 {
	sum := int32(0)
	for _, t := range a.PreferredDuringSchedulingIgnoredDuringExecution {
		match, err := schedulingcorev1.MatchNodeSelectorTerms(n.Object,
			&corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{t.Preference}})
		if err == nil && match {
			sum += t.Weight
		}
	}
	return sum
}
