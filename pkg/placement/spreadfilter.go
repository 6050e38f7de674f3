package placement

import (
	"math"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/pkg/state"
)

// spreadFilter rejects nodes whose domain would exceed the domain with the fewest pods by too many. Source:
// plugins/podtopologyspread/filtering.go.
type spreadFilter struct {
	spread
	// surveys has one entry per constraint.
	surveys []spreadSurvey
}

// spreadSurvey holds the counts of one constraint.
type spreadSurvey struct {
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

// Survey implements ClusterFilter.
func (f *spreadFilter) Survey(all []*state.NodeInfo) Filter {
	surveyed := &spreadFilter{spread: f.spread, surveys: make([]spreadSurvey, len(f.constraints))}
	for i := range surveyed.surveys {
		surveyed.surveys[i].pods = map[string]int{}
	}
	for _, n := range all {
		surveyed.countUnsure(n)
		nodeLabels := n.Node.Object.Labels
		if !hasKeys(nodeLabels, f.constraints) {
			continue
		}
		for i := range f.constraints {
			if c := &f.constraints[i]; f.includes(c, n.Node) {
				surveyed.surveys[i].pods[nodeLabels[c.key]] += f.count(c, n)
			}
		}
	}
	for i := range f.constraints {
		surveyed.surveys[i].conclude(&f.constraints[i], f.pod.Template.Labels)
	}
	return surveyed
}

// countUnsure counts the pods of a node that may or may not count.
func (f *spreadFilter) countUnsure(n *state.NodeInfo) {
	for p := range n.Pods() {
		for i := range f.constraints {
			if f.unsure(&f.constraints[i], p) {
				f.surveys[i].unsure++
			}
		}
	}
}

// leastOf returns the number of pods that every domain has for certain, given the number of pods that may or may
// not count.
func leastOf(fewest, unsure int64) int64 { return max(0, fewest-unsure) }

// over returns by how many pods a domain would exceed the allowed skew if the pod were placed there.
func (s *spreadSurvey) over(c *spreadConstraint, domain string) int {
	return s.pods[domain] + s.self - int(leastOf(int64(s.fewest), int64(s.unsure))) - c.maxSkew
}

func (s *spreadSurvey) conclude(c *spreadConstraint, podLabels map[string]string) {
	if len(s.pods) >= c.minDomains {
		s.fewest = math.MaxInt32
		for _, count := range s.pods {
			s.fewest = min(s.fewest, count)
		}
	}
	if c.selector.Matches(labels.Set(podLabels)) {
		s.self = 1
	}
}

// recount implements counter.
func (f *spreadFilter) recount(n *state.Node, pod *state.Pod, by int) {
	for i := range f.constraints {
		if f.unsure(&f.constraints[i], pod) {
			f.surveys[i].unsure += by
		}
	}
	if !hasKeys(n.Object.Labels, f.constraints) {
		return
	}
	for i := range f.constraints {
		if c := &f.constraints[i]; f.counts(c, pod) && f.includes(c, n) {
			f.surveys[i].move(n.Object.Labels[c.key], by, c.minDomains)
		}
	}
}

// move adds one pod to a domain, or removes one. The minimum over all domains then changes by at most one.
func (s *spreadSurvey) move(domain string, by, minDomains int) {
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

// Check implements Filter.
func (f *spreadFilter) Check(n *state.NodeInfo) Code {
	for i := range f.surveys {
		c, s := &f.constraints[i], &f.surveys[i]
		value, ok := n.Node.Object.Labels[c.key]
		if !ok {
			return UnschedulableAndUnresolvable
		}
		if s.over(c, value) > 0 {
			return Unschedulable
		}
	}
	return Success
}

// Explain implements Filter.
func (f *spreadFilter) Explain(n *state.NodeInfo) []string {
	if f.Check(n) == UnschedulableAndUnresolvable {
		return []string{spreadReasons[lacksKey]}
	}
	return []string{spreadReasons[overSkew]}
}

// The reasons why a node fails.
const (
	overSkew uint8 = iota
	lacksKey
)

var spreadReasons = []string{
	overSkew: "node(s) didn't match pod topology spread constraints",
	lacksKey: "node(s) didn't match pod topology spread constraints (missing required label)",
}
