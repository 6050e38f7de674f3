package placement

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

// podAffinity places pods near some pods and away from others, by topology domain. The terms of both sides count:
// those of the pod, and the required anti-affinity and all preferred terms of existing pods. Source:
// plugins/interpodaffinity.
type podAffinity struct {
	// hardWeight is the amount that an existing pod adds to a node's score by a required affinity term that the new pod
	// matches, 0 to 100.
	hardWeight int32
	// ignoreExisting disables scoring for pods without preferred terms of their own.
	ignoreExisting bool
}

const (
	defaultHardAffinityWeight int32 = 1
	maxHardAffinityWeight     int32 = 100
)

func newPodAffinity(args runtime.Object) (Plugin, error) {
	a, err := argsOf[configv1.InterPodAffinityArgs](args)
	if err != nil {
		return nil, err
	}
	p := podAffinity{
		hardWeight: defaultHardAffinityWeight, ignoreExisting: a.IgnorePreferredTermsOfExistingPods,
	}
	if a.HardPodAffinityWeight != nil {
		p.hardWeight = *a.HardPodAffinityWeight
	}
	if p.hardWeight < 0 || p.hardWeight > maxHardAffinityWeight {
		return nil, fmt.Errorf("hardPodAffinityWeight is %d, want 0 to %d", p.hardWeight, maxHardAffinityWeight)
	}
	return p, nil
}

// Name implements Plugin.
func (podAffinity) Name() string { return InterPodAffinity }

// Compile implements Plugin.
func (p podAffinity) Compile(pod *state.Pod, objects Objects) (Compiled, error) {
	own := pod.Terms
	if own == nil {
		own = &state.PodTerms{}
	}
	if own.Err != nil {
		c := Compiled{Rejection: fmt.Sprintf("parsing pod: %+v", own.Err)}
		if !p.ignoreExisting || hasPreferred(&pod.Template.Spec) {
			c.ScorerErr = own.Err
		}
		return c, nil
	}
	party := newParty(pod, objects)
	c := Compiled{Filter: &podAffinityFilter{
		party:        party,
		affinity:     party.resolve(own.RequiredAffinity, state.MustMatch),
		loose:        party.resolve(own.RequiredAffinity, state.MayMatch),
		antiAffinity: party.resolve(own.RequiredAntiAffinity, state.MayMatch),
	}}
	if prefers := len(own.PreferredAffinity) + len(own.PreferredAntiAffinity); prefers > 0 || !p.ignoreExisting {
		c.Scorer = &podAffinityScorer{
			party: party, hardWeight: int64(p.hardWeight),
			attracted: party.resolve(own.PreferredAffinity, state.MustMatch),
			repelled:  party.resolve(own.PreferredAntiAffinity, state.MayMatch),
		}
	}
	return c, nil
}

// hasPreferred reports whether a pod has preferred terms, even if they cannot be parsed.
func hasPreferred(spec *corev1.PodSpec) bool {
	a := spec.Affinity
	return a != nil &&
		(a.PodAffinity != nil && len(a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0 ||
			a.PodAntiAffinity != nil && len(a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution) > 0)
}

// party is a pod as other pods' terms see it, with what is needed to resolve its own terms.
type party struct {
	pod     *state.Pod
	objects Objects
	// namespaceLabels are those of the pod's namespace; known reports whether the namespace is known.
	namespaceLabels map[string]string
	known           bool
}

func newParty(pod *state.Pod, objects Objects) party {
	p := party{pod: pod, objects: objects}
	p.namespaceLabels, p.known = namespaceLabels(objects, pod.Namespace)
	return p
}

// matchedBy reports whether a term of another pod matches this one.
func (p *party) matchedBy(t *state.AffinityTerm) bool {
	return t.Matches(p.pod.Namespace, p.namespaceLabels, p.pod.Template.Labels)
}

// mayBeMatchedBy reports whether a term of another pod would match this one if it selected the pod's namespace, and
// that namespace is unknown.
func (p *party) mayBeMatchedBy(t *state.AffinityTerm) bool {
	_, selects := t.NamespaceSelector.Requirements()
	return selects && !p.known && state.MayMatch(t.Selector, p.pod.Template.Labels)
}

// selecting evaluates a selector on labels that may have been truncated: state.MayMatch or state.MustMatch.
type selecting func(s labels.Selector, set map[string]string) bool

// ownTerm is a term of the pod with its namespaces looked up.
type ownTerm struct {
	*state.AffinityTerm
	selects selecting
	// everywhere means that all namespaces match, known or not; otherwise those in namespaces match.
	everywhere bool
	namespaces map[string]struct{}
}

// resolve looks up the namespaces of the pod's own terms. (Upstream still evaluates the selector afterwards,
// against no labels at all, so that a selector by NotIn or DoesNotExist matches every namespace there:
// interpodaffinity/plugin.go mergeAffinityTermNamespacesIfNotEmpty resets a copy.)
func (p *party) resolve(terms []state.AffinityTerm, selects selecting) []ownTerm {
	list := make([]ownTerm, len(terms))
	for i := range terms {
		t := ownTerm{AffinityTerm: &terms[i], selects: selects, everywhere: terms[i].NamespaceSelector.Empty()}
		if !t.everywhere {
			t.namespaces = namespacesOf(&t, p.objects)
		}
		list[i] = t
	}
	return list
}

func namespacesOf(t *ownTerm, objects Objects) map[string]struct{} {
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

// matches reports whether the term matches another pod. A pod that no fact has described does not match.
func (t *ownTerm) matches(other *state.Pod) bool {
	if !t.everywhere {
		if _, ok := t.namespaces[other.Namespace]; !ok {
			return false
		}
	}
	return other.Selectable() && t.selects(t.Selector, other.Template.Labels)
}

// matchesAll reports whether all the terms match another pod; no terms match no pod.
func matchesAll(terms []ownTerm, other *state.Pod) bool {
	for i := range terms {
		if !terms[i].matches(other) {
			return false
		}
	}
	return len(terms) > 0
}

// domains holds counts per topology domain: values by key. A missing entry counts 0.
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
func (d domains) addAll(terms []ownTerm, nodeLabels map[string]string, by int) {
	for i := range terms {
		d.add(terms[i].TopologyKey, nodeLabels, by)
	}
}

// has reports whether the node's domain of that key has a count.
func (d domains) has(key string, nodeLabels map[string]string) bool {
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
		if d.has(key, nodeLabels) {
			return true
		}
	}
	return false
}

// speaksOf is the counterpart of matches for pods of a kind.
func (t *ownTerm) speaksOf(k *state.Kind) bool {
	if !t.everywhere {
		if _, ok := t.namespaces[k.Namespace]; !ok {
			return false
		}
	}
	return t.selects(t.Selector, k.Labels)
}

// speakOf is the counterpart of matchesAll for pods of a kind.
func speakOf(terms []ownTerm, k *state.Kind) bool {
	for i := range terms {
		if !terms[i].speaksOf(k) {
			return false
		}
	}
	return len(terms) > 0
}
