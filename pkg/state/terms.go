package state

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
)

// PodTerms are a pod's inter-pod affinity and anti-affinity, parsed once, because every decision about another pod
// evaluates them. They are immutable.
type PodTerms struct {
	RequiredAffinity, RequiredAntiAffinity   []AffinityTerm
	PreferredAffinity, PreferredAntiAffinity []AffinityTerm
	// Err names the lists that could not be parsed; those are empty, the others are valid. (A pod that is placed
	// keeps its valid lists, one that waits is rejected: upstream's PodInfo.Update and its two callers.)
	Err error
}

// AffinityTerm is one term: the pods it applies to and the key of its domains. The API server has already merged
// matchLabelKeys and mismatchLabelKeys into the selector.
type AffinityTerm struct {
	TopologyKey string
	Selector    labels.Selector
	// Namespaces are given by name; NamespaceSelector adds those whose labels match. A term with neither applies to
	// the namespace of its pod. NamespaceSelector is never nil.
	Namespaces        []string
	NamespaceSelector labels.Selector
	// Weight of a preferred term, 1 to 100; 0 for a required one.
	Weight int32
}

// Matches reports whether the term may apply to a pod with these labels in this namespace (see MayMatch), whose own
// labels are namespaceLabels (none for a namespace that is not known).
func (t *AffinityTerm) Matches(namespace string, namespaceLabels, podLabels map[string]string) bool {
	return t.MatchesNamespace(namespace, namespaceLabels) && MayMatch(t.Selector, podLabels)
}

// MatchesNamespace is the part of Matches about the namespace.
func (t *AffinityTerm) MatchesNamespace(namespace string, namespaceLabels map[string]string) bool {
	return slices.Contains(t.Namespaces, namespace) || MayMatch(t.NamespaceSelector, namespaceLabels)
}

// MustMatch reports whether the term applies to a pod, whatever labels the pod and its namespace have lost (see
// MustMatch).
func (t *AffinityTerm) MustMatch(namespace string, namespaceLabels, podLabels map[string]string) bool {
	named := slices.Contains(t.Namespaces, namespace) || MustMatch(t.NamespaceSelector, namespaceLabels)
	return named && MustMatch(t.Selector, podLabels)
}

// newPodTerms parses the terms of a pod; nil when it has none. Source: pkg/scheduler/framework/types.go
// PodInfo.Update.
func newPodTerms(obj *corev1.Pod) *PodTerms {
	a := obj.Spec.Affinity
	if a == nil || a.PodAffinity == nil && a.PodAntiAffinity == nil {
		return nil
	}
	var (
		t    PodTerms
		errs []error
	)
	parse := func(list string, required []corev1.PodAffinityTerm, to *[]AffinityTerm) {
		terms, err := parseTerms(obj.Namespace, required)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", list, err))
		}
		*to = terms
	}
	weigh := func(list string, preferred []corev1.WeightedPodAffinityTerm, to *[]AffinityTerm) {
		plain := make([]corev1.PodAffinityTerm, len(preferred))
		for i := range preferred {
			plain[i] = preferred[i].PodAffinityTerm
		}
		parse(list, plain, to)
		for i := range *to {
			(*to)[i].Weight = preferred[i].Weight
		}
	}
	with, against := orEmpty(a.PodAffinity), orEmpty(a.PodAntiAffinity)
	parse("requiredAffinityTerms", with.RequiredDuringSchedulingIgnoredDuringExecution, &t.RequiredAffinity)
	parse("requiredAntiAffinityTerms", against.RequiredDuringSchedulingIgnoredDuringExecution, &t.RequiredAntiAffinity)
	weigh("preferredAffinityTerms", with.PreferredDuringSchedulingIgnoredDuringExecution, &t.PreferredAffinity)
	weigh("preferredAntiAffinityTerms", against.PreferredDuringSchedulingIgnoredDuringExecution, &t.PreferredAntiAffinity)
	t.Err = utilerrors.NewAggregate(errs)
	return &t
}

// orEmpty returns the value, or an empty one for nil.
func orEmpty[T any](p *T) *T {
	if p == nil {
		return new(T)
	}
	return p
}

// parseTerms parses one list completely or, on an error, returns nothing.
func parseTerms(namespace string, list []corev1.PodAffinityTerm) ([]AffinityTerm, error) {
	if len(list) == 0 {
		return nil, nil
	}
	terms := make([]AffinityTerm, len(list))
	for i := range list {
		selector, err := metav1.LabelSelectorAsSelector(list[i].LabelSelector)
		if err != nil {
			return nil, err
		}
		namespaces, err := metav1.LabelSelectorAsSelector(list[i].NamespaceSelector)
		if err != nil {
			return nil, err
		}
		terms[i] = AffinityTerm{
			TopologyKey: list[i].TopologyKey, Selector: selector,
			Namespaces: list[i].Namespaces, NamespaceSelector: namespaces,
		}
		if len(list[i].Namespaces) == 0 && list[i].NamespaceSelector == nil {
			terms[i].Namespaces = []string{namespace}
		}
	}
	return terms, nil
}
