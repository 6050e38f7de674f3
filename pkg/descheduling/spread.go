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

// spreadRule is one topology spread constraint of some pods of a namespace, with what of
// those pods decides which nodes count.
type spreadRule struct {
	maxSkew  int
	key      string
	selector labels.Selector
	// required and tolerations are nil when the rule ignores them.
	required    *nodeaffinity.RequiredNodeAffinity
	tolerations *[]corev1.Toleration
	// identity is equal for equal rules.
	identity string
	// sizes are the pods in each domain, as the moves accepted so far leave them.
	sizes *sizes
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

// topologySpread is RemovePodsViolatingTopologySpreadConstraint. Only pods that could be
// evicted are counted, and only their constraints are looked at. Every constraint is
// balanced on its own.
func (p *pass) topologySpread(args *policy.TopologySpread) {
	namespaces := map[string]*spreadNamespace{}
	at := 0
	for _, n := range p.view.looked {
		for _, pod := range n.Pods {
			if pod.Terminal || !args.Has(pod.Namespace, pod.Template.Labels) || p.protects(pod) {
				continue
			}
			if namespaces[pod.Namespace] == nil {
				namespaces[pod.Namespace] = newSpreadNamespace()
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
			continue // what other rules moved was enough
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

// spreadNamespace are the pods of a namespace that count, and their rules, each once.
type spreadNamespace struct {
	kinds map[*state.Kind][]*Pod
	// order is the place of each pod in the whole picture.
	order map[*Pod]int
	rules []*spreadRule
	known map[string]bool
	seen  map[*corev1.Pod]bool
	// others: there are pods with constraints that the policy does not look at.
	others bool
}

func newSpreadNamespace() *spreadNamespace {
	return &spreadNamespace{
		kinds: map[*state.Kind][]*Pod{}, order: map[*Pod]int{}, known: map[string]bool{}, seen: map[*corev1.Pod]bool{},
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
		if !slices.Contains(actions, c.WhenUnsatisfiable) {
			s.others = true
			continue
		}
		if rule, ok := newSpreadRule(c, pod.Template); ok && !s.known[rule.identity] {
			s.known[rule.identity] = true
			s.rules = append(s.rules, rule)
		}
	}
}

// newSpreadRule reads a constraint; ok is false when its selector cannot be read.
// minDomains is not looked at.
func newSpreadRule(c *corev1.TopologySpreadConstraint, pod *corev1.Pod) (rule *spreadRule, ok bool) {
	selector, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
	if err != nil {
		return nil, false
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
	rule = &spreadRule{maxSkew: int(c.MaxSkew), key: c.TopologyKey, selector: selector}
	heeded := corev1.PodSpec{}
	if policyOf(c.NodeAffinityPolicy, corev1.NodeInclusionPolicyHonor) {
		required := nodeaffinity.GetRequiredNodeAffinity(pod)
		rule.required = &required
		heeded.NodeSelector, heeded.Affinity = pod.Spec.NodeSelector, pod.Spec.Affinity
	}
	if policyOf(c.NodeTaintsPolicy, corev1.NodeInclusionPolicyIgnore) {
		rule.tolerations = &pod.Spec.Tolerations
		heeded.Tolerations = pod.Spec.Tolerations
	}
	_, everything := selector.Requirements()
	rule.identity = fmt.Sprint(rule.maxSkew, rule.key, everything, selector, rule.required != nil,
		rule.tolerations != nil, placementKey(&heeded))
	return rule, true
}

// policyOf reports whether an inclusion policy, or what stands for none, is Honor.
func policyOf(p *corev1.NodeInclusionPolicy, otherwise corev1.NodeInclusionPolicy) bool {
	if p != nil {
		otherwise = *p
	}
	return otherwise == corev1.NodeInclusionPolicyHonor
}

// includes reports whether a node without pods counts as a place of the rule. Wishes that
// cannot be read match nothing.
func (s *spreadRule) includes(n *Node) bool {
	if s.required != nil {
		if match, err := s.required.Match(n.Object); err != nil || !match {
			return false
		}
	}
	return s.tolerations == nil || tolerates(*s.tolerations, n.Object.Spec.Taints, func(t *corev1.Taint) bool {
		return t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute
	})
}

// domains lists the rule's domains, small ones first, then by value. Those of nodes that the
// rule does not include are there only if pods are.
func (p *pass) domains(rule *spreadRule, ns *spreadNamespace) []domain {
	byValue := map[string][]*Pod{}
	for _, n := range p.view.looked {
		if value, ok := n.Object.Labels[rule.key]; ok && rule.includes(n) {
			byValue[value] = nil
		}
	}
	for kind, pods := range ns.kinds {
		if kind.Deleting || !rule.selector.Matches(labels.Set(kind.Labels)) {
			continue
		}
		for _, pod := range pods {
			if value, ok := pod.Node.Object.Labels[rule.key]; ok {
				byValue[value] = append(byValue[value], pod)
			}
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

// compareForSpread orders pods of a domain; the last go first. Upstream documents the
// opposite for priorities and pins this in its tests: pods of high priority go first.
func compareForSpread(a, b *Pod) int {
	pa, oka := a.priority()
	pb, okb := b.priority()
	return cmp.Or(-compareBool(picky(a), picky(b)), compareBool(oka, okb), cmp.Compare(pa, pb))
}

func picky(p *Pod) bool {
	a := p.spec().Affinity
	return p.spec().NodeSelector != nil || a != nil && a.NodeAffinity != nil
}

// balance picks the pods that one rule would move, by upstream's two pointers: from the
// largest domain to the smallest, half of what they differ beyond maxSkew at a time, and
// never past the mean.
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
	for i, j := 0, len(all)-1; i < j; {
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
		b.homelessFirst(high)
		taken := high[len(high)-n:]
		for _, pod := range taken {
			if !args.NodeFit || b.fits(pod) {
				moves = append(moves, move{pod, rule, fmt.Sprintf("%s %q has %d more pods than %q, at most %d are allowed",
					rule.key, all[j].value, skew, all[i].value, rule.maxSkew)})
			}
		}
		// A pod that fits nowhere counts as moved, too: otherwise there would be no end.
		all[j].pods = high[:len(high)-n]
		all[i].pods = append(all[i].pods, taken...)
	}
	return moves
}

// balancer holds what does not change while one rule is balanced.
type balancer struct {
	view *View
	mean float64
	// wanting are the nodes of domains that were below the mean at first.
	wanting *nodeList
	// fitting remembers the answer about pods with anti-affinity, which is each one's own.
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

// homelessFirst puts the pods that fit nowhere first, and else keeps the order.
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

// step is how many pods go from a domain of size high to one of size low; 0 or less is none.
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
	for _, n := range p.view.looked {
		value, ok := n.Object.Labels[rule.key]
		if _, wants := below[value]; ok && wants && rule.includes(n) {
			below[value] = append(below[value], n)
		}
	}
	var nodes []*Node
	for _, d := range all {
		nodes = append(nodes, below[d.value]...)
	}
	return nodes
}
