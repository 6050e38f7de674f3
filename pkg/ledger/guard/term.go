package guard

import (
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/berth-scheduler/berth/pkg/ledger/registry"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

var kinds = map[rule.CrossKind]registry.TermKind{
	rule.CrossApart: registry.TermApart, rule.CrossSpread: registry.TermSpread,
	rule.CrossTogether: registry.TermTogether,
}

// TermOf returns a rule in the form of the registry: reduced to what determines the pods it concerns. Constraints
// that differ only in their maxSkew are one term. So are required affinities that differ in their topology keys,
// because which pod is the first of its kind does not depend on them.
func TermOf(r rule.CrossRule) registry.Term {
	t := registry.Term{Kind: kinds[r.Kind], TopologyKey: r.TopologyKey}
	for _, a := range r.Terms {
		p := registry.TermPart{Namespaces: a.Namespaces, Selector: requirementsOf(a.Selector)}
		if requirements, selects := a.NamespaceSelector.Requirements(); selects {
			p.ByLabel, p.NamespaceSelector = true, requirementsFrom(requirements)
		}
		if p.ByLabel && len(p.NamespaceSelector) == 0 {
			p.Namespaces = nil // all namespaces, named or not
		}
		t.Parts = append(t.Parts, p)
	}
	return t.Canonical()
}

func requirementsOf(s labels.Selector) []registry.Requirement {
	requirements, _ := s.Requirements()
	return requirementsFrom(requirements)
}

// requirementsFrom normalises operators that have the same meaning.
func requirementsFrom(list labels.Requirements) []registry.Requirement {
	var out []registry.Requirement
	for _, r := range list {
		op := r.Operator()
		switch op {
		case selection.Equals, selection.DoubleEquals:
			op = selection.In
		case selection.NotEquals:
			op = selection.NotIn
		}
		out = append(out, registry.Requirement{Key: r.Key(), Operator: string(op), Values: r.Values().UnsortedList()})
	}
	return out
}

// selectsNothing reports whether a term can select no pod: then its carriers repel no pod and attract none.
func selectsNothing(terms []state.AffinityTerm) bool {
	for i := range terms {
		if _, selects := terms[i].Selector.Requirements(); !selects {
			return true
		}
	}
	return false
}
