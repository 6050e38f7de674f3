package state

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Group names the pods that would contend for the same guards in the ledger if different shards placed them: those
// that carry the same hard rule about pods in domains wider than a node, be it spread or anti-affinity. Of several
// such rules one counts, always the same one; it is "" without any.
//
// It depends only on the pod's namespace and on parts of its spec that are immutable: a pod belongs to the same
// group for its whole life and in every process. Pods of one group belong to one partition.
func (p *Pod) Group() string {
	if p.Template == nil {
		return ""
	}
	spec, least := &p.Template.Spec, ""
	take := func(name string) {
		if least == "" || name < least {
			least = name
		}
	}
	for i := range spec.TopologySpreadConstraints {
		c := &spec.TopologySpreadConstraints[i]
		if c.WhenUnsatisfiable == corev1.DoNotSchedule && c.TopologyKey != corev1.LabelHostname {
			take(groupName("spread", p.Namespace, &corev1.PodAffinityTerm{
				TopologyKey: c.TopologyKey, LabelSelector: c.LabelSelector, MatchLabelKeys: c.MatchLabelKeys,
			}))
		}
	}
	if a := spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		terms := a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
		for i := range terms {
			if terms[i].TopologyKey != corev1.LabelHostname {
				take(groupName("apart", p.Namespace, &terms[i]))
			}
		}
	}
	return least
}

// groupName writes a rule so that equal names are equal rules. Its form is part of the data format, like the
// partition that is derived from it: two versions that named a rule differently would have its pods decided by two
// shards during an upgrade.
func groupName(kind, namespace string, t *corev1.PodAffinityTerm) string {
	namespaces := strings.Join(t.Namespaces, ",")
	return strings.Join([]string{
		kind, namespace, t.TopologyKey, selectorName(t.LabelSelector), strings.Join(t.MatchLabelKeys, ","),
		strings.Join(t.MismatchLabelKeys, ","), namespaces, selectorName(t.NamespaceSelector),
	}, "\n")
}

// selectorName returns the selector as text; nil and empty differ, as they do in meaning.
func selectorName(s *metav1.LabelSelector) string {
	if s == nil {
		return "none"
	}
	return metav1.FormatLabelSelector(s)
}
