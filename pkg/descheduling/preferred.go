package descheduling

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// preferences holds the preferences of pods with preferred node affinity. Equal terms are evaluated once for all
// nodes, however many pods have them.
type preferences struct {
	// nodes holds the selected nodes of the view.
	nodes []*Node
	// byTerms and byTemplate hold the same values, by content and by template.
	byTerms    map[string]*preference
	byTemplate map[*corev1.Pod]*preference
}

func newPreferences(nodes []*Node) preferences {
	return preferences{nodes: nodes, byTerms: map[string]*preference{}, byTemplate: map[*corev1.Pod]*preference{}}
}

// preference holds what each node of the view is worth to pods with equal preferred terms.
type preference struct {
	weights map[*Node]int32
	// better holds the nodes worth more than some weight, built when first needed.
	better map[int32]*nodeList
}

// of returns the preference of a pod that has preferred terms.
func (p *preferences) of(pod *Pod) *preference {
	if w, known := p.byTemplate[pod.Template]; known {
		return w
	}
	a := &corev1.NodeAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: pod.spec().Affinity.NodeAffinity.
			PreferredDuringSchedulingIgnoredDuringExecution,
	}
	key := a.String()
	w, known := p.byTerms[key]
	if !known {
		w = &preference{weights: make(map[*Node]int32, len(p.nodes)), better: map[int32]*nodeList{}}
		terms := parsePreferred(a.PreferredDuringSchedulingIgnoredDuringExecution)
		for _, n := range p.nodes {
			w.weights[n] = weigh(terms, n)
		}
		p.byTerms[key] = w
	}
	p.byTemplate[pod.Template] = w
	return w
}

// betterThan lists the nodes that are worth more than own, and more than zero.
func (w *preference) betterThan(own int32, nodes []*Node) *nodeList {
	list := w.better[own]
	if list == nil {
		list = &nodeList{}
		for _, n := range nodes {
			if worth := w.weights[n]; worth > own && worth > 0 {
				list.nodes = append(list.nodes, n)
			}
		}
		w.better[own] = list
	}
	return list
}

// parsePreferred parses the terms once for all nodes, each separately. Terms that cannot be parsed are left out.
func parsePreferred(list []corev1.PreferredSchedulingTerm) []*nodeaffinity.PreferredSchedulingTerms {
	var terms []*nodeaffinity.PreferredSchedulingTerms
	for i := range list {
		if t, err := nodeaffinity.NewPreferredSchedulingTerms(list[i : i+1]); err == nil {
			terms = append(terms, t)
		}
	}
	return terms
}

// weigh returns the sum of the weights of the terms that the node matches.
func weigh(terms []*nodeaffinity.PreferredSchedulingTerms, n *Node) int32 {
	sum := int32(0)
	for _, t := range terms {
		sum += int32(t.Score(n.Object))
	}
	return sum
}
