package placement

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Events implements Plugin.
func (podAffinity) Events() []Event {
	return []Event{
		{events.KindPod, Add | UpdatePodLabel | Delete},
		{events.KindNode, Add | UpdateNodeLabel},
		{events.KindNamespace, Add | UpdateNamespaceLabel},
	}
}

// Hint implements Plugin. It says yes where upstream's hints miss that the pod may fit:
//
//   - any of several anti-affinity terms that no longer meets a pod is enough, on either
//     side (upstream wants all of them to have met it);
//   - namespace selectors are looked up (upstream matches them against no labels);
//   - the last pod that others are drawn to, or may be, may go, and the pod become the first;
//   - namespaces change their labels.
func (p podAffinity) Hint(pod *state.Pod, c Change) bool {
	h := newAffinityHint(pod, c.Objects)
	switch c.Kind {
	case events.KindNode:
		return unparsed(pod) || h.domainsMoved(c)
	case events.KindNamespace:
		return h.namespaceMoved(c)
	default:
		return h.podsMoved(c)
	}
}

// affinityHint is a pod that waits because of inter-pod affinity.
type affinityHint struct {
	party
	own                           *state.PodTerms
	affinity, loose, antiAffinity []ownTerm // as podAffinityFilter's
}

// newAffinityHint resolves the pod's terms. Without objects a selector of namespaces
// counts as matching all.
func newAffinityHint(pod *state.Pod, objects Objects) affinityHint {
	h := affinityHint{party: newParty(pod, orNoObjects(objects)), own: pod.Terms}
	if h.own == nil {
		h.own = &state.PodTerms{}
	}
	resolve := func(terms []state.AffinityTerm, selects selecting) []ownTerm {
		list := h.resolve(terms, selects)
		for i := range list {
			if _, selects := list[i].NamespaceSelector.Requirements(); selects && objects == nil {
				list[i].everywhere = true
			}
		}
		return list
	}
	h.affinity = resolve(h.own.RequiredAffinity, state.MustMatch)
	h.loose = resolve(h.own.RequiredAffinity, state.MayMatch)
	h.antiAffinity = resolve(h.own.RequiredAntiAffinity, state.MayMatch)
	return h
}

// unparsed tells whether required terms of a pod could not be parsed. Nobody knows what
// they are about, so anything may matter; upstream says the same.
func unparsed(p *state.Pod) bool {
	if unparsedAgainst(p) {
		return true
	}
	if p.Terms == nil || p.Terms.Err == nil {
		return false
	}
	var with []corev1.PodAffinityTerm
	if a := p.Template.Spec.Affinity.PodAffinity; a != nil {
		with = a.RequiredDuringSchedulingIgnoredDuringExecution
	}
	return len(with) != len(p.Terms.RequiredAffinity)
}

// unparsedAgainst is the half of unparsed about anti-affinity.
func unparsedAgainst(p *state.Pod) bool {
	return p.Terms != nil && len(p.RequiredAntiAffinity()) != len(p.Terms.RequiredAntiAffinity)
}

// podsMoved is about a pod that came, went or changed its labels.
func (h *affinityHint) podsMoved(c Change) bool {
	before, after := c.OldPod, c.NewPod
	if before != nil && after != nil && after.UID == h.pod.UID {
		return true
	}
	for _, p := range []*state.Pod{before, after} {
		if p != nil && !heldPlace(p) {
			return false
		}
	}
	if unparsed(h.pod) || after == nil && unparsedAgainst(before) {
		return true
	}
	among := func(p *state.Pod, terms []ownTerm) bool { return p != nil && matchesAll(terms, p) }
	switch {
	case among(after, h.affinity) && !among(before, h.affinity):
		return true
	case among(before, h.loose) && !among(after, h.loose) && matchesAll(h.affinity, h.pod):
		return true
	case before != nil && h.releases(before, after):
		return true
	default:
		return after == nil && h.wasRepelledBy(before)
	}
}

// releases tells whether an anti-affinity term met the pod before and does not any more.
func (h *affinityHint) releases(before, after *state.Pod) bool {
	for i := range h.antiAffinity {
		if t := &h.antiAffinity[i]; t.matches(before) && (after == nil || !t.matches(after)) {
			return true
		}
	}
	return false
}

// wasRepelledBy tells whether a pod that is gone repelled the one that waits, or may have.
func (h *affinityHint) wasRepelledBy(gone *state.Pod) bool {
	if gone.Terms == nil {
		return false
	}
	return slices.ContainsFunc(gone.Terms.RequiredAntiAffinity, func(t state.AffinityTerm) bool {
		return h.matchedBy(&t) || h.mayBeMatchedBy(&t)
	})
}

// domainsMoved is about a node that came or moved: into a domain, or to another one, of an
// affinity term; out of one, or to another one, of an anti-affinity term. A new node is
// worth a try for any anti-affinity.
func (h *affinityHint) domainsMoved(c Change) bool {
	after := c.NewNode.Object.Labels
	if c.OldNode == nil {
		return len(h.antiAffinity) > 0 || slices.ContainsFunc(h.affinity, func(t ownTerm) bool {
			_, ok := after[t.TopologyKey]
			return ok
		})
	}
	before := c.OldNode.Object.Labels
	moved := func(t ownTerm) (was, is, other bool) {
		from, was := before[t.TopologyKey]
		to, is := after[t.TopologyKey]
		return was, is, was && is && from != to
	}
	return slices.ContainsFunc(h.affinity, func(t ownTerm) bool {
		was, is, other := moved(t)
		return !was && is || other
	}) || slices.ContainsFunc(h.antiAffinity, func(t ownTerm) bool {
		was, is, other := moved(t)
		return was && !is || other
	})
}

// namespaceMoved is about a namespace that came or changed its labels: that of the pod,
// which other pods' terms may select no longer, or one that the pod's own terms select
// otherwise than before.
func (h *affinityHint) namespaceMoved(c Change) bool {
	if c.NewObject.Name == h.pod.Namespace {
		return true
	}
	var before map[string]string
	if c.OldObject != nil {
		before = c.OldObject.API.GetLabels()
	}
	after := c.NewObject.API.GetLabels()
	otherwise := func(selects selecting) func(state.AffinityTerm) bool {
		return func(t state.AffinityTerm) bool {
			return selects(t.NamespaceSelector, after) != (c.OldObject != nil && selects(t.NamespaceSelector, before))
		}
	}
	return slices.ContainsFunc(h.own.RequiredAffinity, otherwise(state.MustMatch)) ||
		slices.ContainsFunc(h.own.RequiredAffinity, otherwise(state.MayMatch)) ||
		slices.ContainsFunc(h.own.RequiredAntiAffinity, otherwise(state.MayMatch))
}
