package placement

import (
	"k8s.io/apimachinery/pkg/labels"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/state"
)

// CrossRule is one hard rule of a pod whose answer depends on pods on other nodes. Whoever
// decides at the same time as others must see to it that the answer still holds when the
// decision is carried out (pkg/ledger/guard).
type CrossRule struct {
	Kind CrossKind
	// TopologyKey is the node label whose values are the rule's domains; empty for
	// CrossTogether, whose terms each have their own.
	TopologyKey string
	// Terms say which pods the rule counts: those that all of them select. Only
	// CrossTogether has several.
	Terms []state.AffinityTerm
}

// CrossKind is what a CrossRule demands.
type CrossKind uint8

const (
	// CrossApart: required anti-affinity, one term.
	CrossApart CrossKind = iota + 1
	// CrossSpread: a hard spread constraint, of the pod or by default.
	CrossSpread
	// CrossTogether: all required affinity terms of the pod.
	CrossTogether
)

// crossRuler is a plugin with hard rules about pods on other nodes.
type crossRuler interface {
	crossRules(pod *state.Pod, objects Objects) ([]CrossRule, error)
}

// CrossRules are the pod's hard rules about pods on other nodes, as far as the profile
// enforces them; rules that can reject nothing are left out. An error is one that makes
// Evaluate fail as well.
func (p *Profile) CrossRules(pod *state.Pod, objects Objects) ([]CrossRule, error) {
	var rules []CrossRule
	for _, r := range p.rules {
		cross, ok := r.plugin.(crossRuler)
		if !ok || !r.points.has(Filtering) {
			continue
		}
		more, err := cross.crossRules(pod, orNoObjects(objects))
		if err != nil {
			return nil, err
		}
		rules = append(rules, more...)
	}
	return rules, nil
}

func (p topologySpread) crossRules(pod *state.Pod, objects Objects) ([]CrossRule, error) {
	hard, err := p.constraints(pod, objects, corev1.DoNotSchedule)
	if err != nil {
		return nil, err
	}
	var rules []CrossRule
	for _, c := range hard {
		// No requirements count no pods (spread.count), and neither does a selector of nothing.
		if requirements, selects := c.selector.Requirements(); !selects || len(requirements) == 0 {
			continue
		}
		rules = append(rules, CrossRule{Kind: CrossSpread, TopologyKey: c.key, Terms: []state.AffinityTerm{{
			TopologyKey: c.key, Selector: c.selector,
			Namespaces: []string{pod.Namespace}, NamespaceSelector: labels.Nothing(),
		}}})
	}
	return rules, nil
}

func (podAffinity) crossRules(pod *state.Pod, _ Objects) ([]CrossRule, error) {
	own := pod.Terms
	if own == nil || own.Err != nil { // a pod whose terms cannot be parsed is rejected
		return nil, nil
	}
	var rules []CrossRule
	for i, t := range own.RequiredAntiAffinity {
		if _, selects := t.Selector.Requirements(); selects {
			rules = append(rules, CrossRule{
				Kind: CrossApart, TopologyKey: t.TopologyKey, Terms: own.RequiredAntiAffinity[i : i+1 : i+1],
			})
		}
	}
	if len(own.RequiredAffinity) > 0 {
		rules = append(rules, CrossRule{Kind: CrossTogether, Terms: own.RequiredAffinity})
	}
	return rules, nil
}
