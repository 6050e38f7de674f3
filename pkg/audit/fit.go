package audit

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulinghelpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/pkg/ledger"
)

// portsOf returns the node ports that a pod occupies.
func portsOf(pod *corev1.Pod) []ledger.HostPort {
	var out []ledger.HostPort
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for _, port := range c.Ports {
			if port.HostPort > 0 {
				out = append(out, ledger.HostPort{IP: port.HostIP, Protocol: string(port.Protocol), Port: port.HostPort})
			}
		}
	}
	return out
}

func clash(a, b ledger.HostPort) bool {
	wild := func(ip string) bool { return ip == "" || ip == "0.0.0.0" }
	protocol := func(p string) string {
		if p == "" {
			return string(corev1.ProtocolTCP)
		}
		return p
	}
	return a.Port == b.Port && protocol(a.Protocol) == protocol(b.Protocol) && (a.IP == b.IP || wild(a.IP) || wild(b.IP))
}

// selects reports whether a pod's selector and required node affinity match a node.
func selects(pod *corev1.Pod, node *corev1.Node) bool {
	ok, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node)
	return ok && err == nil
}

// objection returns why a pod may not be placed on a node; "" when it may.
func objection(pod *corev1.Pod, node *corev1.Node) string {
	if !selects(pod, node) {
		return "that it does not select"
	}
	taints := slices.Clone(node.Spec.Taints)
	if node.Spec.Unschedulable {
		taints = append(taints, corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
	}
	if taint, found := untolerated(pod, taints); found {
		return fmt.Sprintf("whose taint %s it does not tolerate", taint.ToString())
	}
	return ""
}

// untolerated returns the first taint that keeps a pod away. The comparison operators of tolerations are an alpha
// feature upstream and disabled.
func untolerated(pod *corev1.Pod, taints []corev1.Taint) (taint corev1.Taint, found bool) {
	return schedulinghelpers.FindMatchingUntoleratedTaint(klog.Logger{}, taints, pod.Spec.Tolerations,
		func(t *corev1.Taint) bool { return t.Effect != corev1.TaintEffectPreferNoSchedule }, false)
}
