package placement

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

// taintToleration rejects nodes with taints that the pod does not tolerate, and prefers nodes with fewer
// untolerated PreferNoSchedule taints. Source: plugins/tainttoleration.
type taintToleration struct{}

type taintFilter struct {
	reason
	tolerations []corev1.Toleration
}

// taintScorer counts the PreferNoSchedule taints that none of tolerations covers.
type taintScorer struct{ tolerations []corev1.Toleration }

// Name implements Plugin.
func (taintToleration) Name() string { return TaintToleration }

// Compile implements Plugin.
func (taintToleration) Compile(pod *state.Pod, _ Objects) (Compiled, error) {
	tolerations := pod.Template.Spec.Tolerations
	return Compiled{
		Filter:    taintFilter{"node(s) had untolerated taint(s)", tolerations},
		Scorer:    taintScorer{softTolerations(tolerations)},
		Normalize: normalizeReversed,
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
func (f taintFilter) Check(n *state.NodeInfo) Code {
	if hasUntolerated(n.Node, f.tolerations) {
		return UnschedulableAndUnresolvable
	}
	return Success
}

func hasUntolerated(n *state.Node, tolerations []corev1.Toleration) bool {
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

// Score implements Scorer.
func (s taintScorer) Score(n *state.NodeInfo) int64 {
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
func (taintToleration) Events() []Event {
	return []Event{{events.KindNode, Add | UpdateNodeTaint}, {events.KindPod, UpdatePodToleration}}
}

// Hint implements Plugin.
func (taintToleration) Hint(pod *state.Pod, c Change) bool {
	if c.Kind == events.KindPod {
		return c.isOf(pod)
	}
	tolerations := pod.Template.Spec.Tolerations
	was := c.OldNode == nil || hasUntolerated(c.OldNode, tolerations)
	return was && !hasUntolerated(c.NewNode, tolerations)
}

func (taintToleration) interest(pod *state.Pod) Interest {
	tolerations := pod.Template.Spec.Tolerations
	list := make([]string, len(tolerations))
	for i := range tolerations {
		list[i] = bytesOf(pod, &tolerations[i])
	}
	return Interest{Class: joined(list...), Nodes: everything}
}

// onlyTraits reports whether the filter reads only traits of a node.
func (taintFilter) onlyTraits() bool { return true }

// details implements detailer: the taints that the pod does not tolerate.
func (f taintFilter) details(n *state.NodeInfo) []string {
	var list []string
	for i := range n.Node.Object.Spec.Taints {
		t := &n.Node.Object.Spec.Taints[i]
		if t.Effect != corev1.TaintEffectPreferNoSchedule && !tolerates(f.tolerations, t) {
			list = append(list, "taint "+t.ToString())
		}
	}
	return list
}
