package spread

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Events implements Plugin.
func (Plugin) Events() []rule.Event {
	return []rule.Event{
		{Kind: events.KindPod, Actions: rule.Add | rule.UpdatePodLabel | rule.UpdatePodToleration | rule.Delete},
		{Kind: events.KindNode, Actions: rule.Add | rule.Delete | rule.UpdateNodeLabel | rule.UpdateNodeTaint},
	}
}

// Hint implements Plugin. Only hard constraints reject. Source: podtopologyspread/plugin.go isSchedulableAfter...
func (p Plugin) Hint(pod *state.Pod, c rule.Change) bool {
	if c.Kind == events.KindPod && !mayCount(pod, c) {
		return false
	}
	constraints, err := p.constraints(pod, rule.OrNone(c.Objects), corev1.DoNotSchedule)
	if err != nil {
		return true
	}
	if c.Kind == events.KindNode {
		return domainsMoved(constraints, c)
	}
	return countsMoved(pod, constraints, c)
}

// mayCount reports whether the changed pod is one that the constraints of pod could count, or pod itself.
func mayCount(pod *state.Pod, c rule.Change) bool {
	for _, p := range []*state.Pod{c.OldPod, c.NewPod} {
		if p != nil && p.UID != pod.UID && (!rule.HeldPlace(p) || p.Namespace != pod.Namespace) {
			return false
		}
	}
	return true
}

// countsMoved reports whether a pod was added, deleted or changed its labels in a way that changes a constraint's
// count; for the pod itself, also whether its tolerations changed where taints count.
func countsMoved(pod *state.Pod, constraints []Constraint, c rule.Change) bool {
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
		selector := constraints[i].Selector
		if selector.Matches(labels.Set(before.Labels)) != selector.Matches(labels.Set(after.Labels)) ||
			tolerates && constraints[i].honorTaints {
			return true
		}
	}
	return false
}

// selectedByAny reports whether a constraint selects a pod.
func selectedByAny(constraints []Constraint, p *state.Pod) bool {
	for i := range constraints {
		if constraints[i].Selector.Matches(labels.Set(p.Template.Labels)) {
			return true
		}
	}
	return false
}

// domainsMoved reports whether a node joined, left or changed domains, or changed its taints within one. A node
// that leaves helps if its domain was the smallest.
func domainsMoved(constraints []Constraint, c rule.Change) bool {
	was := c.OldNode != nil && HasKeys(c.OldNode.Object.Labels, constraints)
	is := c.NewNode != nil && HasKeys(c.NewNode.Object.Labels, constraints)
	if c.OldNode == nil || c.NewNode == nil || was != is {
		return was || is
	}
	if !is {
		return false
	}
	before, after := c.OldNode.Object, c.NewNode.Object
	for i := range constraints {
		if before.Labels[constraints[i].Key] != after.Labels[constraints[i].Key] {
			return true
		}
	}
	return !equality.Semantic.DeepEqual(before.Spec.Taints, after.Spec.Taints)
}

// Interest implements rule.Classifier. Only pods of the pod's own namespace count.
func (Plugin) Interest(pod *state.Pod) rule.Interest {
	parts := append(rule.Pairs(pod.Template.Labels), pod.Namespace, rule.Owner(pod))
	for i := range pod.Template.Spec.TopologySpreadConstraints {
		parts = append(parts, rule.BytesOf(pod, &pod.Template.Spec.TopologySpreadConstraints[i]))
	}
	return rule.Interest{
		Class: rule.Joined(parts...), Nodes: rule.Everything,
		Pods: rule.Reach{Topics: []string{rule.TopicIn + pod.Namespace}},
	}
}

// CrossRules returns the pod's hard rules about pods on other nodes: its hard constraints, or the profile's
// defaults.
func (p Plugin) CrossRules(pod *state.Pod, objects rule.Objects) ([]rule.CrossRule, error) {
	hard, err := p.constraints(pod, objects, corev1.DoNotSchedule)
	if err != nil {
		return nil, err
	}
	var rules []rule.CrossRule
	for _, c := range hard {
		// A selector without requirements counts no pods (spread.count), and neither does one that selects nothing.
		if requirements, selects := c.Selector.Requirements(); !selects || len(requirements) == 0 {
			continue
		}
		rules = append(rules, rule.CrossRule{Kind: rule.CrossSpread, TopologyKey: c.Key, Terms: []state.AffinityTerm{{
			TopologyKey: c.Key, Selector: c.Selector,
			Namespaces: []string{pod.Namespace}, NamespaceSelector: labels.Nothing(),
		}}})
	}
	return rules, nil
}
