package reduce

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/strip"
)

// usualText is the maximum number of bytes of a text that Reduce keeps without checking for room. Texts that
// decisions use are short.
const usualText = 1 << 10

// ownPrefix is the prefix of the names of Berth's own annotations.
const ownPrefix = "berth.dev/"

// Reduce turns, in place, a stripped object of size bytes into one of at most limit bytes, with the same identity,
// that every reader can use without causing harm:
//
//   - A pod keeps what counts on its node, see reducePod. It is never placed, and the descheduler does not move it.
//   - A node keeps what its pods take of it. If it loses anything that decides which pods may run there, it is
//     closed: cordoned, with ClosedAnnotation. No pod is placed there, and none is moved away.
//   - A budget allows no disruption, and covers its whole namespace if its selector has no room.
//   - A claim to devices keeps its allocation. It gets a deletion timestamp, so that no further pod uses it.
//   - A namespace keeps its budget.
//   - Other objects lose what no decision reads: long annotations, texts, and the labels of kinds that no selector
//     selects.
//
// Labels that affect decisions are cut last, and LabelsCut marks that. Reduce reports whether the object fits now.
// An object that is still too large must be left out: pods that name it wait for it.
func Reduce(obj state.APIObject, size, limit int) bool {
	note := fmt.Sprintf("%d bytes; the log takes %d", size, limit)
	switch o := obj.(type) {
	case *corev1.Pod:
		*o = *reducePod(o, note, limit)
	case *corev1.Node:
		reduceNode(o, note, limit)
	case *corev1.Namespace:
		if reduceOther(o, note); !fits(o, limit) {
			o.Labels = keptLabels(o, o.Labels, limit)
		}
	case *policyv1.PodDisruptionBudget:
		reduceBudget(o, note, limit)
	case *resourcev1.ResourceClaim:
		reduceDeviceClaim(o, note)
	default:
		reduceOther(obj, note)
	}
	return fits(obj, limit)
}

// fits reports whether an object has at most limit bytes. It marshals the object, which is affordable because
// reduction is rare.
func fits(obj state.APIObject, limit int) bool { return len(state.Marshalled(obj)) <= limit }

// metaOf returns the identity of an object.
func metaOf(obj metav1.Object, note string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: obj.GetName(), Namespace: obj.GetNamespace(), UID: obj.GetUID(),
		ResourceVersion: obj.GetResourceVersion(), Generation: obj.GetGeneration(),
		CreationTimestamp: obj.GetCreationTimestamp(), DeletionTimestamp: obj.GetDeletionTimestamp(),
		DeletionGracePeriodSeconds: obj.GetDeletionGracePeriodSeconds(),
		Annotations:                map[string]string{strip.TooLargeAnnotation: note},
	}
}

// reducePod returns what counts on the pod's node: node, phase, deletion and priority, and one container with the
// effective requests. The rest is added as far as it has room, most important first. The gate keeps the pod from
// being placed, also by members of earlier versions. The API server refuses gates on bound pods, so a tenant cannot
// use this gate against the descheduler. The toleration keeps every rule from evicting the pod because of the data
// that was left out.
func reducePod(pod *corev1.Pod, note string, limit int) *corev1.Pod {
	out := &corev1.Pod{ObjectMeta: metaOf(pod, note)}
	out.Spec = corev1.PodSpec{
		NodeName: pod.Spec.NodeName, SchedulerName: cut(pod.Spec.SchedulerName), Priority: pod.Spec.Priority,
		PreemptionPolicy: pod.Spec.PreemptionPolicy, PriorityClassName: cut(pod.Spec.PriorityClassName),
		TerminationGracePeriodSeconds: pod.Spec.TerminationGracePeriodSeconds,
		SchedulingGroup:               pod.Spec.SchedulingGroup,
		Tolerations:                   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		SchedulingGates:               []corev1.PodSchedulingGate{{Name: events.TooLargeGate}},
		Containers:                    []corev1.Container{{Name: "all"}},
	}
	if slices.ContainsFunc(pod.Spec.SchedulingGates, strip.IsGate(events.QuotaGate)) {
		out.Spec.SchedulingGates = append(out.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: events.QuotaGate})
	}
	out.Status = corev1.PodStatus{
		Phase: pod.Status.Phase, Reason: cut(pod.Status.Reason), QOSClass: pod.Status.QOSClass,
		StartTime: pod.Status.StartTime, NominatedNodeName: cut(pod.Status.NominatedNodeName),
		Conditions: slices.DeleteFunc(shortened(pod.Status.Conditions, 0), func(c corev1.PodCondition) bool {
			return c.Type != corev1.PodReady && c.Type != corev1.PodScheduled
		}),
	}
	out = withParts(out, pod, limit, partsThatCount)
	out.Labels = keptLabels(out, pod.Labels, limit)
	return withParts(out, pod, limit, partsOfPods)
}

// part copies a part of an object.
type part[T any] func(to, from T)

// withParts returns the object with those parts of another object for which it has room, the first ones first.
func withParts[T interface {
	state.APIObject
	DeepCopy() T
}](out, from T, limit int, parts []part[T]) T {
	for _, copyPart := range parts {
		next := out.DeepCopy()
		if copyPart(next, from); fits(next, limit) {
			out = next
		}
	}
	return out
}

// partsThatCount are the parts of a pod that count on its node or restrict other pods, the most important first. A
// part that may have no room comes after a smaller substitute for it.
var partsThatCount = []part[*corev1.Pod]{
	func(to, from *corev1.Pod) {
		to.Spec.Containers[0].Resources.Requests = native(state.PodRequests(from, nil))
	},
	func(to, from *corev1.Pod) {
		to.Spec.Containers[0].Resources.Requests = taken(state.PodRequests(from, nil))
	},
	func(to, from *corev1.Pod) { to.Spec.Containers[0].Ports = portsOf(from) },
	func(to, from *corev1.Pod) { to.Spec.Volumes = claimsOf(from) },
	func(to, from *corev1.Pod) {
		to.Spec.ResourceClaims, to.Status.ResourceClaimStatuses = from.Spec.ResourceClaims, from.Status.ResourceClaimStatuses
	},
	func(to, from *corev1.Pod) { to.Spec.Affinity = loosest(required(from.Spec.Affinity)) },
	func(to, from *corev1.Pod) { to.Spec.Affinity = required(from.Spec.Affinity) },
}

// partsOfPods are parts that matter less than the labels do.
var partsOfPods = []part[*corev1.Pod]{
	func(to, from *corev1.Pod) { to.Spec.Volumes = from.Spec.Volumes },
	func(to, from *corev1.Pod) { to.OwnerReferences = controller(from) },
	func(to, from *corev1.Pod) { to.Status.Conditions = shortened(from.Status.Conditions, usualText) },
	func(to, from *corev1.Pod) { keepAnnotations(to, from) },
}

// cut shortens a text to usualText bytes.
func cut(text string) string { return cutTo(text, usualText) }

// cutTo shortens a text to at most that many bytes of valid UTF-8.
func cutTo(text string, most int) string {
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "")
	}
	return text
}

// native returns the resources that Kubernetes itself defines.
func native(requests corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{}
	for _, name := range []corev1.ResourceName{
		corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, corev1.ResourcePods,
	} {
		if q, ok := requests[name]; ok {
			out[name] = q
		}
	}
	return out
}

// taken returns the resources of which a pod requests more than zero.
func taken(requests corev1.ResourceList) corev1.ResourceList {
	maps.DeleteFunc(requests, func(_ corev1.ResourceName, q resource.Quantity) bool { return q.IsZero() })
	return requests
}

// claimsOf returns the volumes by which a pod uses claims.
func claimsOf(pod *corev1.Pod) []corev1.Volume {
	return slices.DeleteFunc(slices.Clone(pod.Spec.Volumes), func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim == nil && v.Ephemeral == nil
	})
}

// required returns the anti-affinity that restricts other pods.
func required(a *corev1.Affinity) *corev1.Affinity {
	if a == nil || a.PodAntiAffinity == nil {
		return nil
	}
	return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution,
	}}
}

// loosest returns anti-affinity with the same domains to all pods of the namespaces concerned: the pod's namespace,
// or all namespaces if a term names others.
func loosest(a *corev1.Affinity) *corev1.Affinity {
	if a == nil {
		return nil
	}
	terms := a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	wide := slices.ContainsFunc(terms, func(t corev1.PodAffinityTerm) bool {
		return len(t.Namespaces) > 0 || t.NamespaceSelector != nil
	})
	keys := map[string]bool{}
	var all []corev1.PodAffinityTerm
	for i := range terms {
		if keys[terms[i].TopologyKey] {
			continue
		}
		keys[terms[i].TopologyKey] = true
		t := corev1.PodAffinityTerm{TopologyKey: terms[i].TopologyKey, LabelSelector: &metav1.LabelSelector{}}
		if wide {
			t.NamespaceSelector = &metav1.LabelSelector{}
		}
		all = append(all, t)
	}
	return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: all}}
}

// portsOf returns the ports that a pod occupies on its node, as ports of one container.
func portsOf(pod *corev1.Pod) []corev1.ContainerPort {
	var out []corev1.ContainerPort
	for _, p := range state.HostPorts(pod) {
		out = append(out, corev1.ContainerPort{HostPort: p.Port, HostIP: p.IP, Protocol: corev1.Protocol(p.Protocol)})
	}
	return out
}

// controller returns the controller among the owners; a reduced object has no other owner.
func controller(obj metav1.Object) []metav1.OwnerReference {
	if owner := metav1.GetControllerOfNoCopy(obj); owner != nil {
		return []metav1.OwnerReference{*owner}
	}
	return nil
}

// shortened returns copies of conditions with reasons and messages of at most that many bytes.
func shortened(conditions []corev1.PodCondition, most int) []corev1.PodCondition {
	out := slices.Clone(conditions)
	for i := range out {
		out[i].Reason, out[i].Message = cutTo(out[i].Reason, most), cutTo(out[i].Message, most)
	}
	return out
}

// keptLabels returns as many labels as an object has room for, in place of its present ones. Labels that name
// domains come first, then the shortest. If any is left out, strip.LabelsCut is among the result: for rules about
// the labels that are missing, both answers are possible then (state.MayMatch, state.MustMatch).
func keptLabels(obj state.APIObject, all map[string]string, limit int) map[string]string {
	const perLabel = 16 // more than the encoding adds to a label
	obj.SetLabels(map[string]string{strip.LabelsCut: ""})
	room := limit - len(state.Marshalled(obj)) - perLabel
	names := slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(len(a)+len(all[a]), len(b)+len(all[b])), cmp.Compare(a, b))
	})
	kept := map[string]string{}
	for _, name := range names {
		if room -= len(name) + len(all[name]) + perLabel; room < 0 {
			kept[strip.LabelsCut] = ""
			break
		}
		kept[name] = all[name]
	}
	return kept
}

// rank returns 0 for labels that name the usual domains, which are kept first, else 1.
func rank(label string) int {
	switch label {
	case corev1.LabelHostname, corev1.LabelTopologyZone, corev1.LabelTopologyRegion, corev1.LabelMetadataName,
		corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion:
		return 0
	}
	return 1
}

// keepAnnotations copies short annotations, and Berth's own ones.
func keepAnnotations(to, from metav1.Object) {
	note := to.GetAnnotations()[strip.TooLargeAnnotation]
	kept := maps.Clone(from.GetAnnotations())
	maps.DeleteFunc(kept, func(name, value string) bool {
		return len(value) > usualText && !strings.HasPrefix(name, ownPrefix)
	})
	if kept == nil {
		kept = map[string]string{}
	}
	delete(kept, strip.ClosedAnnotation)
	kept[strip.TooLargeAnnotation] = note
	to.SetAnnotations(kept)
}
