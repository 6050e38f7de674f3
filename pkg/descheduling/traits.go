package descheduling

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	podresource "k8s.io/component-helpers/resource"
	schedulingcorev1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
)

// demand holds the requests of the pods of one template, by upstream's formula: from the spec only. It differs from
// state.Pod.Requests, which the scheduler counts, while a pod is resized in place.
type demand struct {
	// amounts is by resource name; cpu in milli. A resource that is named with 0 is included.
	amounts map[corev1.ResourceName]int64
}

// traits holds a pod's requirements on a node, including resources: equal for pods that agree in tolerations, node
// selector, required node affinity and demand.
type traits struct {
	*demand
	// requests holds the resources of demand that hasRoom compares, sorted by name, with their amounts; not the
	// resource pods, of which every pod takes one.
	requests []request
	// required is nil when every node matches.
	required    *nodeaffinity.RequiredNodeAffinity
	tolerations []corev1.Toleration
	// hosts holds the first nodes of a list that can take such a pod: two are enough to know whether there is one
	// other than any given node.
	hosts map[*nodeList][]*Node
}

// request is the amount of one resource, in the unit of demand.amounts.
type request struct {
	resource corev1.ResourceName
	amount   int64
}

// nodeList is a list of nodes with an identity, so that results about it can be cached.
type nodeList struct{ nodes []*Node }

// enoughHosts nodes of a list are enough to answer for every pod with the same traits, on whichever node it is: at
// most one of them is the pod's own.
const enoughHosts = 2

// antiAffinityTerm is a required term as upstream's NodeFit interprets it: namespaces only by name, and the pod's
// own if the term names none. err is set if the selector cannot be parsed; such a term repels everywhere.
type antiAffinityTerm struct {
	key        string
	namespaces []string
	selector   labels.Selector
	err        error
}

// matches reports whether the term may match a pod, some of whose labels may have been cut.
func (t *antiAffinityTerm) matches(p *Pod) bool {
	return slices.Contains(t.namespaces, p.Namespace) && p.Kind.MayMatch(t.selector)
}

// demandOf sums the requests of containers, sidecars and overhead, from the spec alone.
func demandOf(template *corev1.Pod) *demand {
	requests := podresource.PodRequests(template, podresource.PodResourcesOptions{})
	d := &demand{amounts: make(map[corev1.ResourceName]int64, len(requests))}
	for name, q := range requests {
		d.amounts[name] = amount(name, q.MilliValue, q.Value)
	}
	return d
}

// hasRequired reports whether the pod's own requirements may exclude some node.
func hasRequired(spec *corev1.PodSpec) bool {
	return len(spec.NodeSelector) > 0 || spec.Affinity != nil && spec.Affinity.NodeAffinity != nil &&
		spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil
}

// amount selects the unit in which a resource is counted: cpu in milli, everything else in whole units, rounded up.
func amount(name corev1.ResourceName, milli, whole func() int64) int64 {
	if name == corev1.ResourceCPU {
		return milli()
	}
	return whole()
}

// capacityOf returns the amount of a resource in a list, 0 when it is missing.
func capacityOf(list corev1.ResourceList, name corev1.ResourceName) int64 {
	q := list[name]
	return amount(name, q.MilliValue, q.Value)
}

// placementKey is equal for pods that the same nodes can take with respect to taints, node selector and required
// node affinity. (Protobuf in Kubernetes writes maps sorted, and String prints fields in a fixed order.) Equal
// requirements that are written in another order have different keys; that costs an entry and is never wrong.
func placementKey(spec *corev1.PodSpec) string {
	only := corev1.PodSpec{Tolerations: spec.Tolerations, NodeSelector: spec.NodeSelector}
	if spec.Affinity != nil && spec.Affinity.NodeAffinity != nil {
		only.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: spec.Affinity.NodeAffinity.
				RequiredDuringSchedulingIgnoredDuringExecution,
		}}
	}
	return only.String()
}

// tolerates reports whether every taint that counts is tolerated. The comparison operators Gt and Lt count, as in the
// rule of the shards (KEP-5471) and in upstream's descheduler. The zero logger drops everything.
func tolerates(tolerations []corev1.Toleration, taints []corev1.Taint, counts func(*corev1.Taint) bool) bool {
	_, untolerated := schedulingcorev1.FindMatchingUntoleratedTaint(klog.Logger{}, taints, tolerations, counts, true)
	return !untolerated
}

// toleratesAll reports whether the tolerations cover every taint of the node that keeps pods off it.
// PreferNoSchedule does not.
func toleratesAll(tolerations []corev1.Toleration, n *Node) bool {
	return len(n.Object.Spec.Taints) == 0 || tolerates(tolerations, n.Object.Spec.Taints, func(t *corev1.Taint) bool {
		return t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute
	})
}

// toleratesHard considers only taints that keep a pod off a node.
func toleratesHard(pod *Pod, n *Node) bool { return toleratesAll(pod.spec().Tolerations, n) }

// admits reports whether the node itself accepts pods with these traits, whatever pods are on it: it is not
// cordoned, matches the required affinity, and its taints are tolerated. An affinity that cannot be parsed matches
// no node.
func admits(n *Node, t *traits) bool {
	if n.Object.Spec.Unschedulable {
		return false
	}
	if t.required != nil {
		if match, err := t.required.Match(n.Object); err != nil || !match {
			return false
		}
	}
	return toleratesAll(t.tolerations, n)
}

// basic holds the resources that always count when requests or metrics.k8s.io are the source.
var basic = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourcePods}
