package placement

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Events implements Plugin.
func (topologySpread) Events() []Event {
	return []Event{
		{events.KindPod, Add | UpdatePodLabel | UpdatePodToleration | Delete},
		{events.KindNode, Add | Delete | UpdateNodeLabel | UpdateNodeTaint},
	}
}

// Hint implements Plugin. Only hard constraints reject.
func (p topologySpread) Hint(pod *state.Pod, c Change) bool {
	if c.Kind == events.KindPod && !mayCount(pod, c) {
		return false
	}
	constraints, err := p.constraints(pod, orNoObjects(c.Objects), corev1.DoNotSchedule)
	if err != nil {
		return true
	}
	if c.Kind == events.KindNode {
		return domainsMoved(constraints, c)
	}
	return countsMoved(pod, constraints, c)
}

// mayCount reports whether the changed pod is one that the constraints of pod could count, or pod itself.
func mayCount(pod *state.Pod, c Change) bool {
	for _, p := range []*state.Pod{c.OldPod, c.NewPod} {
		if p != nil && p.UID != pod.UID && (!heldPlace(p) || p.Namespace != pod.Namespace) {
			return false
		}
	}
	return true
}

// countsMoved reports whether a pod was added, deleted or changed its labels in a way that changes a constraint's
// count; for the pod itself, also whether its tolerations changed where taints count.
func countsMoved(pod *state.Pod, constraints []spreadConstraint, c Change) bool {
	if c.OldPod == nil || c.NewPod == nil {
		other := c.NewPod
		if other == nil {
			other = c.OldPod
		}
		return selectedByAny(constraints, other)
	}
	before, after := c.OldPod.Template, c.NewPod.Template
	tolerates := pod.UID == c.NewPod.UID && !equality.Semantic.DeepEqual(before.Spec.Tolerations, after.Spec.Tolerations)
	for i := range constraints {
		selector := constraints[i].selector
		if selector.Matches(labels.Set(before.Labels)) != selector.Matches(labels.Set(after.Labels)) ||
			tolerates && constraints[i].honorTaints {
			return true
		}
	}
	return false
}

func selectedByAny(constraints []spreadConstraint, p *state.Pod) bool {
	for i := range constraints {
		if constraints[i].selector.Matches(labels.Set(p.Template.Labels)) {
			return true
		}
	}
	return false
}

// domainsMoved reports whether a node joined, left or changed domains, or changed its taints within one.
func domainsMoved(constraints []spreadConstraint, c Change) bool {
	was := c.OldNode != nil && hasKeys(c.OldNode.Object.Labels, constraints)
	is := c.NewNode != nil && hasKeys(c.NewNode.Object.Labels, constraints)
	if c.OldNode == nil || c.NewNode == nil || was != is {
		return was || is
	}
	if !is {
		return false
	}
	before, after := c.OldNode.Object, c.NewNode.Object
	for i := range constraints {
		if before.Labels[constraints[i].key] != after.Labels[constraints[i].key] {
			return true
		}
	}
	return !equality.Semantic.DeepEqual(before.Spec.Taints, after.Spec.Taints)
}

func (topologySpread) interest(pod *state.Pod) Interest {
	parts := append(pairs(pod.Template.Labels), pod.Namespace, owner(pod))
	for i := range pod.Template.Spec.TopologySpreadConstraints {
		parts = append(parts, bytesOf(pod, &pod.Template.Spec.TopologySpreadConstraints[i]))
	}
	return Interest{
		Class: joined(parts...), Pods: Reach{Topics: []string{topicIn + pod.Namespace}}, Nodes: everything,
	}
}

func (p topologySpread) crossRules(pod *state.Pod, objects Objects) ([]CrossRule, error) {
	hard, err := p.constraints(pod, objects, corev1.DoNotSchedule)
	if err != nil {
		return nil, err
	}
	var rules []CrossRule
	for _, c := range hard {
		// A selector without requirements counts no pods (spread.count), and neither does one that selects nothing.
		if requirements, selects := c.selector.Requirements(); !selects || len(requirements) == 0 {
			continue
		}
		rules = append(rules, CrossRule{Kind: CrossSpread, TopologyKey: c.key, Terms: []state.AffinityTerm{{
			TopologyKey: c.key, Selector: c.selector,
			Namespaces: []string{pod.Namespace}, NamespaceSelector: labels.Nothing(),
		}}})
	}
	return rules, nil
}
