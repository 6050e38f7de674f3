package descheduling

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/berth-scheduler/berth/pkg/descheduling/policy"
	"github.com/berth-scheduler/berth/pkg/state"
)

// spreadRule is one topology spread constraint of some pods of a namespace, with the properties of those pods that
// determine which nodes count.
type spreadRule struct {
	maxSkew  int
	key      string
	selector labels.Selector
	heeds    *heeded
	// sizes counts the pods in each domain after the moves accepted so far.
	sizes *sizes
}

// heeded holds the properties of its pods that a rule reads.
type heeded struct {
	// required and tolerations are nil when the rule ignores them.
	required    *nodeaffinity.RequiredNodeAffinity
	tolerations *[]corev1.Toleration
	// terms is the number of terms of required, plus 1; it measures the cost of a match.
	terms int
	// included reports for each selected node, by its position, whether it counts; built when first needed.
	included []bool
}

// ruleID is equal for equal rules of a namespace.
type ruleID struct {
	maxSkew       int
	key, selector string
	everything    bool
	heeds         *heeded
}

// domain is one value of a rule's key with the pods there that the rule counts.
type domain struct {
	value string
	pods  []*Pod
}

// move is a pod that a rule would move.
type move struct {
	pod    *Pod
	rule   *spreadRule
	reason string
}

// topologySpread implements RemovePodsViolatingTopologySpreadConstraint. Only pods that could be evicted are
// counted, and only their constraints are evaluated. Every constraint is balanced separately.
func (p *pass) topologySpread(args *policy.TopologySpread) {
	namespaces := map[string]*spreadNamespace{}
	at := 0
	for _, n := range p.view.looked {
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
	p.saySpread(namespaces, args)
	var moves []move
	chosen := map[*Pod]bool{}
	for _, name := range slices.Sorted(maps.Keys(namespaces)) {
		ns := namespaces[name]
		for _, rule := range ns.rules {
			if ns.account.left < 0 {
				break
			}
			fresh := slices.DeleteFunc(p.balance(args, rule, ns), func(m move) bool { return chosen[m.pod] })
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
		verdict, landing := p.propose(Candidate{Pod: m.pod, Reason: m.reason, Better: p.evener(m)})
		switch verdict {
		case Accepted:
			p.settle(namespaces[m.pod.Namespace].rules, m.pod, landing)
		case NodeDone:
			full[m.pod.Node] = true
		case Done:
			return
		}
	}
}

// spreadNamespace holds the pods of a namespace that count, and their distinct rules.
type spreadNamespace struct {
	view    *View
	account *account
	kinds   map[*state.Kind][]*Pod
	// order is the position of each pod in the whole view.
	order map[*Pod]int
	rules []*spreadRule
	known map[ruleID]bool
	// heeded holds the properties that rules read, by one string that identifies them.
	heeded map[string]*heeded
	seen   map[*corev1.Pod]bool
	// others reports that pods have constraints that the policy does not select; nowhere reports that pods have
	// constraints whose key no node has.
	others, nowhere bool
}

func newSpreadNamespace(v *View, name string) *spreadNamespace {
	return &spreadNamespace{
		view: v, account: v.account(name), kinds: map[*state.Kind][]*Pod{}, order: map[*Pod]int{},
		known: map[ruleID]bool{}, heeded: map[string]*heeded{}, seen: map[*corev1.Pod]bool{},
	}
}

func (s *spreadNamespace) add(pod *Pod, at int, actions []corev1.UnsatisfiableConstraintAction) {
	s.kinds[pod.Kind] = append(s.kinds[pod.Kind], pod)
	s.order[pod] = at
	if s.seen[pod.Template] {
		return
	}
	s.seen[pod.Template] = true
	for i := range pod.spec().TopologySpreadConstraints {
		c := &pod.spec().TopologySpreadConstraints[i]
		switch {
		case !slices.Contains(actions, c.WhenUnsatisfiable):
			s.others = true
		case len(s.view.keyOf(c.TopologyKey).nodes) == 0:
			s.nowhere = true
		case s.account.spend(newRuleCost):
			s.addRule(c, pod.Template)
		}
	}
}

const (
	// newRuleCost is the cost of parsing a constraint, in looks.
	newRuleCost = 64
	// movedCost is the cost of sorting a pod of a domain that is too large, or of picking it.
	movedCost = 16
)

// addRule parses a constraint; one whose selector cannot be parsed is left out. minDomains is ignored.
func (s *spreadNamespace) addRule(c *corev1.TopologySpreadConstraint, pod *corev1.Pod) {
	selector, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
	if err != nil {
		return
	}
	own := labels.Set{}
	for _, key := range c.MatchLabelKeys {
		if value, has := pod.Labels[key]; has {
			own[key] = value
		}
	}
	if requirements, selectable := selector.Requirements(); selectable && len(own) > 0 {
		selector = labels.SelectorFromSet(own).Add(requirements...)
	}
	rule := &spreadRule{maxSkew: int(c.MaxSkew), key: c.TopologyKey, selector: selector, heeds: s.heededBy(c, pod)}
	_, everything := selector.Requirements()
	id := ruleID{rule.maxSkew, rule.key, selector.String(), everything, rule.heeds}
	if !s.known[id] {
		s.known[id] = true
		s.rules = append(s.rules, rule)
	}
}

// heededBy returns the properties that a constraint reads; constraints that read equal properties share them.
func (s *spreadNamespace) heededBy(c *corev1.TopologySpreadConstraint, pod *corev1.Pod) *heeded {
	h, only := &heeded{terms: 1}, corev1.PodSpec{}
	if policyOf(c.NodeAffinityPolicy, corev1.NodeInclusionPolicyHonor) {
		required := nodeaffinity.GetRequiredNodeAffinity(pod)
		h.required = &required
		only.NodeSelector, only.Affinity = pod.Spec.NodeSelector, pod.Spec.Affinity
	}
	if policyOf(c.NodeTaintsPolicy, corev1.NodeInclusionPolicyIgnore) {
		h.tolerations = &pod.Spec.Tolerations
		only.Tolerations = pod.Spec.Tolerations
	}
	identity := fmt.Sprint(h.required != nil, h.tolerations != nil, placementKey(&only))
	if known := s.heeded[identity]; known != nil {
		return known
	}
	if h.required != nil && hasRequired(&only) {
		h.terms += len(only.NodeSelector)
		if only.Affinity != nil && only.Affinity.NodeAffinity != nil {
			if of := only.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution; of != nil {
				h.terms += len(of.NodeSelectorTerms)
			}
		}
	}
	s.heeded[identity] = h
	return h
}

// policyOf reports whether an inclusion policy, or its default, is Honor.
func policyOf(p *corev1.NodeInclusionPolicy, otherwise corev1.NodeInclusionPolicy) bool {
	if p != nil {
		otherwise = *p
	}
	return otherwise == corev1.NodeInclusionPolicyHonor
}

// includes reports whether a selected node forms a domain of the rule even without pods.
func (s *spreadRule) includes(n *Node, nodes []*Node) bool {
	h := s.heeds
	if h.included == nil {
		h.included = make([]bool, len(nodes))
		for i, n := range nodes {
			h.included[i] = h.includes(n)
		}
	}
	return h.included[n.at]
}

// includes reports whether a node counts. Requirements that cannot be parsed match no node.
func (h *heeded) includes(n *Node) bool {
	if h.required != nil {
		if match, err := h.required.Match(n.Object); err != nil || !match {
			return false
		}
	}
	return h.tolerations == nil || tolerates(*h.tolerations, n.Object.Spec.Taints, func(t *corev1.Taint) bool {
		return t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute
	})
}

// domains lists the rule's domains, small ones first, then by value. Domains of nodes that the rule does not
// include are listed only if they have pods. None are listed if none can be too large, or if the namespace has used
// up its share of the run.
func (p *pass) domains(rule *spreadRule, ns *spreadNamespace) []domain {
	byValue, total, most := p.populated(rule, ns)
	if most <= rule.maxSkew {
		return nil
	}
	nodes, cost := p.view.keyOf(rule.key).nodes, movedCost*total
	if rule.heeds.included == nil {
		cost += len(p.view.looked) * rule.heeds.terms
	}
	if !ns.account.spend(cost + 2*len(nodes)) {
		return nil
	}
	for _, n := range nodes {
		if value := n.Object.Labels[rule.key]; rule.includes(n, p.view.looked) && byValue[value] == nil {
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

// populated returns the pods that a rule counts, by the value of its key, their number, and the number in the
// largest domain.
func (p *pass) populated(rule *spreadRule, ns *spreadNamespace) (byValue map[string][]*Pod, total, most int) {
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
	return cmp.Or(-compareBool(picky(a), picky(b)), compareBool(oka, okb), cmp.Compare(pa, pb))
}

func picky(p *Pod) bool {
	a := p.spec().Affinity
	return p.spec().NodeSelector != nil || a != nil && a.NodeAffinity != nil
}

// balance picks the pods that one rule would move, with upstream's two pointers: from the largest domain to the
// smallest, half of their difference beyond maxSkew at a time, and never past the mean.
func (p *pass) balance(args *policy.TopologySpread, rule *spreadRule, ns *spreadNamespace) []move {
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
	b.wanting = &nodeList{p.wanting(rule, all, b.mean)}
	var moves []move
	homeless := len(all) // the domain whose homeless pods were last put first
	for i, j := 0, len(all)-1; i < j && ns.account.left >= 0; {
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
			b.homelessFirst(high)
			homeless = j
		}
		ns.account.spend(n * movedCost)
		taken := high[len(high)-n:]
		for _, pod := range taken {
			if !args.NodeFit || b.fits(pod) {
				moves = append(moves, move{pod, rule, fmt.Sprintf("%s %q has %d more pods than %q, at most %d are allowed",
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
	// wanting holds the nodes of domains that were below the mean at first.
	wanting *nodeList
	// fitting caches the result for pods with anti-affinity, which differs for each pod.
	fitting map[*Pod]bool
}

func (b *balancer) fits(pod *Pod) bool {
	if !pod.Kind.RequiredAntiAffinity {
		return b.view.fitsOther(pod, b.wanting)
	}
	fit, known := b.fitting[pod]
	if !known {
		fit = b.view.fitsOther(pod, b.wanting)
		if b.fitting == nil {
			b.fitting = map[*Pod]bool{}
		}
		b.fitting[pod] = fit
	}
	return fit
}

// homelessFirst puts the pods that fit nowhere first, and otherwise keeps the order.
func (b *balancer) homelessFirst(pods []*Pod) {
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

// wanting lists the nodes that the rule includes in domains below the mean, by domain.
func (p *pass) wanting(rule *spreadRule, all []domain, mean float64) []*Node {
	below := map[string][]*Node{}
	for _, d := range all {
		if float64(len(d.pods)) < mean {
			below[d.value] = nil
		}
	}
	for _, n := range p.view.keyOf(rule.key).nodes {
		value := n.Object.Labels[rule.key]
		if _, wants := below[value]; wants && rule.includes(n, p.view.looked) {
			below[value] = append(below[value], n)
		}
	}
	var nodes []*Node
	for _, d := range all {
		nodes = append(nodes, below[d.value]...)
	}
	return nodes
}
