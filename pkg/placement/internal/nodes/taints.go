package nodes

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// TaintToleration rejects nodes with taints that the pod does not tolerate, and prefers nodes with fewer
// untolerated PreferNoSchedule taints. Source: plugins/tainttoleration.
type TaintToleration struct{}

// taintFilter is the hard part of the rule: taints with the effect NoSchedule or NoExecute.
type taintFilter struct {
	rule.Reason
	tolerations []corev1.Toleration
}

// TaintScorer counts the PreferNoSchedule taints that none of tolerations covers.
type TaintScorer struct{ tolerations []corev1.Toleration }

// Name implements Plugin.
func (TaintToleration) Name() string { return names.TaintToleration }

// Compile implements Plugin. Fewer untolerated soft taints are better, therefore the reversed scale.
func (TaintToleration) Compile(pod *state.Pod, _ rule.Objects) (rule.Compiled, error) {
	tolerations := pod.Template.Spec.Tolerations
	return rule.Compiled{
		Filter:    taintFilter{"node(s) had untolerated taint(s)", tolerations},
		Scorer:    TaintScorer{softTolerations(tolerations)},
		Normalize: rule.NormalizeReversed,
	}, nil
}

// softTolerations returns those that can cover a PreferNoSchedule taint.
func softTolerations(tolerations []corev1.Toleration) []corev1.Toleration {
	var soft []corev1.Toleration
	for _, t := range tolerations {
		if t.Effect == "" || t.Effect == corev1.TaintEffectPreferNoSchedule {
			soft = append(soft, t)
		}
	}
	return soft
}

// Check implements Filter.
func (f taintFilter) Check(n *state.NodeInfo) rule.Code {
	if HasUntolerated(n.Node, f.tolerations) {
		return rule.UnschedulableAndUnresolvable
	}
	return rule.Success
}

// HasUntolerated reports whether a node has a taint that keeps off pods with these tolerations.
func HasUntolerated(n *state.Node, tolerations []corev1.Toleration) bool {
	taints := n.Object.Spec.Taints
	for i := range taints {
		t := &taints[i]
		hard := t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute
		if hard && !tolerates(tolerations, t) {
			return true
		}
	}
	return false
}

// Score implements Scorer. It counts taints, so that fewer are better.
func (s TaintScorer) Score(n *state.NodeInfo) int64 {
	var count int64
	taints := n.Node.Object.Spec.Taints
	for i := range taints {
		if taints[i].Effect == corev1.TaintEffectPreferNoSchedule && !tolerates(s.tolerations, &taints[i]) {
			count++
		}
	}
	return count
}

// Events implements Plugin.
func (TaintToleration) Events() []rule.Event {
	return []rule.Event{
		{Kind: events.KindNode, Actions: rule.Add | rule.UpdateNodeTaint},
		{Kind: events.KindPod, Actions: rule.UpdatePodToleration},
	}
}

// Hint implements Plugin. A node helps if it is new or has lost its last untolerated taint; of the pod itself,
// any change that Events lists does.
func (TaintToleration) Hint(pod *state.Pod, c rule.Change) bool {
	if c.Kind == events.KindPod {
		return c.IsOf(pod)
	}
	tolerations := pod.Template.Spec.Tolerations
	was := c.OldNode == nil || HasUntolerated(c.OldNode, tolerations)
	return was && !HasUntolerated(c.NewNode, tolerations)
}

// Interest implements rule.Classifier: pods with equal tolerations, in the same order, get the same hints.
func (TaintToleration) Interest(pod *state.Pod) rule.Interest {
	tolerations := pod.Template.Spec.Tolerations
	list := make([]string, len(tolerations))
	for i := range tolerations {
		list[i] = rule.BytesOf(pod, &tolerations[i])
	}
	return rule.Interest{Class: rule.Joined(list...), Nodes: rule.Everything}
}

// OnlyTraits reports whether the filter reads only traits of a node.
func (taintFilter) OnlyTraits() bool { return true }

// Details implements detailer: the taints that the pod does not tolerate.
func (f taintFilter) Details(n *state.NodeInfo) []string {
	var list []string
	for i := range n.Node.Object.Spec.Taints {
		t := &n.Node.Object.Spec.Taints[i]
		if t.Effect != corev1.TaintEffectPreferNoSchedule && !tolerates(f.tolerations, t) {
			list = append(list, "taint "+t.ToString())
		}
	}
	return list
}
