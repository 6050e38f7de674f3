package descheduling

import "k8s.io/apimachinery/pkg/labels"

// sizes counts the pods in each domain of a rule while a plan changes them.
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

// evener reports whether a move to a node makes the two domains more equal than they are.
func (p *pass) evener(m move) func(string) bool {
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

// settle counts a pod where it lands, for all rules that count it.
func (p *pass) settle(rules []*spreadRule, pod *Pod, landing string) {
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
