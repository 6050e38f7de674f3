package spread

import (
	"math"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Filter rejects nodes whose domain would exceed the domain with the fewest pods by too many. Before Survey it
// holds the constraints, and after it the counts of one state of the cluster. Source:
// plugins/podtopologyspread/filtering.go.
type Filter struct {
	Spread
	// Surveys has one entry per constraint.
	Surveys []Survey
}

// Survey holds the counts of one constraint.
type Survey struct {
	// pods is the number of pods per domain. Only nodes that have the keys of all constraints, and that this
	// constraint includes, form a domain.
	pods map[string]int
	// fewest is the reference for the skew: the minimum over all domains, or 0 while there are fewer than
	// minDomains.
	fewest int
	// self is 1 if the pod itself will count.
	self int
	// unsure is the number of pods, in all domains together, that may or may not count.
	unsure int
	// domains is the number of domains by their number of pods; it is built on the first recount.
	domains map[int]int
}

// Survey implements ClusterFilter: it counts the pods of all nodes, one pass for all constraints.
func (f *Filter) Survey(all []*state.NodeInfo) rule.Filter {
	surveyed := &Filter{Spread: f.Spread, Surveys: make([]Survey, len(f.Constraints))}
	for i := range surveyed.Surveys {
		surveyed.Surveys[i].pods = map[string]int{}
	}
	for _, n := range all {
		// Pods that may or may not count lower the minimum wherever they are, so that nodes without the keys
		// matter too.
		surveyed.countUnsure(n)
		nodeLabels := n.Node.Object.Labels
		if !HasKeys(nodeLabels, f.Constraints) {
			continue
		}
		for i := range f.Constraints {
			if c := &f.Constraints[i]; f.Includes(c, n.Node) {
				surveyed.Surveys[i].pods[nodeLabels[c.Key]] += f.count(c, n)
			}
		}
	}
	for i := range f.Constraints {
		surveyed.Surveys[i].conclude(&f.Constraints[i], f.Pod.Template.Labels)
	}
	return surveyed
}

// countUnsure counts the pods of a node that may or may not count, because some of their labels were cut.
func (f *Filter) countUnsure(n *state.NodeInfo) {
	for p := range n.Pods() {
		for i := range f.Constraints {
			if f.unsure(&f.Constraints[i], p) {
				f.Surveys[i].unsure++
			}
		}
	}
}

// LeastOf returns the number of pods that every domain has for certain, given the number of pods that may or may
// not count.
func LeastOf(fewest, unsure int64) int64 { return max(0, fewest-unsure) }

// Over returns by how many pods a domain would exceed the allowed skew if the pod were placed there; 0 or less if
// it may be placed. Preemption evicts that many pods of the domain.
func (s *Survey) Over(c *Constraint, domain string) int {
	return s.pods[domain] + s.self - int(LeastOf(int64(s.fewest), int64(s.unsure))) - c.MaxSkew
}

// conclude determines the smallest domain and whether the pod itself counts, when all nodes have been counted.
func (s *Survey) conclude(c *Constraint, podLabels map[string]string) {
	if len(s.pods) >= c.MinDomains {
		s.fewest = math.MaxInt32
		for _, count := range s.pods {
			s.fewest = min(s.fewest, count)
		}
	}
	if c.Selector.Matches(labels.Set(podLabels)) {
		s.self = 1
	}
}

// Recount counts again when a pod is removed (-1) or put back (1).
func (f *Filter) Recount(n *state.Node, pod *state.Pod, by int) {
	for i := range f.Constraints {
		if f.unsure(&f.Constraints[i], pod) {
			f.Surveys[i].unsure += by
		}
	}
	if !HasKeys(n.Object.Labels, f.Constraints) {
		return
	}
	for i := range f.Constraints {
		if c := &f.Constraints[i]; f.Counts(c, pod) && f.Includes(c, n) {
			f.Surveys[i].move(n.Object.Labels[c.Key], by, c.MinDomains)
		}
	}
}

// move adds one pod to a domain, or removes one. The minimum over all domains then changes by at most one: it
// falls with the domain that falls below it, and rises if the last domain at the minimum rises.
func (s *Survey) move(domain string, by, minDomains int) {
	if s.domains == nil {
		s.domains = map[int]int{}
		for _, count := range s.pods {
			s.domains[count]++
		}
	}
	before := s.pods[domain]
	s.pods[domain] += by
	s.domains[before]--
	s.domains[before+by]++
	switch {
	case len(s.pods) < minDomains:
	case before+by < s.fewest:
		s.fewest = before + by
	case before == s.fewest && s.domains[before] == 0:
		s.fewest += by
	}
}

// Check implements Filter. A node without a key is unresolvable, whatever the other constraints say.
func (f *Filter) Check(n *state.NodeInfo) rule.Code {
	for i := range f.Surveys {
		c, s := &f.Constraints[i], &f.Surveys[i]
		value, ok := n.Node.Object.Labels[c.Key]
		if !ok {
			return rule.UnschedulableAndUnresolvable
		}
		if s.Over(c, value) > 0 {
			return rule.Unschedulable
		}
	}
	return rule.Success
}

// Explain implements Filter.
func (f *Filter) Explain(n *state.NodeInfo) []string {
	if f.Check(n) == rule.UnschedulableAndUnresolvable {
		return []string{Reasons[LacksKey]}
	}
	return []string{Reasons[OverSkew]}
}

// The reasons why a node fails.
const (
	OverSkew uint8 = iota
	LacksKey
)

// Reasons are the reasons of the filter, in the order of their numbers.
var Reasons = []string{
	OverSkew: "node(s) didn't match pod topology spread constraints",
	LacksKey: "node(s) didn't match pod topology spread constraints (missing required label)",
}
