package nodes

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// affinity implements the pod's nodeSelector and node affinity, and the affinity that the profile adds to every
// pod. Source: plugins/nodeaffinity.
type affinity struct {
	added          *nodeaffinity.NodeSelector
	addedPreferred *nodeaffinity.PreferredSchedulingTerms
}

// NewAffinity is the factory of NodeAffinity.
func NewAffinity(args runtime.Object) (rule.Plugin, error) {
	a, err := rule.Args[configv1.NodeAffinityArgs](args)
	if err != nil {
		return nil, err
	}
	var p affinity
	if a.AddedAffinity == nil {
		return p, nil
	}
	if required := a.AddedAffinity.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
		if p.added, err = nodeaffinity.NewNodeSelector(required); err != nil {
			return nil, fmt.Errorf("addedAffinity.requiredDuringSchedulingIgnoredDuringExecution: %w", err)
		}
	}
	if preferred := a.AddedAffinity.PreferredDuringSchedulingIgnoredDuringExecution; len(preferred) > 0 {
		if p.addedPreferred, err = nodeaffinity.NewPreferredSchedulingTerms(preferred); err != nil {
			return nil, fmt.Errorf("addedAffinity.preferredDuringSchedulingIgnoredDuringExecution: %w", err)
		}
	}
	return p, nil
}

// Name implements Plugin.
func (affinity) Name() string { return names.NodeAffinity }

// Compile implements Plugin. Required terms that all name nodes (metadata.name) narrow the search down to these
// nodes, as DaemonSet pods do. Source: node_affinity.go PreFilter.
func (p affinity) Compile(pod *state.Pod, _ rule.Objects) (rule.Compiled, error) {
	var c rule.Compiled
	spec := &pod.Template.Spec
	required := requiredTerms(spec)
	if required != nil || p.added != nil || len(spec.NodeSelector) > 0 {
		c.Filter = affinityFilter{
			added: p.added, required: nodeaffinity.GetRequiredNodeAffinity(pod.Template), selector: spec.NodeSelector,
		}
	}
	if required != nil {
		names, narrowed := namedNodes(required.NodeSelectorTerms)
		switch {
		// No term names a node that all of its requirements allow.
		case narrowed && names.Len() == 0:
			c.Rejection = "pod affinity terms conflict"
		case narrowed:
			c.OnlyNodes = names.UnsortedList()
		}
	}
	c.Scorer, c.ScorerErr = p.scorer(spec)
	c.Normalize = rule.NormalizeToMax
	return c, nil
}

// requiredTerms returns the pod's required node affinity; nil for none.
func requiredTerms(spec *corev1.PodSpec) *corev1.NodeSelector {
	if spec.Affinity == nil || spec.Affinity.NodeAffinity == nil {
		return nil
	}
	return spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
}

// namedNodes returns the node names that the terms allow. narrowed reports whether every term names nodes by
// metadata.name; terms are ORed, and the requirements inside a term are ANDed. Example: the terms "name in (a, b)
// and name in (b, c)" or "name in (d)" allow b and d. A single term without names allows any node, so that
// nothing is narrowed.
func namedNodes(terms []corev1.NodeSelectorTerm) (names sets.Set[string], narrowed bool) {
	for _, term := range terms {
		var inTerm sets.Set[string]
		for _, r := range term.MatchFields {
			if r.Key != metav1.ObjectNameField || r.Operator != corev1.NodeSelectorOpIn {
				continue
			}
			values := sets.New(r.Values...)
			if inTerm == nil {
				inTerm = values
			} else {
				inTerm = inTerm.Intersection(values)
			}
		}
		if inTerm == nil {
			return nil, false
		}
		names = names.Union(inTerm)
	}
	return names, names != nil
}

// affinityFilter is the required part of the rule for one pod.
type affinityFilter struct {
	added    *nodeaffinity.NodeSelector
	required nodeaffinity.RequiredNodeAffinity
	// selector is part of required; it is kept only for messages.
	selector map[string]string
}

// Check implements Filter.
func (f affinityFilter) Check(n *state.NodeInfo) rule.Code {
	if f.explain(n.Node.Object) != "" {
		return rule.UnschedulableAndUnresolvable
	}
	return rule.Success
}

// Explain implements Filter.
func (f affinityFilter) Explain(n *state.NodeInfo) []string {
	return []string{f.explain(n.Node.Object)}
}

// explain returns why a node does not match, or an empty string. A term that cannot be parsed matches no node, as
// upstream.
func (f affinityFilter) explain(node *corev1.Node) string {
	if f.added != nil && !f.added.Match(node) {
		return "node(s) didn't match scheduler-enforced node affinity"
	}
	if match, _ := f.required.Match(node); !match {
		return "node(s) didn't match Pod's node affinity/selector"
	}
	return ""
}

// AffinityScorer sums up the weights of the preferred terms that match a node: the pod's own, 1 to 100 each, and
// those that the profile adds. The sum is normalized to the best feasible node.
type AffinityScorer struct {
	added, own *nodeaffinity.PreferredSchedulingTerms
}

// scorer returns nil when neither the pod nor the profile has preferences.
func (p affinity) scorer(spec *corev1.PodSpec) (rule.Scorer, error) {
	s := AffinityScorer{added: p.addedPreferred}
	if spec.Affinity != nil && spec.Affinity.NodeAffinity != nil {
		terms := spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
		if terms != nil {
			var err error
			if s.own, err = nodeaffinity.NewPreferredSchedulingTerms(terms); err != nil {
				return nil, err
			}
		}
	}
	if s.added == nil && s.own == nil {
		return nil, nil
	}
	return s, nil
}

// Score implements Scorer.
func (s AffinityScorer) Score(n *state.NodeInfo) int64 {
	var sum int64
	if s.added != nil {
		sum += s.added.Score(n.Node.Object)
	}
	if s.own != nil {
		sum += s.own.Score(n.Node.Object)
	}
	return sum
}

// Events implements Plugin.
func (affinity) Events() []rule.Event {
	return []rule.Event{{Kind: events.KindNode, Actions: rule.Add | rule.UpdateNodeLabel}}
}

// Hint implements Plugin. A node helps if it matches now and did not before. Hint reports true where terms cannot
// be parsed, as upstream does, although no node can match.
func (p affinity) Hint(pod *state.Pod, c rule.Change) bool {
	if p.added != nil && !p.added.Match(c.NewNode.Object) {
		return false
	}
	required := nodeaffinity.GetRequiredNodeAffinity(pod.Template)
	matches, err := required.Match(c.NewNode.Object)
	if err != nil || !matches || c.OldNode == nil {
		return err != nil || matches
	}
	matched, err := required.Match(c.OldNode.Object)
	return err != nil || !matched
}

// Interest implements rule.Classifier. Pods that require a certain label are woken only by nodes that have it.
func (affinity) Interest(pod *state.Pod) rule.Interest {
	spec := &pod.Template.Spec
	i := rule.Interest{Nodes: rule.Everything}
	required := requiredTerms(spec)
	text := ""
	if required != nil {
		text = rule.BytesOf(pod, required)
	}
	i.Class = rule.Joined(append(rule.Pairs(spec.NodeSelector), text)...)
	if topics, ok := necessary(spec, required); ok && len(topics) <= maxTopics {
		i.Nodes = rule.Reach{Topics: topics}
	}
	return i
}

// necessary returns topics of which a node must have at least one to match; false if there is no such list. Terms
// are ORed, so that each must contribute a topic; the requirements of a term are ANDed, so that one of them is
// enough.
func necessary(spec *corev1.PodSpec, required *corev1.NodeSelector) ([]string, bool) {
	if len(spec.NodeSelector) > 0 {
		key := tellingKey(spec.NodeSelector)
		return []string{rule.TopicLabel + key + "=" + spec.NodeSelector[key]}, true
	}
	if required == nil {
		return nil, false
	}
	if _, err := nodeaffinity.NewNodeSelector(required); err != nil {
		return nil, false
	}
	var list []string
	for i := range required.NodeSelectorTerms {
		topics, ok := necessaryForTerm(&required.NodeSelectorTerms[i])
		if !ok {
			return nil, false
		}
		list = append(list, topics...)
	}
	return list, true
}

// tellingKey selects one key of a selector, all of whose keys must match: the hostname, which is the most
// selective, or else the last.
func tellingKey(selector map[string]string) string {
	if _, ok := selector[corev1.LabelHostname]; ok {
		return corev1.LabelHostname
	}
	return slices.Max(slices.Collect(maps.Keys(selector)))
}

// necessaryForTerm is necessary for one of several terms. A term without requirements matches nothing.
func necessaryForTerm(term *corev1.NodeSelectorTerm) ([]string, bool) {
	if len(term.MatchExpressions)+len(term.MatchFields) == 0 {
		return nil, true
	}
	one := func(of []corev1.NodeSelectorRequirement, topic func(key, value string) string) ([]string, bool) {
		for _, r := range of {
			if r.Operator != corev1.NodeSelectorOpIn {
				continue
			}
			var list []string
			for _, v := range r.Values {
				list = append(list, topic(r.Key, v))
			}
			return list, true
		}
		return nil, false
	}
	if list, ok := one(term.MatchFields, func(_, v string) string { return rule.TopicName + v }); ok {
		return list, true
	}
	return one(term.MatchExpressions, func(k, v string) string { return rule.TopicLabel + k + "=" + v })
}

// maxTopics bounds the number of topics that one pod is indexed by; with more, every change counts. A DaemonSet
// pod has one, the name of its node.
const maxTopics = 32

// OnlyTraits reports that the filter reads more of a node than its traits: its labels and its name.
func (affinityFilter) OnlyTraits() bool { return false }

// Variant implements variant: 1 if affinity added by the profile rejects the node, 0 if the pod's own does.
func (f affinityFilter) Variant(n *state.NodeInfo) uint8 {
	if f.added != nil && !f.added.Match(n.Node.Object) {
		return 1
	}
	return 0
}

// Details implements detailer: the labels that the pod selects and the node does not have.
func (f affinityFilter) Details(n *state.NodeInfo) []string {
	var list []string
	for _, key := range slices.Sorted(maps.Keys(f.selector)) {
		if value, ok := n.Node.Object.Labels[key]; !ok || value != f.selector[key] {
			list = append(list, "no label "+key+"="+f.selector[key])
		}
	}
	return list
}
