package descheduling

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/pkg/descheduling/policy"
)

// spreadMove is a pod that a rule would move.
type spreadMove struct {
	pod    *Pod
	rule   *spreadRule
	reason string
}

// topologySpread implements RemovePodsViolatingTopologySpreadConstraint. Only pods that could be evicted are
// counted, and only their constraints are evaluated. Every constraint is balanced separately.
//
// It first collects the pods and distinct rules of each namespace, then picks the moves of all rules, namespaces by
// name, and only then offers them. A pod moves once, for the first rule that picks it. Before a move is offered,
// its domain is counted again: moves of other rules may have been enough. Accepted moves change the counts of all
// rules of the namespace.
func (p *pass) topologySpread(args *policy.TopologySpread) {
	namespaces := map[string]*spreadNamespace{}
	at := 0
	for _, n := range p.view.selected {
		for _, pod := range n.Pods {
			if pod.Terminal || !args.Has(pod.Namespace, pod.Template.Labels) || p.protects(pod) {
				continue
			}
			if namespaces[pod.Namespace] == nil {
				namespaces[pod.Namespace] = newSpreadNamespace(p.view, pod.Namespace)
			}
			namespaces[pod.Namespace].add(pod, at, args.Constraints)
			at++
		}
	}
	p.noteConstraints(namespaces, args)
	var moves []spreadMove
	chosen := map[*Pod]bool{}
	for _, name := range slices.Sorted(maps.Keys(namespaces)) {
		ns := namespaces[name]
		for _, rule := range ns.rules {
			if ns.account.remaining < 0 {
				break
			}
			fresh := slices.DeleteFunc(p.balance(args, rule, ns), func(m spreadMove) bool { return chosen[m.pod] })
			for _, m := range fresh {
				chosen[m.pod] = true
			}
			moves = append(moves, fresh...)
		}
	}
	full := map[*Node]bool{}
	for _, m := range moves {
		if full[m.pod.Node] {
			continue
		}
		if !p.Upstream && !m.rule.skewed(m.pod.Node) {
			continue // the moves of other rules were enough
		}
		verdict, landing := p.propose(Candidate{Pod: m.pod, Reason: m.reason, Better: p.evensOut(m)})
		switch verdict {
		case Accepted:
			p.recordMove(namespaces[m.pod.Namespace].rules, m.pod, landing)
		case NodeDone:
			full[m.pod.Node] = true
		case Done:
			return
		}
	}
}

// domains lists the rule's domains, small ones first, then by value. Domains of nodes that the rule does not
// include are listed only if they have pods. None are listed if none can be too large, or if the namespace has used
// up its share of the run.
func (p *pass) domains(rule *spreadRule, ns *spreadNamespace) []domain {
	byValue, total, most := p.podsByDomain(rule, ns)
	if most <= rule.maxSkew {
		return nil
	}
	nodes, cost := p.view.budget.nodesWith(rule.key).nodes, movedCost*total
	if rule.inclusion.included == nil {
		cost += len(p.view.selected) * rule.inclusion.terms
	}
	if !ns.account.spend(cost + 2*len(nodes)) {
		return nil
	}
	for _, n := range nodes {
		if value := n.Object.Labels[rule.key]; rule.includes(n, p.view.selected) && byValue[value] == nil {
			byValue[value] = nil
		}
	}
	all := make([]domain, 0, len(byValue))
	for value, pods := range byValue {
		slices.SortFunc(pods, func(a, b *Pod) int {
			return cmp.Or(compareForSpread(a, b), cmp.Compare(ns.order[a], ns.order[b]))
		})
		all = append(all, domain{value, pods})
	}
	slices.SortFunc(all, func(a, b domain) int {
		return cmp.Or(cmp.Compare(len(a.pods), len(b.pods)), cmp.Compare(a.value, b.value))
	})
	return all
}

// podsByDomain returns the pods that a rule counts, by the value of its key, their number, and the number in the
// largest domain.
func (p *pass) podsByDomain(rule *spreadRule, ns *spreadNamespace) (byValue map[string][]*Pod, total, most int) {
	if !ns.account.spend(len(ns.kinds) * costOf(rule.selector)) {
		return nil, 0, 0
	}
	byValue = map[string][]*Pod{}
	for kind, pods := range ns.kinds {
		if kind.Deleting || !rule.selector.Matches(labels.Set(kind.Labels)) {
			continue
		}
		if !ns.account.spend(len(pods)) {
			return nil, 0, 0
		}
		total += len(pods)
		for _, pod := range pods {
			if value, ok := pod.Node.Object.Labels[rule.key]; ok {
				byValue[value] = append(byValue[value], pod)
				most = max(most, len(byValue[value]))
			}
		}
	}
	return byValue, total, most
}

// compareForSpread orders pods of a domain; the last are evicted first. Upstream documents the opposite for
// priorities but fixes this order in its tests: pods of high priority are evicted first.
func compareForSpread(a, b *Pod) int {
	pa, oka := a.priority()
	pb, okb := b.priority()
	return cmp.Or(-compareBool(constrained(a), constrained(b)), compareBool(oka, okb), cmp.Compare(pa, pb))
}

// constrained reports whether the pod's spec restricts its nodes; such pods are moved last.
func constrained(p *Pod) bool {
	a := p.spec().Affinity
	return p.spec().NodeSelector != nil || a != nil && a.NodeAffinity != nil
}

// balance picks the pods that one rule would move, with upstream's two pointers: from the largest domain to the
// smallest, half of their difference beyond maxSkew at a time, and never past the mean.
func (p *pass) balance(args *policy.TopologySpread, rule *spreadRule, ns *spreadNamespace) []spreadMove {
	all := p.domains(rule, ns)
	if len(all) == 0 || len(all[len(all)-1].pods)-len(all[0].pods) <= rule.maxSkew {
		return nil
	}
	total := 0
	rule.sizes = newSizes(all)
	for _, d := range all {
		total += len(d.pods)
	}
	b := balancer{view: p.view, mean: float64(total) / float64(len(all))}
	b.targets = &nodeList{p.belowMean(rule, all, b.mean)}
	var moves []spreadMove
	homeless := len(all) // the domain whose homeless pods were last put first
	for i, j := 0, len(all)-1; i < j && ns.account.remaining >= 0; {
		if float64(len(all[j].pods)) <= b.mean {
			j--
		}
		skew := len(all[j].pods) - len(all[i].pods)
		n := b.step(skew, rule.maxSkew, len(all[j].pods), len(all[i].pods))
		if n <= 0 {
			i++
			continue
		}
		high := all[j].pods
		if j < homeless {
			b.unplaceableFirst(high)
			homeless = j
		}
		ns.account.spend(n * movedCost)
		taken := high[len(high)-n:]
		for _, pod := range taken {
			if !args.NodeFit || b.fits(pod) {
				moves = append(moves, spreadMove{pod, rule, fmt.Sprintf("%s %q has %d more pods than %q, at most %d are allowed",
					rule.key, all[j].value, skew, all[i].value, rule.maxSkew)})
			}
		}
		// A pod that fits nowhere also counts as moved: otherwise the loop would not end.
		all[j].pods = high[:len(high)-n]
		all[i].pods = append(all[i].pods, taken...)
	}
	return moves
}

// balancer holds what does not change while one rule is balanced.
type balancer struct {
	view *View
	mean float64
	// targets holds the nodes of domains that were below the mean at first.
	targets *nodeList
	// fitByPod caches the result for pods with anti-affinity, which differs for each pod.
	fitByPod map[*Pod]bool
}

func (b *balancer) fits(pod *Pod) bool {
	if !pod.Kind.RequiredAntiAffinity {
		return b.view.fitsOther(pod, b.targets)
	}
	fit, known := b.fitByPod[pod]
	if !known {
		fit = b.view.fitsOther(pod, b.targets)
		if b.fitByPod == nil {
			b.fitByPod = map[*Pod]bool{}
		}
		b.fitByPod[pod] = fit
	}
	return fit
}

// unplaceableFirst puts the pods that fit nowhere first, and otherwise keeps the order.
func (b *balancer) unplaceableFirst(pods []*Pod) {
	var fitting []*Pod
	kept := pods[:0]
	for _, pod := range pods {
		if b.fits(pod) {
			fitting = append(fitting, pod)
		} else {
			kept = append(kept, pod)
		}
	}
	copy(pods[len(kept):], fitting)
}

// step returns how many pods to move from a domain of size high to one of size low; 0 or less means none.
func (b *balancer) step(skew, maxSkew, high, low int) int {
	if skew <= maxSkew {
		return 0
	}
	above, below := math.Ceil(float64(high)-b.mean), math.Ceil(b.mean-float64(low))
	half := math.Ceil(float64(skew-maxSkew) / 2)
	return int(min(above, below, half))
}

// belowMean lists the nodes that the rule includes in domains below the mean, by domain: a moved pod must fit on
// one of them.
func (p *pass) belowMean(rule *spreadRule, all []domain, mean float64) []*Node {
	below := map[string][]*Node{}
	for _, d := range all {
		if float64(len(d.pods)) < mean {
			below[d.value] = nil
		}
	}
	for _, n := range p.view.budget.nodesWith(rule.key).nodes {
		value := n.Object.Labels[rule.key]
		if _, wants := below[value]; wants && rule.includes(n, p.view.selected) {
			below[value] = append(below[value], n)
		}
	}
	var nodes []*Node
	for _, d := range all {
		nodes = append(nodes, below[d.value]...)
	}
	return nodes
}

// noteConstraints reports on the constraints of the pods, if there are none to evaluate.
func (p *pass) noteConstraints(namespaces map[string]*spreadNamespace, args *policy.TopologySpread) {
	rules := 0
	others := false
	nowhere := false
	for _, ns := range namespaces {
		rules += len(ns.rules)
		others, nowhere = others || ns.others, nowhere || ns.nowhere
	}
	switch {
	case rules == 0 && others:
		p.note("no pod considered has a constraint of %v, which `constraints` of the policy requires; some have others",
			args.Constraints)
	case rules == 0 && nowhere:
		p.note("no node has the topology labels of the constraints")
	case rules == 0:
		p.note("no pod considered has a topology spread constraint")
	}
}

// evensOut reports whether a move to a node makes the two domains more equal than they are.
func (p *pass) evensOut(m spreadMove) func(string) bool {
	from := m.pod.Node.Object.Labels[m.rule.key]
	return func(node string) bool {
		to := p.view.byName[node]
		if to == nil {
			return false
		}
		size, known := m.rule.sizes.of[to.Object.Labels[m.rule.key]]
		return known && size+1 < m.rule.sizes.of[from]
	}
}

// recordMove counts a pod where it lands, for all rules that count it.
func (p *pass) recordMove(rules []*spreadRule, pod *Pod, landing string) {
	to := p.view.byName[landing]
	if to == nil {
		return
	}
	for _, rule := range rules {
		if rule.sizes == nil || !rule.selector.Matches(labels.Set(pod.Template.Labels)) {
			continue
		}
		rule.sizes.add(pod.Node.Object.Labels[rule.key], -1)
		rule.sizes.add(to.Object.Labels[rule.key], 1)
	}
}
