package descheduling

import (
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/berth-scheduler/berth/pkg/descheduling/policy"
)

// nodeAffinity implements RemovePodsViolatingNodeAffinity. It searches for another place as upstream does, whatever
// the policy's nodeFit is. The types of affinity are processed one after the other, in the order of the arguments.
func (p *pass) nodeAffinity(args *policy.NodeAffinity) {
	rule := affinityRule{view: p.view, upstream: p.Upstream}
	for _, kind := range args.Types {
		var picks func(*Pod) bool
		as := func(pod *Pod) Candidate {
			return Candidate{Pod: pod, Reason: "node " + pod.NodeName + " does not match its required node affinity"}
		}
		switch kind {
		case policy.RequiredNodeAffinity:
			picks = rule.missesRequired
		case policy.PreferredNodeAffinity:
			picks = rule.prefersOther
			as = rule.preferring
		default:
			continue
		}
		for _, n := range p.view.selected {
			picked := selectPods(n.Pods, func(pod *Pod) bool {
				return !pod.Terminal && args.Has(pod.Namespace, pod.Template.Labels) && !manyRules(pod) && picks(pod)
			})
			if !p.tryAll(picked, as) {
				return
			}
		}
	}
}

// affinityRule judges pods by their node affinity, on the nodes of a view.
type affinityRule struct {
	view *View
	// upstream reports whether pods are judged as upstream does.
	upstream bool
}

// missesRequired reports whether the pod violates its required node affinity and fits another place. A node
// selector is evaluated only together with a required affinity, not alone.
func (a affinityRule) missesRequired(pod *Pod) bool {
	terms := pod.spec().Affinity
	if terms == nil || terms.NodeAffinity == nil ||
		terms.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return false
	}
	match, err := nodeaffinity.GetRequiredNodeAffinity(pod.Template).Match(pod.Node.Object)
	return (err != nil || !match) && a.view.fitsAny(pod)
}

// prefersOther reports whether the pod prefers some node to its own, and fits one that it prefers. For upstream it
// is enough that it fits any node, including its own, so that it may come back.
func (a affinityRule) prefersOther(pod *Pod) bool {
	terms := pod.spec().Affinity
	if terms == nil || terms.NodeAffinity == nil ||
		len(terms.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution) == 0 {
		return false
	}
	w := a.view.preferences.of(pod)
	better := w.betterThan(w.weights[pod.Node], a.view.selected)
	switch {
	case len(better.nodes) == 0:
		return false
	case a.upstream:
		return a.view.fitsAny(pod)
	default:
		return a.view.fitsOther(pod, better)
	}
}

// preferring returns a candidate whose replacement should be on a node that it prefers.
func (a affinityRule) preferring(pod *Pod) Candidate {
	w := a.view.preferences.of(pod)
	return Candidate{
		Pod: pod, Reason: "a node fits that it prefers to node " + pod.NodeName,
		Better: func(to string) bool { return w.weights[a.view.byName[to]] > w.weights[pod.Node] },
	}
}
