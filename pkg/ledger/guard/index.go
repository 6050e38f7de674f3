package guard

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/berth-scheduler/berth/pkg/ledger/registry"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Index finds the registered terms that select a pod. It is for use by one goroutine.
type Index struct {
	terms map[registry.TermID]*indexed
	// byLabel lists terms that select only pods with that value of a label, rest the other terms.
	byLabel map[label][]*indexed
	rest    []*indexed
}

type label struct{ key, value string }

// indexed is a registered term prepared for matching.
type indexed struct {
	id       registry.TermID
	kind     registry.TermKind
	key      string
	retiring bool
	parts    []state.AffinityTerm
	labels   []label // where it is listed in byLabel; none if in rest
}

// NewIndex returns an index without terms.
func NewIndex() *Index {
	return &Index{terms: map[registry.TermID]*indexed{}, byLabel: map[label][]*indexed{}}
}

// Set adds or replaces a term. It returns an error for a selector that this version cannot evaluate: a caller that
// continued without the term might violate it.
func (x *Index) Set(id registry.TermID, t registry.RegisteredTerm) error {
	x.Drop(id)
	n := &indexed{id: id, kind: t.Kind, key: t.TopologyKey, retiring: t.Retiring}
	for _, p := range t.Parts {
		part, err := compile(p)
		if err != nil {
			return fmt.Errorf("guard: term %s: %w", id, err)
		}
		n.parts = append(n.parts, part)
	}
	n.labels = labelsOf(t.Parts)
	x.terms[id] = n
	for _, l := range n.labels {
		x.byLabel[l] = append(x.byLabel[l], n)
	}
	if len(n.labels) == 0 {
		x.rest = append(x.rest, n)
	}
	return nil
}

// Drop removes a term, if it is there.
func (x *Index) Drop(id registry.TermID) {
	n, ok := x.terms[id]
	if !ok {
		return
	}
	delete(x.terms, id)
	without := func(list []*indexed) []*indexed {
		return slices.DeleteFunc(list, func(other *indexed) bool { return other == n })
	}
	for _, l := range n.labels {
		if x.byLabel[l] = without(x.byLabel[l]); len(x.byLabel[l]) == 0 {
			delete(x.byLabel, l)
		}
	}
	x.rest = without(x.rest)
}

// Knows reports whether a term is registered, and whether carriers of it may be placed.
func (x *Index) Knows(id registry.TermID) (known, usable bool) {
	n, ok := x.terms[id]
	return ok, ok && !n.retiring
}

// matching lists the terms that select a pod, sorted by id. uncertain: a term would select the pod if it selected
// the pod's namespace, of which nothing is known.
func (x *Index) matching(pod *state.PodClass, ns Namespace) (found []*indexed, uncertain bool) {
	look := func(list []*indexed) {
		for _, n := range list {
			selects, unsure := selectsAll(n.parts, pod, ns)
			uncertain = uncertain || unsure
			if selects {
				found = append(found, n)
			}
		}
	}
	for key, value := range pod.Labels {
		look(x.byLabel[label{key, value}])
	}
	look(x.rest)
	slices.SortFunc(found, func(a, b *indexed) int { return cmp.Compare(a.id, b.id) })
	return found, uncertain
}

// selectsAll reports whether all parts select a pod, and whether that is not certain.
func selectsAll(parts []state.AffinityTerm, pod *state.PodClass, ns Namespace) (selects, uncertain bool) {
	selects = true
	for i := range parts {
		p := &parts[i]
		if !p.Selector.Matches(labels.Set(pod.Labels)) {
			return false, false
		}
		requirements, byLabel := p.NamespaceSelector.Requirements()
		uncertain = uncertain || !ns.Known && byLabel && len(requirements) > 0 &&
			!slices.Contains(p.Namespaces, pod.Namespace)
		selects = selects && p.MatchesNamespace(pod.Namespace, ns.Labels)
	}
	return selects, uncertain
}

// labelsOf returns values of one label of which every selected pod has one; none if a selected pod need not have
// one. A pod's matching terms can then be looked up by the pod's own label values.
func labelsOf(parts []registry.TermPart) []label {
	for _, p := range parts {
		for _, r := range p.Selector {
			if r.Operator != string(selection.In) || len(r.Values) == 0 {
				continue
			}
			list := make([]label, len(r.Values))
			for i, value := range r.Values {
				list[i] = label{r.Key, value}
			}
			return list
		}
	}
	return nil
}

func compile(p registry.TermPart) (state.AffinityTerm, error) {
	t := state.AffinityTerm{Namespaces: p.Namespaces, NamespaceSelector: labels.Nothing()}
	var err error
	if t.Selector, err = selectorOf(p.Selector); err != nil {
		return t, err
	}
	if p.ByLabel {
		t.NamespaceSelector, err = selectorOf(p.NamespaceSelector)
	}
	return t, err
}

func selectorOf(list []registry.Requirement) (labels.Selector, error) {
	s := labels.NewSelector()
	for _, r := range list {
		requirement, err := labels.NewRequirement(r.Key, selection.Operator(r.Operator), r.Values)
		if err != nil {
			return nil, err
		}
		s = s.Add(*requirement)
	}
	return s, nil
}
