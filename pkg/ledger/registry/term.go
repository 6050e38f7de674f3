package registry

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// TermKind is the kind of rule that a term expresses.
type TermKind uint8

const (
	// TermApart is a required anti-affinity term: no selected pod in the carrier's domain.
	TermApart TermKind = iota + 1
	// TermSpread is a hard spread constraint: selected pods stay evenly spread over the domains. The permitted skew
	// is not part of the term, so that constraints that count the same pods share one term.
	TermSpread
	// TermTogether combines all of a pod's required affinity terms: its domains hold pods that all of them select,
	// or no such pod exists anywhere and the pod is the first.
	TermTogether
)

// String returns the word used in messages and in a term's canonical form.
func (k TermKind) String() string {
	switch k {
	case TermApart:
		return "apart"
	case TermSpread:
		return "spread"
	case TermTogether:
		return "together"
	}
	return fmt.Sprintf("TermKind(%d)", uint8(k))
}

// Term is one hard rule about pods on other nodes, reduced to what matters to the pods that it concerns. Equal
// terms are one term, whichever pods carry them.
type Term struct {
	Kind TermKind
	// TopologyKey is the node label whose values are the domains; empty for TermTogether.
	TopologyKey string
	// Parts select pods: a pod is selected if every part selects it. Only TermTogether has several.
	Parts []TermPart
}

// TermPart selects pods by namespace and labels.
type TermPart struct {
	// Namespaces are selected by name. If ByLabel is set, those whose labels match NamespaceSelector are selected
	// as well (all namespaces, when it is empty).
	Namespaces        []string
	ByLabel           bool
	NamespaceSelector []Requirement
	// Selector applies to the pod's labels; an empty one selects every pod.
	Selector []Requirement
}

// Requirement is a requirement on a label, with the operators of label selectors: In, NotIn, Exists, DoesNotExist,
// Gt, Lt.
type Requirement struct {
	Key, Operator string
	Values        []string
}

// TermID names a term: 32 hex digits, a function of its canonical form. It is part of the data format: every member
// must compute the same one.
type TermID string

// termIDBytes is how many bytes of the hash are used; with 16, a collision of two terms is practically impossible.
const termIDBytes = 16

// ID returns the term's name.
func (t Term) ID() TermID {
	sum := sha256.Sum256([]byte(t.String()))
	return TermID(hex.EncodeToString(sum[:termIDBytes]))
}

// Canonical returns the term with every list sorted whose order has no meaning.
func (t Term) Canonical() Term {
	parts := make([]TermPart, len(t.Parts))
	for i, p := range t.Parts {
		parts[i] = TermPart{
			Namespaces: slices.Compact(slices.Sorted(slices.Values(p.Namespaces))), ByLabel: p.ByLabel,
			NamespaceSelector: canonical(p.NamespaceSelector), Selector: canonical(p.Selector),
		}
	}
	slices.SortFunc(parts, func(a, b TermPart) int { return strings.Compare(a.text(), b.text()) })
	t.Parts = slices.CompactFunc(parts, func(a, b TermPart) bool { return a.text() == b.text() })
	return t
}

// String returns the canonical form: terms whose parts mean the same have the same one.
func (t Term) String() string {
	t = t.Canonical()
	text := t.Kind.String() + " " + strconv.Quote(t.TopologyKey)
	for _, p := range t.Parts {
		text += " " + p.text()
	}
	return text
}

func (p TermPart) text() string {
	text := fmt.Sprintf("{%q", p.Namespaces)
	if p.ByLabel {
		text += " by label " + textOf(p.NamespaceSelector)
	}
	return text + ": " + textOf(p.Selector) + "}"
}

func textOf(selector []Requirement) string {
	words := make([]string, len(selector))
	for i, r := range selector {
		words[i] = fmt.Sprintf("%q %s %q", r.Key, r.Operator, r.Values)
	}
	return "[" + strings.Join(words, ", ") + "]"
}

func canonical(selector []Requirement) []Requirement {
	if len(selector) == 0 {
		return nil
	}
	out := make([]Requirement, len(selector))
	for i, r := range selector {
		out[i] = Requirement{Key: r.Key, Operator: r.Operator, Values: slices.Compact(slices.Sorted(slices.Values(r.Values)))}
	}
	order := func(a, b Requirement) int { return strings.Compare(textOf([]Requirement{a}), textOf([]Requirement{b})) }
	slices.SortFunc(out, order)
	return slices.CompactFunc(out, func(a, b Requirement) bool { return order(a, b) == 0 })
}

func (t Term) check() error {
	switch {
	case t.Kind < TermApart || t.Kind > TermTogether:
		return fmt.Errorf("unknown kind %d", t.Kind)
	case (t.TopologyKey == "") != (t.Kind == TermTogether):
		return fmt.Errorf("kind %s with topology key %q: only affinity goes without, and must", t.Kind, t.TopologyKey)
	case len(t.Parts) == 0 || len(t.Parts) > 1 && t.Kind != TermTogether:
		return fmt.Errorf("kind %s with %d parts: want 1, of affinity at least 1", t.Kind, len(t.Parts))
	}
	return nil
}

// RegisteredTerm is t/<id>.
type RegisteredTerm struct {
	Term
	// Retiring: pods that match the term still use its guards, but no carrier may be placed until the term is
	// registered again.
	Retiring bool
	// Namespace is the namespace of the pod that had the term registered last; the term counts against that
	// namespace's share of the registry. It is empty if a version wrote the term that does not record it; then the
	// term counts against no namespace.
	Namespace string
	// Revision is the mod revision the term was read at.
	Revision int64
	Later    string
}

// Registry is t/reg: its revision stands for the set of registered terms.
type Registry struct {
	// Revision is the mod revision of the registry, 0 while no term was ever registered.
	Revision int64
	// PodRV is a high-water of pods: no shard may decide before its progress has reached it. Up to it, the facts
	// show every pod that carries a dropped term.
	PodRV uint64
	Later string
}

// Keys of terms and their guards, relative to the cluster's prefix.
const (
	// KeyTermRegistry is the registry of terms: hard rules about pods on other nodes. Every
	// placement compares it.
	KeyTermRegistry = "t/reg"
	// PrefixTerm + term id: RegisteredTerm.
	PrefixTerm = "t/"
	// PrefixGuard + term id + "/" + domain + "/" + part: a guard, of which only the revision matters.
	PrefixGuard = "g/"
)
