package podaffinity

import (
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Party is a pod as other pods' terms see it, with what is needed to resolve its own terms.
type Party struct {
	Pod     *state.Pod
	objects rule.Objects
	// NamespaceLabels are those of the pod's namespace; known reports whether the namespace is known.
	NamespaceLabels map[string]string
	Known           bool
}

// NewParty returns the pod as the terms of other pods see it.
func NewParty(pod *state.Pod, objects rule.Objects) Party {
	p := Party{Pod: pod, objects: objects}
	p.NamespaceLabels, p.Known = rule.NamespaceLabels(objects, pod.Namespace)
	return p
}

// MatchedBy reports whether a term of another pod matches this one.
func (p *Party) MatchedBy(t *state.AffinityTerm) bool {
	return t.Matches(p.Pod.Namespace, p.NamespaceLabels, p.Pod.Template.Labels)
}

// mayBeMatchedBy reports whether a term of another pod would match this one if it selected the pod's namespace, and
// that namespace is unknown.
func (p *Party) mayBeMatchedBy(t *state.AffinityTerm) bool {
	_, selects := t.NamespaceSelector.Requirements()
	return selects && !p.Known && state.MayMatch(t.Selector, p.Pod.Template.Labels)
}

// selecting evaluates a selector on labels that may have been truncated: state.MayMatch or state.MustMatch.
type selecting func(s labels.Selector, set map[string]string) bool

// Term is a term of the pod with its namespaces looked up.
type Term struct {
	*state.AffinityTerm
	selects selecting
	// everywhere means that all namespaces match, known or not; otherwise those in namespaces match.
	everywhere   bool
	NamespaceSet map[string]struct{}
}

// Resolve looks up the namespaces of the pod's own terms. (Upstream still evaluates the selector afterwards,
// against no labels at all, so that a selector by NotIn or DoesNotExist matches every namespace there:
// interpodaffinity/plugin.go mergeAffinityTermNamespacesIfNotEmpty resets a copy.)
func (p *Party) Resolve(terms []state.AffinityTerm, selects selecting) []Term {
	list := make([]Term, len(terms))
	for i := range terms {
		t := Term{AffinityTerm: &terms[i], selects: selects, everywhere: terms[i].NamespaceSelector.Empty()}
		if !t.everywhere {
			t.NamespaceSet = namespacesOf(&t, p.objects)
		}
		list[i] = t
	}
	return list
}

// namespacesOf returns the names of a term's namespaces: those that it lists, and those that its selector matches
// now.
func namespacesOf(t *Term, objects rule.Objects) map[string]struct{} {
	set := make(map[string]struct{}, len(t.Namespaces))
	for _, name := range t.Namespaces {
		set[name] = struct{}{}
	}
	if _, selects := t.NamespaceSelector.Requirements(); !selects {
		return set
	}
	for o := range objects.Objects(events.KindNamespace) {
		if t.selects(t.NamespaceSelector, o.API.GetLabels()) {
			set[o.Name] = struct{}{}
		}
	}
	return set
}

// MatchesPod reports whether the term matches another pod. A pod that no fact has described does not match.
func (t *Term) MatchesPod(other *state.Pod) bool {
	if !t.everywhere {
		if _, ok := t.NamespaceSet[other.Namespace]; !ok {
			return false
		}
	}
	return other.Selectable() && t.selects(t.Selector, other.Template.Labels)
}

// MatchesAll reports whether all the terms match another pod; no terms match no pod.
func MatchesAll(terms []Term, other *state.Pod) bool {
	for i := range terms {
		if !terms[i].MatchesPod(other) {
			return false
		}
	}
	return len(terms) > 0
}

// domains holds counts per topology domain: values by key. A missing entry counts 0, and entries of 0 are
// removed, so that an empty map means that no pod counts anywhere.
type domains map[string]map[string]int

// add adds to the node's domain of the key, if the node has the key.
func (d domains) add(key string, nodeLabels map[string]string, by int) {
	value, ok := nodeLabels[key]
	if !ok {
		return
	}
	if d[key] == nil {
		d[key] = map[string]int{}
	}
	d[key][value] += by
	if d[key][value] == 0 {
		delete(d[key], value)
	}
	if len(d[key]) == 0 {
		delete(d, key)
	}
}

// addAll adds to the node's domains of the terms' keys.
func (d domains) addAll(terms []Term, nodeLabels map[string]string, by int) {
	for i := range terms {
		d.add(terms[i].TopologyKey, nodeLabels, by)
	}
}

// Has reports whether the node's domain of that key has a count.
func (d domains) Has(key string, nodeLabels map[string]string) bool {
	value, ok := nodeLabels[key]
	if !ok {
		return false
	}
	_, found := d[key][value]
	return found
}

// hasAny reports whether any of the node's domains has a count.
func (d domains) hasAny(nodeLabels map[string]string) bool {
	for key := range d {
		if d.Has(key, nodeLabels) {
			return true
		}
	}
	return false
}

// MatchesKind is the counterpart of MatchesPod for pods of a kind.
func (t *Term) MatchesKind(k *state.PodClass) bool {
	if !t.everywhere {
		if _, ok := t.NamespaceSet[k.Namespace]; !ok {
			return false
		}
	}
	return t.selects(t.Selector, k.Labels)
}

// AllMatchKind is the counterpart of MatchesAll for pods of a kind.
func AllMatchKind(terms []Term, k *state.PodClass) bool {
	for i := range terms {
		if !terms[i].MatchesKind(k) {
			return false
		}
	}
	return len(terms) > 0
}
