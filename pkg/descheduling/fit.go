package descheduling

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// This file is upstream's check of whether a pod fits a node (pkg/descheduler/node NodeFit). It knows less than the
// scheduler: nothing about volumes, ports, spread, the anti-affinity of existing pods, or places that are reserved
// for other victims.

// demandOf returns the demand of a pod, shared by pods of its template.
func (v *View) demandOf(p *Pod) *demand { return v.traitsOf(p).demand }

// chargedTo returns the resources that a pod takes from its node. For resources that can be resized in place it is
// the amount that the scheduler counts, also while a resize is pending or infeasible. The pod's replacement
// requests its demand, which is the amount that upstream counts.
func (v *View) chargedTo(p *Pod) map[corev1.ResourceName]int64 {
	asked := v.demandOf(p).amounts
	taken := p.Requests
	if v.upstream || taken.MilliCPU == asked[corev1.ResourceCPU] && taken.Memory == asked[corev1.ResourceMemory] {
		return asked
	}
	out := maps.Clone(asked)
	out[corev1.ResourceCPU], out[corev1.ResourceMemory] = taken.MilliCPU, taken.Memory
	return out
}

// traitsOf returns the traits of a pod, shared by all pods that agree in them. The key is compared before the
// affinity is parsed, so that parsing happens once per distinct requirement and not once per template.
func (v *View) traitsOf(p *Pod) *traits {
	if t, ok := v.traitsByTemplate[p.Template]; ok {
		return t
	}
	d := demandOf(p.Template)
	t := &traits{demand: d, tolerations: p.spec().Tolerations, hosts: map[*nodeList][]*Node{}}
	key := placementKey(p.spec())
	for _, name := range slices.Sorted(maps.Keys(d.amounts)) {
		key += fmt.Sprintf("|%q %d", name, d.amounts[name])
		if name != corev1.ResourcePods {
			t.requests = append(t.requests, request{name, d.amounts[name]})
		}
	}
	if known, ok := v.traitsByKey[key]; ok {
		t = known
	} else {
		if hasRequired(p.spec()) {
			required := nodeaffinity.GetRequiredNodeAffinity(p.Template)
			t.required = &required
		}
		v.traitsByKey[key] = t
	}
	v.traitsByTemplate[p.Template] = t
	return t
}

// usageOf returns the usage of a node before the run, computed when first needed. Terminal pods do not count.
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
		for name, a := range v.chargedTo(p) {
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

// fitsOther reports whether a node of the list other than the pod's own can take the pod. A pod with anti-affinity
// whose namespace has used up its share of the run fits none.
//
// Without anti-affinity the answer is the same for all pods with equal traits, except for the pod's own node, so
// two hosts per list are searched once. Anti-affinity depends on the pod's name and is checked node by node, which
// is charged to the namespace.
func (v *View) fitsOther(pod *Pod, list *nodeList) bool {
	t := v.traitsOf(pod)
	takers, known := t.hosts[list]
	if !known {
		takers = v.findHosts(t, list)
		t.hosts[list] = takers
	}
	others := slices.ContainsFunc(takers, func(n *Node) bool { return n != pod.Node })
	terms := len(v.antiAffinity(pod))
	if !others || terms == 0 {
		return others
	}
	account := v.budget.account(pod.Namespace)
	return slices.ContainsFunc(list.nodes, func(n *Node) bool {
		return n != pod.Node && v.takes(n, t) && account.spend(terms*len(n.Pods)) && !v.repels(pod, n)
	})
}

// findHosts finds up to enoughHosts nodes of a list.
func (v *View) findHosts(t *traits, list *nodeList) []*Node {
	var takers []*Node
	for _, n := range list.nodes {
		if v.takes(n, t) {
			takers = append(takers, n)
			if len(takers) == enoughHosts {
				break
			}
		}
	}
	return takers
}

// takes reports whether a node has what a pod of a sort requires, in addition to the pods on it.
func (v *View) takes(n *Node, t *traits) bool { return admits(n, t) && v.hasRoom(n, t) }

// fitsAny reports whether one of the selected nodes can take the pod, which is on one of them; for its own node,
// resources are ignored.
func (v *View) fitsAny(pod *Pod) bool {
	return admits(pod.Node, v.traitsOf(pod)) && !v.repels(pod, pod.Node) || v.fitsOther(pod, v.allSelected)
}

// hasRoom compares as upstream does: a node on which more of a resource is requested than it has refuses even a pod
// that names the resource with 0, but not a pod that does not name it.
func (v *View) hasRoom(n *Node, t *traits) bool {
	free := v.usageOf(n).free
	for _, w := range t.requests {
		if w.amount > free[w.resource] {
			return false
		}
	}
	return free[corev1.ResourcePods] > 0
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

// repels reports whether the pod's own anti-affinity matches a pod that runs on the node. A pod with the same name
// counts as the pod itself, and only pods on this node are considered, whatever the domain. Both follow upstream;
// where a replacement will really be placed is decided by package plan with the scheduler's own rules.
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
