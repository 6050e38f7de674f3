package audit

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// class represents all pods that no rule about other pods can distinguish: one namespace, equal labels, and equal
// rules of their own. A workload's pods are usually one class, so that rules are evaluated for tens of classes and not
// for thousands of pods.
type class struct {
	namespace string
	labels    labels.Set
	// antiAffinity holds its required anti-affinity terms, together its required affinity terms.
	antiAffinity, affinity []*term
	spread                 []*spreadRule
	// placements holds every placement of the class since the beginning, ended or not: a rule needs those that a shard
	// may not have known to be gone.
	placements map[*placement]struct{}
}

// term selects pods of some namespaces, for the domains of a topology key. It is one affinity or anti-affinity term of
// a class, or the selector of a spread constraint.
type term struct {
	key        string
	namespaces []string
	// byLabel selects additional namespaces; nil for none.
	byLabel  labels.Selector
	selector labels.Selector
	// memo holds the classes that selects was asked about. Namespace labels are the newest of the history, so it never
	// has to be invalidated.
	memo map[*class]bool
}

// spreadRule is one hard topology spread constraint.
type spreadRule struct {
	term
	constraint corev1.TopologySpreadConstraint
}

// classes holds the classes of one history, in the order of their first pod. It is also used by Check.
type classes struct {
	// byKey is by the canonical JSON of what makes a class; namespaces holds the labels of namespaces, by name.
	byKey      map[string]*class
	all        []*class
	namespaces map[string]map[string]string
}

// newClasses returns no classes; the caller sets namespaces before it uses selects.
func newClasses() *classes { return &classes{byKey: map[string]*class{}} }

// of returns the pod's class, and makes it if the pod is the first of it.
func (c *classes) of(pod *corev1.Pod) *class {
	text := canonical([]any{pod.Namespace, pod.Labels, pod.Spec.Affinity, pod.Spec.TopologySpreadConstraints})
	if known := c.byKey[text]; known != nil {
		return known
	}
	k := &class{namespace: pod.Namespace, labels: pod.Labels, placements: map[*placement]struct{}{}}
	if affinity := pod.Spec.Affinity; affinity != nil {
		if affinity.PodAntiAffinity != nil {
			k.antiAffinity = termsOf(pod, affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
		}
		if affinity.PodAffinity != nil {
			k.affinity = termsOf(pod, affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
		}
	}
	for _, s := range pod.Spec.TopologySpreadConstraints {
		if s.WhenUnsatisfiable == corev1.DoNotSchedule {
			k.spread = append(k.spread, &spreadRule{constraint: s, term: term{
				key: s.TopologyKey, namespaces: []string{pod.Namespace}, memo: map[*class]bool{},
				selector: selectorOf(s.LabelSelector, pod, s.MatchLabelKeys, nil),
			}})
		}
	}
	c.byKey[text] = k
	c.all = append(c.all, k)
	return k
}

// termsOf compiles the required terms of a pod. A term without namespaces and without a selector of namespaces is
// about the pod's own namespace; an empty selector of namespaces selects all.
func termsOf(pod *corev1.Pod, in []corev1.PodAffinityTerm) []*term {
	out := make([]*term, 0, len(in))
	for _, t := range in {
		made := &term{
			key: t.TopologyKey, namespaces: t.Namespaces, memo: map[*class]bool{},
			// The API server has already merged matchLabelKeys into the selector; merging them again changes
			// nothing.
			selector: selectorOf(t.LabelSelector, pod, t.MatchLabelKeys, t.MismatchLabelKeys),
		}
		if t.NamespaceSelector != nil {
			made.byLabel = selectorOf(t.NamespaceSelector, nil, nil, nil)
		} else if len(t.Namespaces) == 0 {
			made.namespaces = []string{pod.Namespace}
		}
		out = append(out, made)
	}
	return out
}

// selectorOf compiles a label selector, with the pod's own values of some label keys required (match, KEP-3243 and
// KEP-3633) or excluded (mismatch). It returns a selector that matches nothing for a nil selector, and for one that
// cannot be parsed.
func selectorOf(s *metav1.LabelSelector, pod *corev1.Pod, match, mismatch []string) labels.Selector {
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil || s == nil {
		return labels.Nothing()
	}
	add := func(keys []string, operator metav1.LabelSelectorOperator) {
		for _, key := range keys {
			value, ok := pod.Labels[key]
			if !ok {
				continue
			}
			extra, err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{
				MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: operator, Values: []string{value}}},
			})
			if requirements, selectable := extra.Requirements(); err == nil && selectable {
				selector = selector.Add(requirements...)
			}
		}
	}
	if pod != nil {
		add(match, metav1.LabelSelectorOpIn)
		add(mismatch, metav1.LabelSelectorOpNotIn)
	}
	return selector
}

// selects reports whether the term matches pods of a class: their namespace and their labels.
func (c *classes) selects(t *term, k *class) bool {
	if known, ok := t.memo[k]; ok {
		return known
	}
	in := slices.Contains(t.namespaces, k.namespace) ||
		t.byLabel != nil && t.byLabel.Matches(labels.Set(c.namespaces[k.namespace]))
	t.memo[k] = in && t.selector.Matches(k.labels)
	return t.memo[k]
}

// canonical returns a text that is equal for equal values.
func canonical(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprintf("%+v", v) // API types always marshal
	}
	return string(text)
}
