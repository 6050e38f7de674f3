package descheduling

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	podresource "k8s.io/component-helpers/resource"
	schedulingcorev1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
)

// What follows is upstream's idea of whether a pod fits a node (pkg/descheduler/node
// NodeFit). It knows less than the scheduler: nothing of volumes, ports, spread, the
// anti-affinity of pods that are there, or what other victims have been promised.

// demand is what pods of one template ask for, by upstream's formula: from the spec alone.
type demand struct {
	// amounts by resource name; cpu in milli. A resource that is named with 0 is in it.
	amounts map[corev1.ResourceName]int64
}

// demandOf returns the demand of a pod, shared by pods of its template.
func (v *View) demandOf(p *Pod) *demand {
	if d, ok := v.demands[p.Template]; ok {
		return d
	}
	requests := podresource.PodRequests(p.Template, podresource.PodResourcesOptions{})
	d := &demand{amounts: make(map[corev1.ResourceName]int64, len(requests))}
	for name, q := range requests {
		d.amounts[name] = amount(name, q.MilliValue, q.Value)
	}
	v.demands[p.Template] = d
	return d
}

// amount picks the unit in which a resource is counted.
func amount(name corev1.ResourceName, milli, whole func() int64) int64 {
	if name == corev1.ResourceCPU {
		return milli()
	}
	return whole()
}

// capacityOf is the amount of a resource in a list, 0 when it is not there.
func capacityOf(list corev1.ResourceList, name corev1.ResourceName) int64 {
	q := list[name]
	return amount(name, q.MilliValue, q.Value)
}

// usage is the sum over the pods of a node that are not terminal.
type usage struct {
	amounts map[corev1.ResourceName]int64
	pods    int64
}

func (v *View) usageOf(n *Node) *usage {
	if n.used == nil {
		n.used = &usage{amounts: map[corev1.ResourceName]int64{}}
		for _, p := range n.Pods {
			if p.Terminal {
				continue
			}
			n.used.pods++
			for name, a := range v.demandOf(p).amounts {
				n.used.amounts[name] += a
			}
		}
	}
	return n.used
}

// fits reports whether some ready node of the guard's targets, not the pod's own, takes the
// pod.
func (g *Guard) fits(pod *Pod) bool {
	if g.targets == nil {
		g.targets = slices.DeleteFunc(slices.Clone(g.view.nodes), func(n *Node) bool {
			return !g.TargetNodes.Matches(labels.Set(n.Object.Labels))
		})
	}
	fit, known := g.fitting[pod]
	if !known {
		fit = g.view.fitsOther(pod, g.targets)
		g.fitting[pod] = fit
	}
	return fit
}

// fitsOther reports whether one of nodes, not the pod's own, takes the pod.
func (v *View) fitsOther(pod *Pod, nodes []*Node) bool {
	required := nodeaffinity.GetRequiredNodeAffinity(pod.Template)
	return slices.ContainsFunc(nodes, func(n *Node) bool { return n != pod.Node && v.fitsNode(pod, n, required) })
}

// fitsAny reports whether one of nodes takes the pod; its own counts without regard to
// resources.
func (v *View) fitsAny(pod *Pod, nodes []*Node) bool {
	required := nodeaffinity.GetRequiredNodeAffinity(pod.Template)
	return slices.ContainsFunc(nodes, func(n *Node) bool { return v.fitsNode(pod, n, required) })
}

func (v *View) fitsNode(pod *Pod, n *Node, required nodeaffinity.RequiredNodeAffinity) bool {
	if n.Object.Spec.Unschedulable {
		return false
	}
	if match, err := required.Match(n.Object); err != nil || !match {
		return false
	}
	return toleratesHard(pod, n) && !v.repels(pod, n) && (n == pod.Node || v.hasRoom(pod, n))
}

// toleratesHard looks at taints that keep a pod off a node.
func toleratesHard(pod *Pod, n *Node) bool {
	return tolerates(pod.spec().Tolerations, n.Object.Spec.Taints, func(t *corev1.Taint) bool {
		return t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute
	})
}

// tolerates every taint that counts. The zero logger drops everything; upstream, too,
// compares numerically (Lt, Gt) here.
func tolerates(tolerations []corev1.Toleration, taints []corev1.Taint, counts func(*corev1.Taint) bool) bool {
	_, untolerated := schedulingcorev1.FindMatchingUntoleratedTaint(klog.Logger{}, taints, tolerations, counts, true)
	return !untolerated
}

// hasRoom compares in upstream's way: a node that has more requested of a resource than it
// has refuses even a pod that names it with 0, but not one that does not name it.
func (v *View) hasRoom(pod *Pod, n *Node) bool {
	used, has := v.usageOf(n), n.Object.Status.Allocatable
	for name, want := range v.demandOf(pod).amounts {
		if name == corev1.ResourcePods {
			continue
		}
		free := int64(0)
		if _, known := has[name]; known || isBasic(name) {
			free = capacityOf(has, name) - used.amounts[name]
		}
		if want > free {
			return false
		}
	}
	return capacityOf(has, corev1.ResourcePods) > used.pods
}

func isBasic(name corev1.ResourceName) bool {
	return name == corev1.ResourceCPU || name == corev1.ResourceMemory || name == corev1.ResourcePods
}

// antiAffinityTerm is a required term as upstream reads it: namespaces by name alone.
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

func (t *antiAffinityTerm) matches(p *Pod) bool {
	return slices.Contains(t.namespaces, p.Namespace) && t.selector.Matches(labels.Set(p.Template.Labels))
}

// repels reports whether the pod's own anti-affinity speaks of a pod that runs on the node. A
// pod of the same name counts as the pod itself, and only pods on this node are looked at,
// whatever the domain.
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
