package descheduling

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulingcorev1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/pkg/descheduling/policy"
)

// nodeTaints implements RemovePodsViolatingNodeTaints.
func (p *pass) nodeTaints(args *policy.NodeTaints) {
	looksAt := func(t *corev1.Taint) bool { return considers(args, t) }
	for _, n := range p.view.selected {
		if !slices.ContainsFunc(n.Object.Spec.Taints, func(t corev1.Taint) bool { return looksAt(&t) }) {
			continue
		}
		picked := selectPods(n.Pods, func(pod *Pod) bool {
			return !pod.Terminal && args.Has(pod.Namespace, pod.Template.Labels) &&
				!tolerates(pod.spec().Tolerations, n.Object.Spec.Taints, looksAt)
		})
		as := func(pod *Pod) Candidate {
			tolerations := pod.spec().Tolerations
			taint, _ := schedulingcorev1.FindMatchingUntoleratedTaint(
				klog.Logger{}, n.Object.Spec.Taints, tolerations, looksAt, true)
			return Candidate{
				Pod: pod, Reason: "taint " + taint.ToString() + " of node " + n.Name + " is not tolerated",
				Better: func(to string) bool {
					other := p.view.byName[to]
					return other != nil && tolerates(tolerations, other.Object.Spec.Taints, looksAt)
				},
			}
		}
		if !p.tryAll(picked, as) {
			return
		}
	}
}

// considers reports whether the strategy considers a taint. NoExecute is left to the taint manager.
func considers(args *policy.NodeTaints, t *corev1.Taint) bool {
	effect := t.Effect == corev1.TaintEffectNoSchedule ||
		args.PreferNoSchedule && t.Effect == corev1.TaintEffectPreferNoSchedule
	return effect && !lists(args.Excluded, t) && (args.Included == nil || lists(args.Included, t))
}

// lists reports whether a list of "key" and "key=value" contains the taint.
func lists(list []string, t *corev1.Taint) bool {
	return slices.Contains(list, t.Key) || t.Value != "" && slices.Contains(list, t.Key+"="+t.Value)
}
