package podaffinity

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Events implements Plugin.
func (plugin) Events() []rule.Event {
	return []rule.Event{
		{Kind: events.KindPod, Actions: rule.Add | rule.UpdatePodLabel | rule.Delete},
		{Kind: events.KindNode, Actions: rule.Add | rule.UpdateNodeLabel},
		{Kind: events.KindNamespace, Actions: rule.Add | rule.UpdateNamespaceLabel},
	}
}

// Hint implements Plugin. It reports true where upstream's hints miss that the pod may fit:
//
//   - it is enough if one of several anti-affinity terms no longer matches a pod, on either side (upstream requires
//     that all of them matched it);
//   - namespace selectors are looked up (upstream matches them against no labels);
//   - if the last pod that others are, or may be, attracted to is gone, the waiting pod may become the first;
//   - namespaces may change their labels.
func (p plugin) Hint(pod *state.Pod, c rule.Change) bool {
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
	Party
	// own holds the pod's terms before their namespaces are looked up; never nil.
	own                           *state.PodTerms
	affinity, loose, antiAffinity []Term // as in Filter
}

// newAffinityHint resolves the pod's terms. Without objects, a namespace selector counts as matching all
// namespaces: a wrong true costs an attempt, a wrong false leaves the pod waiting.
func newAffinityHint(pod *state.Pod, objects rule.Objects) affinityHint {
	h := affinityHint{Party: NewParty(pod, rule.OrNone(objects)), own: pod.Terms}
	if h.own == nil {
		h.own = &state.PodTerms{}
	}
	resolve := func(terms []state.AffinityTerm, selects selecting) []Term {
		list := h.Resolve(terms, selects)
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

// unparsed reports whether required terms of a pod could not be parsed. What they refer to is unknown, so any
// change may matter; upstream does the same.
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

// unparsedAgainst is the anti-affinity part of unparsed.
func unparsedAgainst(p *state.Pod) bool {
	return p.Terms != nil && len(p.RequiredAntiAffinity()) != len(p.Terms.RequiredAntiAffinity)
}

// podsMoved handles a pod that was added, deleted or changed its labels. The pod may fit now if an attracting pod
// came or one that excluded it as the first left, or if a pod that repelled it, or that it repelled, left or
// changed its labels.
func (h *affinityHint) podsMoved(c rule.Change) bool {
	before, after := c.OldPod, c.NewPod
	if before != nil && after != nil && after.UID == h.Pod.UID {
		return true
	}
	for _, p := range []*state.Pod{before, after} {
		if p != nil && !rule.HeldPlace(p) {
			return false
		}
	}
	if unparsed(h.Pod) || after == nil && unparsedAgainst(before) {
		return true
	}
	among := func(p *state.Pod, terms []Term) bool { return p != nil && MatchesAll(terms, p) }
	switch {
	case among(after, h.affinity) && !among(before, h.affinity):
		return true
	case among(before, h.loose) && !among(after, h.loose) && MatchesAll(h.affinity, h.Pod):
		return true
	case before != nil && h.releases(before, after):
		return true
	default:
		return after == nil && h.wasRepelledBy(before)
	}
}

// releases reports whether an anti-affinity term matched the pod before and does not match it any more.
func (h *affinityHint) releases(before, after *state.Pod) bool {
	for i := range h.antiAffinity {
		if t := &h.antiAffinity[i]; t.MatchesPod(before) && (after == nil || !t.MatchesPod(after)) {
			return true
		}
	}
	return false
}

// wasRepelledBy reports whether a deleted pod repelled the waiting pod, or may have.
func (h *affinityHint) wasRepelledBy(gone *state.Pod) bool {
	if gone.Terms == nil {
		return false
	}
	return slices.ContainsFunc(gone.Terms.RequiredAntiAffinity, func(t state.AffinityTerm) bool {
		return h.MatchedBy(&t) || h.mayBeMatchedBy(&t)
	})
}

// domainsMoved handles a node that was added or changed its domain: into or between domains of an affinity term,
// out of or between domains of an anti-affinity term. For any anti-affinity, a new node is worth a try.
func (h *affinityHint) domainsMoved(c rule.Change) bool {
	after := c.NewNode.Object.Labels
	if c.OldNode == nil {
		return len(h.antiAffinity) > 0 || slices.ContainsFunc(h.affinity, func(t Term) bool {
			_, ok := after[t.TopologyKey]
			return ok
		})
	}
	before := c.OldNode.Object.Labels
	moved := func(t Term) (was, is, other bool) {
		from, was := before[t.TopologyKey]
		to, is := after[t.TopologyKey]
		return was, is, was && is && from != to
	}
	return slices.ContainsFunc(h.affinity, func(t Term) bool {
		was, is, other := moved(t)
		return !was && is || other
	}) || slices.ContainsFunc(h.antiAffinity, func(t Term) bool {
		was, is, other := moved(t)
		return was && !is || other
	})
}

// namespaceMoved handles a namespace that was added or changed its labels: the pod's namespace, which other pods'
// terms may no longer select, or a namespace whose selection by the pod's own terms has changed.
func (h *affinityHint) namespaceMoved(c rule.Change) bool {
	if c.NewObject.Name == h.Pod.Namespace {
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

// Interest implements rule.Classifier.
func (plugin) Interest(pod *state.Pod) rule.Interest {
	parts := append(rule.Pairs(pod.Template.Labels), pod.Namespace)
	if a := pod.Template.Spec.Affinity; a != nil && a.PodAffinity != nil {
		parts = append(parts, "near", rule.BytesOf(pod, a.PodAffinity))
	}
	if a := pod.Template.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		parts = append(parts, "away", rule.BytesOf(pod, a.PodAntiAffinity))
	}
	i := rule.Interest{Class: rule.Joined(parts...), Pods: rule.Everything, Nodes: rule.Everything}
	if unparsed(pod) {
		return i
	}
	i.Pods, i.Nodes = reachOfTerms(pod.Terms)
	return i
}

// reachOfTerms returns, for pods, those in the namespaces that the required terms refer to and deleted pods that
// may have repelled the pod; for nodes, those that are new or change their domain.
func reachOfTerms(terms *state.PodTerms) (pods, nodes rule.Reach) {
	pods.Topics, nodes.Topics = []string{rule.TopicRepelled}, []string{rule.TopicNewNode}
	if terms == nil {
		return pods, nodes
	}
	for _, t := range slices.Concat(terms.RequiredAffinity, terms.RequiredAntiAffinity) {
		if _, selects := t.NamespaceSelector.Requirements(); selects {
			pods = rule.Everything
		}
		for _, ns := range t.Namespaces {
			pods.Topics = append(pods.Topics, rule.TopicIn+ns)
		}
		nodes.Topics = append(nodes.Topics, rule.TopicKey+t.TopologyKey)
	}
	if pods.All {
		pods.Topics = nil
	}
	return pods, nodes
}

// CrossRules returns the pod's hard rules about pods on other nodes: one per anti-affinity term, because each is
// violated on its own, and one for all affinity terms together, because one pod has to match them all.
func (plugin) CrossRules(pod *state.Pod, _ rule.Objects) ([]rule.CrossRule, error) {
	own := pod.Terms
	if own == nil || own.Err != nil { // a pod whose terms cannot be parsed is rejected
		return nil, nil
	}
	var rules []rule.CrossRule
	for i, t := range own.RequiredAntiAffinity {
		if _, selects := t.Selector.Requirements(); selects {
			rules = append(rules, rule.CrossRule{
				Kind: rule.CrossApart, TopologyKey: t.TopologyKey, Terms: own.RequiredAntiAffinity[i : i+1 : i+1],
			})
		}
	}
	if len(own.RequiredAffinity) > 0 {
		rules = append(rules, rule.CrossRule{Kind: rule.CrossTogether, Terms: own.RequiredAffinity})
	}
	return rules, nil
}
