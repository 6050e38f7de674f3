package fit

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"
	schedulinghelpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/pkg/ledger"
)

// Amounts is by resource name: milli-CPU for cpu, otherwise the resource's own unit; "pods" is included, with 1 for a
// pod. A resource that is absent is 0.
type Amounts map[string]int64

// Requests returns what a pod requests of a node, by upstream's own arithmetic (KEP-753, KEP-1287, KEP-2837), with what
// its devices take of the node by its status (KEP-5517) and without the resources that are provided as devices
// (KEP-5004).
func Requests(pod *corev1.Pod) Amounts {
	list := resource.PodRequests(pod, resource.PodResourcesOptions{
		UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true,
		UseDRANodeAllocatableResourceClaimStatus: true,
	})
	out := AmountsOf(list)
	out[string(corev1.ResourcePods)] = 1
	return out.without(pod.Status.ExtendedResourceClaimStatus)
}

// without removes the resources that a pod gets as devices.
func (a Amounts) without(status *corev1.PodExtendedResourceClaimStatus) Amounts {
	if status != nil {
		for i := range status.RequestMappings {
			delete(a, status.RequestMappings[i].ResourceName)
		}
	}
	return a
}

// EntryRequests returns what a reservation takes from a node: like Requests, but without the pod itself, and from
// the entry alone. Devices of the entry carry the status that the pod will get, which names the resources that they
// provide.
func EntryRequests(e ledger.Entry) Amounts {
	out := Amounts{}
	maps.Copy(out, e.Requests)
	for _, d := range e.Devices {
		var status corev1.PodExtendedResourceClaimStatus
		if status.Unmarshal(d.PodStatus) == nil {
			out.without(&status)
		}
	}
	return out
}

// AmountsOf converts a list of resources, rounding up as Kubernetes does.
func AmountsOf(list corev1.ResourceList) Amounts {
	out := Amounts{}
	for name, q := range list {
		if name == corev1.ResourceCPU {
			out[string(name)] = q.MilliValue()
			continue
		}
		out[string(name)] = q.Value()
	}
	return out
}

// VolumeAdmits reports whether a volume can be used on a node, by its node affinity; an unknown volume (nil) can. An
// affinity that cannot be parsed admits no node.
func VolumeAdmits(volume *corev1.PersistentVolume, node *corev1.Node) bool {
	if volume == nil || volume.Spec.NodeAffinity == nil || volume.Spec.NodeAffinity.Required == nil {
		return true
	}
	ok, err := nodeaffinity.NewLazyErrorNodeSelector(volume.Spec.NodeAffinity.Required).Match(node)
	return ok && err == nil
}

// Ports returns the node ports that a pod occupies, those of init containers included.
func Ports(pod *corev1.Pod) []ledger.HostPort {
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

// PortsConflict reports whether two pods cannot have these ports on one node: the port and protocol are the same, and
// the addresses are the same or one of them is every address. An empty protocol is TCP. Source:
// HostPortInfo.CheckConflict in kube-scheduler's framework.
func PortsConflict(a, b ledger.HostPort) bool {
	wild := func(ip string) bool { return ip == "" || ip == "0.0.0.0" }
	protocol := func(p string) string {
		if p == "" {
			return string(corev1.ProtocolTCP)
		}
		return p
	}
	return a.Port == b.Port && protocol(a.Protocol) == protocol(b.Protocol) && (a.IP == b.IP || wild(a.IP) || wild(b.IP))
}

// Selects reports whether a pod's selector and required node affinity match a node. One that cannot be parsed matches
// no node.
func Selects(pod *corev1.Pod, node *corev1.Node) bool {
	ok, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node)
	return ok && err == nil
}

// WithheldTaint is the key of the taint by which Berth shows cluster autoscalers that a node takes no pods for now. It
// keeps other schedulers away, and is no rule for Berth.
const WithheldTaint = "status-taint.cluster-autoscaler.kubernetes.io/berth-withheld"

// Obeyed returns the taints of a node that Berth must obey: all but WithheldTaint.
func Obeyed(taints []corev1.Taint) (obeyed []corev1.Taint) {
	for _, t := range taints {
		if t.Key != WithheldTaint {
			obeyed = append(obeyed, t)
		}
	}
	return obeyed
}

// UnfitReason returns the reason why a pod may not be placed on a node, as the end of a sentence about the node; "" if
// it may. A cordoned node counts as tainted, as in the plugins NodeUnschedulable and TaintToleration.
func UnfitReason(pod *corev1.Pod, node *corev1.Node) string {
	if !Selects(pod, node) {
		return "that it does not select"
	}
	taints := Obeyed(node.Spec.Taints)
	if node.Spec.Unschedulable {
		taints = append(taints, corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
	}
	if taint, found := Untolerated(pod, taints); found {
		return fmt.Sprintf("whose taint %s it does not tolerate", taint.ToString())
	}
	return ""
}

// Untolerated returns the first taint that keeps a pod away. The comparison operators of tolerations count
// (KEP-5471): an API server where they are off accepts no pod that has them.
func Untolerated(pod *corev1.Pod, taints []corev1.Taint) (taint corev1.Taint, found bool) {
	return schedulinghelpers.FindMatchingUntoleratedTaint(klog.Logger{}, taints, pod.Spec.Tolerations,
		func(t *corev1.Taint) bool { return t.Effect != corev1.TaintEffectPreferNoSchedule }, true)
}
