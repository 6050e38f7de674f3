package placementtest

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/state"
)

// InOrder lists nodes by name.
func InOrder(nodes map[string]*state.NodeInfo) []*state.NodeInfo {
	var list []*state.NodeInfo
	for _, n := range nodes {
		list = append(list, n)
	}
	slices.SortFunc(list, func(a, b *state.NodeInfo) int { return strings.Compare(a.Node.Name, b.Node.Name) })
	return list
}

// Selecting selects pods app=name.
func Selecting(name string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
}

// Term is a term about pods app=name in a domain of key.
func Term(key, name string) corev1.PodAffinityTerm {
	return corev1.PodAffinityTerm{TopologyKey: key, LabelSelector: Selecting(name)}
}

// Away gives a pod required anti-affinity.
func Away(terms ...corev1.PodAffinityTerm) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: terms}}
	}
}

// Near gives a pod required affinity.
func Near(terms ...corev1.PodAffinityTerm) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: terms}}
	}
}

// Spread gives a pod one constraint: over key, of pods app=web.
func Spread(key string, when corev1.UnsatisfiableConstraintAction, edits ...func(*corev1.TopologySpreadConstraint),
) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		c := corev1.TopologySpreadConstraint{
			MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: when, LabelSelector: Selecting("web"),
		}
		for _, edit := range edits {
			edit(&c)
		}
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{c}
	}
}

// Named requires nodes by name.
func Named(names ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		var terms []corev1.NodeSelectorTerm
		for _, n := range names {
			terms = append(terms, corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{
				{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{n}},
			}})
		}
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
		}}
	}
}
