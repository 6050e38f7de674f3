package placement

import (
	"k8s.io/apimachinery/pkg/labels"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/state"
)

// CrossRule is one hard rule of a pod whose result depends on pods on other nodes. A caller that decides
// concurrently with others must make sure that the result still holds when the decision is carried out
// (pkg/ledger/guard).
type CrossRule struct {
	Kind CrossKind
	// TopologyKey is the node label whose values are the rule's domains. It is empty for CrossTogether, whose terms
	// have one each.
	TopologyKey string
	// Terms select the pods that the rule counts: those that match all terms. Only CrossTogether has more than one.
	Terms []state.AffinityTerm
}

// CrossKind is the requirement that a CrossRule expresses.
type CrossKind uint8

const (
	// CrossApart is required anti-affinity, with one term.
	CrossApart CrossKind = iota + 1
	// CrossSpread is a hard spread constraint, the pod's own or a default one.
	CrossSpread
	// CrossTogether is all required affinity terms of the pod.
	CrossTogether
)

// crossRuler is a plugin with hard rules about pods on other nodes.
type crossRuler interface {
	crossRules(pod *state.Pod, objects Objects) ([]CrossRule, error)
}

// CrossRules returns the pod's hard rules about pods on other nodes that the profile enforces; rules that can
// reject nothing are left out. An error also makes Evaluate fail.
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
		// A selector without requirements counts no pods (spread.count), and neither does one that selects nothing.
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
