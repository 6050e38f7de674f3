package descheduling

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/berth-scheduler/berth/pkg/state"
)

// spreadRule is one topology spread constraint of some pods of a namespace, with the properties of those pods that
// determine which nodes count.
type spreadRule struct {
	maxSkew   int
	key       string
	selector  labels.Selector
	inclusion *inclusion
	// sizes counts the pods in each domain after the moves accepted so far.
	sizes *sizes
}

// inclusion holds the properties of its pods that decide which nodes a rule counts: nodeAffinityPolicy and
// nodeTaintsPolicy of KEP-3094. Rules of a namespace share it where the properties are equal.
type inclusion struct {
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
	inclusion     *inclusion
}

// domain is one value of a rule's key with the pods there that the rule counts.
type domain struct {
	value string
	pods  []*Pod
}

// spreadNamespace holds the pods of a namespace that count, and their distinct rules. A constraint matches only
// pods of its own namespace, so namespaces are balanced independently.
type spreadNamespace struct {
	view    *View
	account *account
	kinds   map[*state.PodClass][]*Pod
	// order is the position of each pod in the whole view.
	order map[*Pod]int
	rules []*spreadRule
	known map[ruleID]bool
	// inclusions holds the properties that rules read, by one string that identifies them.
	inclusions map[string]*inclusion
	seen       map[*corev1.Pod]bool
	// others reports that pods have constraints that the policy does not select; nowhere reports that pods have
	// constraints whose key no node has.
	others, nowhere bool
}

func newSpreadNamespace(v *View, name string) *spreadNamespace {
	return &spreadNamespace{
		view: v, account: v.budget.account(name), kinds: map[*state.PodClass][]*Pod{}, order: map[*Pod]int{},
		known: map[ruleID]bool{}, inclusions: map[string]*inclusion{}, seen: map[*corev1.Pod]bool{},
	}
}

// add adds a pod, and the constraints of its template when the first pod of that template is added.
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
		case len(s.view.budget.nodesWith(c.TopologyKey).nodes) == 0:
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
	rule := &spreadRule{maxSkew: int(c.MaxSkew), key: c.TopologyKey, selector: selector, inclusion: s.inclusionOf(c, pod)}
	_, everything := selector.Requirements()
	id := ruleID{rule.maxSkew, rule.key, selector.String(), everything, rule.inclusion}
	if !s.known[id] {
		s.known[id] = true
		s.rules = append(s.rules, rule)
	}
}

// inclusionOf returns the properties that a constraint reads; constraints that read equal properties share them.
func (s *spreadNamespace) inclusionOf(c *corev1.TopologySpreadConstraint, pod *corev1.Pod) *inclusion {
	h, only := &inclusion{terms: 1}, corev1.PodSpec{}
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
	if known := s.inclusions[identity]; known != nil {
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
	s.inclusions[identity] = h
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
	h := s.inclusion
	if h.included == nil {
		h.included = make([]bool, len(nodes))
		for i, n := range nodes {
			h.included[i] = h.includes(n)
		}
	}
	return h.included[n.at]
}

// includes reports whether a node counts. Requirements that cannot be parsed match no node.
func (h *inclusion) includes(n *Node) bool {
	if h.required != nil {
		if match, err := h.required.Match(n.Object); err != nil || !match {
			return false
		}
	}
	return h.tolerations == nil || tolerates(*h.tolerations, n.Object.Spec.Taints, func(t *corev1.Taint) bool {
		return t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute
	})
}

// sizes counts the pods in each domain of a rule while moves change them. The number of domains by size is kept
// too, so that the smallest size is known after a move without a look at all domains.
type sizes struct {
	of map[string]int
	// levels is the number of domains by size; no domain is smaller than least.
	levels map[int]int
	least  int
}

// newSizes returns the sizes of domains, of which the first is the smallest.
func newSizes(all []domain) *sizes {
	s := &sizes{of: make(map[string]int, len(all)), levels: map[int]int{}, least: len(all[0].pods)}
	for _, d := range all {
		s.of[d.value] = len(d.pods)
		s.levels[len(d.pods)]++
	}
	return s
}

// add changes the size of a domain; one that the rule does not have is ignored.
func (s *sizes) add(domain string, by int) {
	size, known := s.of[domain]
	if !known {
		return
	}
	s.levels[size]--
	s.levels[size+by]++
	s.of[domain] = size + by
	s.least = min(s.least, size+by)
	for s.levels[s.least] == 0 {
		s.least++
	}
}

// skewed reports whether the node's domain still has too many pods.
func (s *spreadRule) skewed(n *Node) bool {
	return s.sizes.of[n.Object.Labels[s.key]]-s.sizes.least > s.maxSkew
}
