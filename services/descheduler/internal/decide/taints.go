package decide

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	schedulingcorev1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/descheduler/policy"
)

// violation asks a strategy about one pod on its node, and returns why the pod should go.
func violation(s policy.Strategy, pod *state.Pod, n *state.Node) (why string, picked bool) {
	switch {
	case s.NodeTaints != nil:
		return taintViolation(s.NodeTaints, pod, n)
	default:
		return "", false
	}
}

func taintViolation(args *policy.NodeTaints, pod *state.Pod, n *state.Node) (why string, picked bool) {
	if !args.Namespaces.Has(pod.Namespace) || !args.Labels.Matches(labels.Set(pod.Template.Labels)) {
		return "", false
	}
	looksAt := func(t *corev1.Taint) bool { return regards(args, t) }
	// The zero logger drops everything; upstream, too, compares numerically (Lt, Gt) here.
	taint, untolerated := schedulingcorev1.FindMatchingUntoleratedTaint(
		klog.Logger{}, n.Object.Spec.Taints, pod.Template.Spec.Tolerations, looksAt, true)
	if !untolerated {
		return "", false
	}
	return "taint " + taint.ToString() + " of node " + n.Name + " is not tolerated", true
}

// regards: effect NoExecute is the taint manager's, not ours.
func regards(args *policy.NodeTaints, t *corev1.Taint) bool {
	effect := t.Effect == corev1.TaintEffectNoSchedule ||
		args.PreferNoSchedule && t.Effect == corev1.TaintEffectPreferNoSchedule
	return effect && !names(args.Excluded, t) && (args.Included == nil || names(args.Included, t))
}

// names reports whether a list of "key" and "key=value" has the taint.
func names(list []string, t *corev1.Taint) bool {
	return slices.Contains(list, t.Key) || t.Value != "" && slices.Contains(list, t.Key+"="+t.Value)
}
