package state

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/events"
)

// TooLargeAnnotation is on an object that Reduce has reduced: how large it was, and what the limit is.
const TooLargeAnnotation = "berth.dev/too-large"

// usualText is the most bytes of a text that Reduce keeps without asking whether it has room. What decides is short.
const usualText = 1 << 10

// Reduce makes, in place, of a stripped object of size bytes one of at most limit bytes, with the same identity, that
// every reader can use without doing harm:
//
//   - A pod keeps what counts on its node, see reducePod. It is never placed, and the descheduler leaves it
//     where it is.
//   - A budget allows no disruption, and covers its whole namespace if its selector has no room.
//   - A claim to devices keeps what it has. It gets a deletion timestamp, so that no further pod uses it.
//   - Other objects lose what no decision reads: long annotations, texts, the labels of kinds that nobody selects.
//
// It says whether that was enough. An object that is still too large must be left out: a node is not used, and pods
// that name the object wait for it.
func Reduce(obj APIObject, size, limit int) bool {
	note := fmt.Sprintf("%d bytes; the log takes %d", size, limit)
	switch o := obj.(type) {
	case *corev1.Pod:
		*o = *reducePod(o, note, limit)
	case *policyv1.PodDisruptionBudget:
		reduceBudget(o, note, limit)
	case *resourcev1.ResourceClaim:
		reduceDeviceClaim(o, note)
	default:
		reduceOther(obj, note)
	}
	return fits(obj, limit)
}

// TooLarge says whether the facts have a reduced pod, see Reduce.
func (p *Pod) TooLarge() bool {
	return p.Gated && slices.ContainsFunc(p.Template.Spec.SchedulingGates, isGate(events.TooLargeGate))
}

// fits says whether an object has at most limit bytes. It costs a copy, which few objects are worth.
func fits(obj APIObject, limit int) bool { return len(marshalled(obj)) <= limit }

// metaOf is the identity of an object.
func metaOf(obj metav1.Object, note string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: obj.GetName(), Namespace: obj.GetNamespace(), UID: obj.GetUID(),
		ResourceVersion: obj.GetResourceVersion(), Generation: obj.GetGeneration(),
		CreationTimestamp: obj.GetCreationTimestamp(), DeletionTimestamp: obj.GetDeletionTimestamp(),
		DeletionGracePeriodSeconds: obj.GetDeletionGracePeriodSeconds(),
		Annotations:                map[string]string{TooLargeAnnotation: note},
	}
}

// reducePod returns what counts on the pod's node: node, phase, deletion and priority, and one container with the
// effective requests. The rest follows as far as it has room, most important first. The gate keeps the pod from being
// placed, also by members of earlier versions. The API server refuses gates on bound pods, so a tenant cannot use this
// one against the descheduler. With the toleration no rule evicts the pod for what is left out of it.
func reducePod(pod *corev1.Pod, note string, limit int) *corev1.Pod {
	out := &corev1.Pod{ObjectMeta: metaOf(pod, note)}
	out.Spec = corev1.PodSpec{
		NodeName: pod.Spec.NodeName, SchedulerName: cut(pod.Spec.SchedulerName), Priority: pod.Spec.Priority,
		PreemptionPolicy: pod.Spec.PreemptionPolicy, PriorityClassName: cut(pod.Spec.PriorityClassName),
		TerminationGracePeriodSeconds: pod.Spec.TerminationGracePeriodSeconds,
		Tolerations:                   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		SchedulingGates:               []corev1.PodSchedulingGate{{Name: events.TooLargeGate}},
		Containers:                    []corev1.Container{{Name: "all"}},
	}
	if slices.ContainsFunc(pod.Spec.SchedulingGates, isGate(events.QuotaGate)) {
		out.Spec.SchedulingGates = append(out.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: events.QuotaGate})
	}
	out.Status = corev1.PodStatus{
		Phase: pod.Status.Phase, Reason: cut(pod.Status.Reason), QOSClass: pod.Status.QOSClass,
		StartTime: pod.Status.StartTime, NominatedNodeName: cut(pod.Status.NominatedNodeName),
	}
	for _, copyPart := range partsOfPods {
		next := out.DeepCopy()
		if copyPart(next, pod); fits(next, limit) {
			out = next
		}
	}
	return out
}

// partsOfPods copy one part each of a pod, most important first.
var partsOfPods = []func(to, from *corev1.Pod){
	func(to, from *corev1.Pod) { to.Spec.Containers[0].Resources.Requests = native(podRequests(from, nil)) },
	func(to, from *corev1.Pod) { to.Spec.Containers[0].Resources.Requests = podRequests(from, nil) },
	func(to, from *corev1.Pod) { to.Labels = from.Labels },
	func(to, from *corev1.Pod) { to.Spec.Affinity = required(from.Spec.Affinity) },
	func(to, from *corev1.Pod) { to.Spec.Containers[0].Ports = portsOf(from) },
	func(to, from *corev1.Pod) { to.Spec.Volumes = from.Spec.Volumes },
	func(to, from *corev1.Pod) {
		to.Spec.ResourceClaims, to.Status.ResourceClaimStatuses = from.Spec.ResourceClaims, from.Status.ResourceClaimStatuses
	},
	func(to, from *corev1.Pod) { to.OwnerReferences = controller(from) },
	func(to, from *corev1.Pod) { to.Status.Conditions = shortened(from.Status.Conditions) },
	func(to, from *corev1.Pod) { keepAnnotations(to, from) },
}

func cut(text string) string {
	if len(text) > usualText {
		return strings.ToValidUTF8(text[:usualText], "")
	}
	return text
}

func isGate(name string) func(corev1.PodSchedulingGate) bool {
	return func(g corev1.PodSchedulingGate) bool { return g.Name == name }
}

// native are the resources that Kubernetes itself defines.
func native(requests corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{}
	for _, name := range []corev1.ResourceName{
		corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage,
	} {
		if q, ok := requests[name]; ok {
			out[name] = q
		}
	}
	return out
}

// required is the anti-affinity that binds other pods.
func required(a *corev1.Affinity) *corev1.Affinity {
	if a == nil || a.PodAntiAffinity == nil {
		return nil
	}
	return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution,
	}}
}

// portsOf are the ports that a pod takes of its node.
func portsOf(pod *corev1.Pod) []corev1.ContainerPort {
	var out []corev1.ContainerPort
	for _, p := range hostPorts(pod) {
		out = append(out, corev1.ContainerPort{HostPort: p.Port, HostIP: p.IP, Protocol: corev1.Protocol(p.Protocol)})
	}
	return out
}

func controller(obj metav1.Object) []metav1.OwnerReference {
	if owner := metav1.GetControllerOfNoCopy(obj); owner != nil {
		return []metav1.OwnerReference{*owner}
	}
	return nil
}

func shortened(conditions []corev1.PodCondition) []corev1.PodCondition {
	out := slices.Clone(conditions)
	for i := range out {
		out[i].Reason, out[i].Message = cut(out[i].Reason), cut(out[i].Message)
	}
	return out
}

// keepAnnotations copies short annotations.
func keepAnnotations(to, from metav1.Object) {
	note := to.GetAnnotations()[TooLargeAnnotation]
	kept := maps.Clone(from.GetAnnotations())
	maps.DeleteFunc(kept, func(_, value string) bool { return len(value) > usualText })
	if kept == nil {
		kept = map[string]string{}
	}
	kept[TooLargeAnnotation] = note
	to.SetAnnotations(kept)
}

func reduceBudget(b *policyv1.PodDisruptionBudget, note string, limit int) {
	selector := b.Spec.Selector
	*b = policyv1.PodDisruptionBudget{
		ObjectMeta: metaOf(b, note),
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: selector},
		Status:     policyv1.PodDisruptionBudgetStatus{ObservedGeneration: b.Status.ObservedGeneration},
	}
	if !fits(b, limit) {
		b.Spec.Selector = &metav1.LabelSelector{}
	}
}

func reduceDeviceClaim(c *resourcev1.ResourceClaim, note string) {
	allocation := c.Status.Allocation
	if allocation != nil {
		allocation = allocation.DeepCopy()
		allocation.Devices.Config = nil
	}
	*c = resourcev1.ResourceClaim{
		ObjectMeta: metaOf(c, note),
		Status:     resourcev1.ResourceClaimStatus{Allocation: allocation, ReservedFor: c.Status.ReservedFor},
	}
	if c.DeletionTimestamp == nil {
		c.DeletionTimestamp = &c.CreationTimestamp
	}
}

// reduceOther takes out what no decision reads.
func reduceOther(obj APIObject, note string) {
	kept := metav1.ObjectMeta{Annotations: map[string]string{TooLargeAnnotation: note}}
	keepAnnotations(&kept, obj)
	obj.SetAnnotations(kept.Annotations)
	obj.SetOwnerReferences(controller(obj))
	obj.SetFinalizers(nil)
	switch o := obj.(type) {
	case *corev1.Node:
		o.Status.Images = nil
		for i := range o.Status.Conditions {
			o.Status.Conditions[i].Message = cut(o.Status.Conditions[i].Message)
		}
	case *corev1.PersistentVolume: // its labels say in which zone it is
	case *corev1.Namespace:
		o.Status.Conditions = nil
	case *corev1.Service:
		o.Labels = nil
		o.Spec, o.Status = corev1.ServiceSpec{Selector: o.Spec.Selector}, corev1.ServiceStatus{}
	case *corev1.ReplicationController:
		o.Labels, o.Status.Conditions = nil, nil
	case *appsv1.ReplicaSet:
		o.Labels, o.Status.Conditions = nil, nil
	case *appsv1.StatefulSet:
		o.Labels, o.Status.Conditions = nil, nil
	case *schedulingv1.PriorityClass:
		o.Labels, o.Description = nil, ""
	case *storagev1.VolumeAttachment:
		o.Labels = nil
		o.Status = storagev1.VolumeAttachmentStatus{Attached: o.Status.Attached}
	default:
		obj.SetLabels(nil)
	}
}
