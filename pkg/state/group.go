package state

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PodGroup returns the name of the PodGroup in the pod's namespace that the pod is a member of; empty for none. The
// field is immutable.
func (p *Pod) PodGroup() string {
	if p.Template == nil {
		return ""
	}
	g := p.Template.Spec.SchedulingGroup
	if g == nil || g.PodGroupName == nil {
		return ""
	}
	return *g.PodGroupName
}

// groupKey is the key of a pod group in the index of members.
func groupKey(namespace, name string) string { return namespace + "/" + name }

// Group names the pods that one shard must decide about together: the members of a PodGroup; or those that would
// contend for the same guards in the ledger if different shards placed them, because they carry the same hard rule
// about pods in domains wider than a node, be it spread or anti-affinity. Of several such rules one counts, always the
// same one; it is "" without any. A PodGroup comes before such rules.
//
// It depends only on the pod's namespace and on parts of its spec that are immutable: a pod belongs to the same
// group for its whole life and in every process. Pods of one group belong to one partition.
func (p *Pod) Group() string {
	if p.Template == nil {
		return ""
	}
	if name := p.PodGroup(); name != "" {
		return strings.Join([]string{"gang", p.Namespace, name}, "\n")
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
