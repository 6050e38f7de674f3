package descheduling

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	podresource "k8s.io/component-helpers/resource"
	schedulingcorev1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
)

// This file is upstream's check of whether a pod fits a node (pkg/descheduler/node NodeFit). It knows less than the
// scheduler: nothing about volumes, ports, spread, the anti-affinity of existing pods, or places that are reserved
// for other victims.

// demand holds the requests of the pods of one template, by upstream's formula: from the spec only.
type demand struct {
	// amounts is by resource name; cpu in milli. A resource that is named with 0 is included.
	amounts map[corev1.ResourceName]int64
}

// demandOf returns the demand of a pod, shared by pods of its template.
func (v *View) demandOf(p *Pod) *demand { return v.sortOf(p).demand }

// takenBy returns the resources that a pod takes from its node. For resources that can be resized in place it is
// the amount that the scheduler counts, also while a resize is pending or infeasible. The pod's replacement
// requests its demand, which is the amount that upstream counts.
func (v *View) takenBy(p *Pod) map[corev1.ResourceName]int64 {
	asked := v.demandOf(p).amounts
	taken := p.Requests
	if v.upstream || taken.MilliCPU == asked[corev1.ResourceCPU] && taken.Memory == asked[corev1.ResourceMemory] {
		return asked
	}
	out := maps.Clone(asked)
	out[corev1.ResourceCPU], out[corev1.ResourceMemory] = taken.MilliCPU, taken.Memory
	return out
}

// traits holds a pod's requirements on a node, including resources: equal for pods that agree in tolerations, node
// selector, required node affinity and demand.
type traits struct {
	*demand
	// wants holds the resources of demand that hasRoom compares, sorted by name, with their amounts.
	wants []want
	// required is nil when every node matches.
	required    *nodeaffinity.RequiredNodeAffinity
	tolerations []corev1.Toleration
	// takers holds the first nodes of a list that can take such a pod: two are enough to know whether there is one
	// other than any given node.
	takers map[*nodeList][]*Node
}

type want struct {
	resource corev1.ResourceName
	amount   int64
}

// enoughTakers nodes of a list are enough to answer for every pod of a sort, on whichever node it is.
const enoughTakers = 2

// nodeList is a list of nodes with an identity, so that results about it can be cached.
type nodeList struct{ nodes []*Node }

// sortOf returns the traits of a pod, shared by all pods that agree in them.
func (v *View) sortOf(p *Pod) *traits {
	if t, ok := v.templates[p.Template]; ok {
		return t
	}
	d := demandOf(p.Template)
	t := &traits{demand: d, tolerations: p.spec().Tolerations, takers: map[*nodeList][]*Node{}}
	key := placementKey(p.spec())
	for _, name := range slices.Sorted(maps.Keys(d.amounts)) {
		key += fmt.Sprintf("|%q %d", name, d.amounts[name])
		if name != corev1.ResourcePods {
			t.wants = append(t.wants, want{name, d.amounts[name]})
		}
	}
	if known, ok := v.sorts[key]; ok {
		t = known
	} else {
		if hasRequired(p.spec()) {
			required := nodeaffinity.GetRequiredNodeAffinity(p.Template)
			t.required = &required
		}
		v.sorts[key] = t
	}
	v.templates[p.Template] = t
	return t
}

// hasRequired reports whether the pod's own requirements may exclude some node.
func hasRequired(spec *corev1.PodSpec) bool {
	return len(spec.NodeSelector) > 0 || spec.Affinity != nil && spec.Affinity.NodeAffinity != nil &&
		spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil
}

func demandOf(template *corev1.Pod) *demand {
	requests := podresource.PodRequests(template, podresource.PodResourcesOptions{})
	d := &demand{amounts: make(map[corev1.ResourceName]int64, len(requests))}
	for name, q := range requests {
		d.amounts[name] = amount(name, q.MilliValue, q.Value)
	}
	return d
}

// amount selects the unit in which a resource is counted.
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

// usage is the sum over the pods of a node that are not terminal.
type usage struct {
	amounts map[corev1.ResourceName]int64
	pods    int64
	// free is the free amount of each resource of the node, and of the basic ones; for the resource pods, how many
	// more pods the node can take.
	free map[corev1.ResourceName]int64
}

func (v *View) usageOf(n *Node) *usage {
	if n.used != nil {
		return n.used
	}
	u := &usage{amounts: map[corev1.ResourceName]int64{}, free: map[corev1.ResourceName]int64{}}
	for _, p := range n.Pods {
		if p.Terminal {
			continue
		}
		u.pods++
		for name, a := range v.takenBy(p) {
			u.amounts[name] += a
		}
	}
	has := n.Object.Status.Allocatable
	for name := range has {
		u.free[name] = capacityOf(has, name) - u.amounts[name]
	}
	for _, name := range basic {
		u.free[name] = capacityOf(has, name) - u.amounts[name]
	}
	u.free[corev1.ResourcePods] = capacityOf(has, corev1.ResourcePods) - u.pods
	n.used = u
	return u
}

// fits reports whether some ready node of the guard's targets other than the pod's own can take the pod.
func (g *Guard) fits(pod *Pod) bool {
	if g.targets == nil {
		g.targets = &nodeList{slices.DeleteFunc(slices.Clone(g.view.nodes), func(n *Node) bool {
			return !g.TargetNodes.Matches(labels.Set(n.Object.Labels))
		})}
	}
	return g.view.fitsOther(pod, g.targets)
}

// fitsOther reports whether a node of the list other than the pod's own can take the pod. A pod with anti-affinity
// whose namespace has used up its share of the run fits none.
func (v *View) fitsOther(pod *Pod, list *nodeList) bool {
	t := v.sortOf(pod)
	takers, known := t.takers[list]
	if !known {
		takers = v.findTakers(t, list)
		t.takers[list] = takers
	}
	others := slices.ContainsFunc(takers, func(n *Node) bool { return n != pod.Node })
	terms := len(v.antiAffinity(pod))
	if !others || terms == 0 {
		return others
	}
	account := v.account(pod.Namespace)
	return slices.ContainsFunc(list.nodes, func(n *Node) bool {
		return n != pod.Node && v.takes(n, t) && account.spend(terms*len(n.Pods)) && !v.repels(pod, n)
	})
}

// findTakers finds up to enoughTakers nodes of a list.
func (v *View) findTakers(t *traits, list *nodeList) []*Node {
	var takers []*Node
	for _, n := range list.nodes {
		if v.takes(n, t) {
			takers = append(takers, n)
			if len(takers) == enoughTakers {
				break
			}
		}
	}
	return takers
}

// takes reports whether a node has what a pod of a sort requires, in addition to the pods on it.
func (v *View) takes(n *Node, t *traits) bool { return welcomes(n, t) && v.hasRoom(n, t) }

// fitsAny reports whether one of the selected nodes can take the pod, which is on one of them; for its own node,
// resources are ignored.
func (v *View) fitsAny(pod *Pod) bool {
	return welcomes(pod.Node, v.sortOf(pod)) && !v.repels(pod, pod.Node) || v.fitsOther(pod, v.places)
}

// welcomes considers the node itself, not the pods on it.
func welcomes(n *Node, t *traits) bool {
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

// toleratesHard considers only taints that keep a pod off a node.
func toleratesHard(pod *Pod, n *Node) bool { return toleratesAll(pod.spec().Tolerations, n) }

func toleratesAll(tolerations []corev1.Toleration, n *Node) bool {
	return len(n.Object.Spec.Taints) == 0 || tolerates(tolerations, n.Object.Spec.Taints, func(t *corev1.Taint) bool {
		return t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute
	})
}

// tolerates reports whether every taint that counts is tolerated. The zero logger drops everything; upstream also
// compares numerically (Lt, Gt) here.
func tolerates(tolerations []corev1.Toleration, taints []corev1.Taint, counts func(*corev1.Taint) bool) bool {
	_, untolerated := schedulingcorev1.FindMatchingUntoleratedTaint(klog.Logger{}, taints, tolerations, counts, true)
	return !untolerated
}

// hasRoom compares as upstream does: a node on which more of a resource is requested than it has refuses even a pod
// that names the resource with 0, but not a pod that does not name it.
func (v *View) hasRoom(n *Node, t *traits) bool {
	free := v.usageOf(n).free
	for _, w := range t.wants {
		if w.amount > free[w.resource] {
			return false
		}
	}
	return free[corev1.ResourcePods] > 0
}

// antiAffinityTerm is a required term as upstream interprets it: namespaces only by name.
type antiAffinityTerm struct {
	key        string
	namespaces []string
	selector   labels.Selector
	err        error
}

// antiAffinity returns the required terms of a pod, shared by pods of its template.
func (v *View) antiAffinity(p *Pod) []antiAffinityTerm {
	a := p.spec().Affinity
	if a == nil || a.PodAntiAffinity == nil {
		return nil
	}
	if terms, ok := v.terms[p.Template]; ok {
		return terms
	}
	var terms []antiAffinityTerm
	for _, t := range a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
		term := antiAffinityTerm{key: t.TopologyKey, namespaces: t.Namespaces}
		if len(term.namespaces) == 0 {
			term.namespaces = []string{p.Namespace}
		}
		term.selector, term.err = metav1.LabelSelectorAsSelector(t.LabelSelector)
		terms = append(terms, term)
	}
	v.terms[p.Template] = terms
	return terms
}

// matches reports whether the term may match a pod, some of whose labels may have been cut.
func (t *antiAffinityTerm) matches(p *Pod) bool {
	return slices.Contains(t.namespaces, p.Namespace) && p.Kind.MayMatch(t.selector)
}

// repels reports whether the pod's own anti-affinity matches a pod that runs on the node. A pod with the same name
// counts as the pod itself, and only pods on this node are considered, whatever the domain.
func (v *View) repels(pod *Pod, n *Node) bool {
	for _, t := range v.antiAffinity(pod) {
		if t.err != nil {
			return true
		}
		if _, ok := n.Object.Labels[t.key]; !ok {
			continue
		}
		if slices.ContainsFunc(n.Pods, func(o *Pod) bool { return !o.Terminal && o.Name != pod.Name && t.matches(o) }) {
			return true
		}
	}
	return false
}
