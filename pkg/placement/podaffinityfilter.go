package placement

import (
	"github.com/berth-scheduler/berth/pkg/state"
)

// podAffinityFilter enforces the required terms of the pod, and the required anti-affinity of existing pods.
// Source: plugins/interpodaffinity/filtering.go.
type podAffinityFilter struct {
	party
	affinity, antiAffinity []ownTerm
	// loose is affinity that also matches pods that may or may not match.
	loose []ownTerm

	// Counts of Survey, by domain: attracting counts pods that match all of affinity, repelling terms of
	// antiAffinity that pods match, repelledBy terms of other pods that this pod matches. self reports whether the
	// pod matches its own affinity, so that it may be the first pod where no other pod matches. unsure, counted
	// only if self is set, counts pods that may or may not match: they attract nothing, but while they exist no pod
	// is the first.
	attracting, repelling, repelledBy, unsure domains
	self                                      bool
}

// Survey implements ClusterFilter.
func (f *podAffinityFilter) Survey(all []*state.NodeInfo) Filter {
	surveyed := *f
	surveyed.attracting, surveyed.repelling = domains{}, domains{}
	surveyed.repelledBy, surveyed.unsure = domains{}, domains{}
	surveyed.self = matchesAll(f.affinity, f.pod)
	for _, n := range all {
		for other := range n.AntiAffinityPods() {
			surveyed.countTheirs(n.Node.Object.Labels, other, 1)
		}
		if len(f.affinity)+len(f.antiAffinity) == 0 {
			continue
		}
		for other := range n.Pods() {
			surveyed.countOwn(n.Node.Object.Labels, other, 1)
		}
	}
	if len(f.affinity)+len(f.antiAffinity)+len(surveyed.repelledBy) == 0 {
		return pass{}
	}
	return &surveyed
}

// recount implements counter.
func (f *podAffinityFilter) recount(n *state.Node, pod *state.Pod, by int) {
	f.countTheirs(n.Object.Labels, pod, by)
	f.countOwn(n.Object.Labels, pod, by)
}

// countTheirs counts the terms by which another pod repels this one.
func (f *podAffinityFilter) countTheirs(nodeLabels map[string]string, other *state.Pod, by int) {
	if other.Terms == nil {
		return
	}
	for i := range other.Terms.RequiredAntiAffinity {
		if t := &other.Terms.RequiredAntiAffinity[i]; f.matchedBy(t) {
			f.repelledBy.add(t.TopologyKey, nodeLabels, by)
		}
	}
}

// countOwn counts a pod that this pod's terms match.
func (f *podAffinityFilter) countOwn(nodeLabels map[string]string, other *state.Pod, by int) {
	switch {
	case matchesAll(f.affinity, other):
		f.attracting.addAll(f.affinity, nodeLabels, by)
	case f.self && matchesAll(f.loose, other):
		f.unsure.addAll(f.affinity, nodeLabels, by)
	}
	for i := range f.antiAffinity {
		if t := &f.antiAffinity[i]; t.matches(other) {
			f.repelling.add(t.TopologyKey, nodeLabels, by)
		}
	}
}

// Check implements Filter.
func (f *podAffinityFilter) Check(n *state.NodeInfo) Code {
	code, _ := f.judge(n)
	return code
}

// Explain implements Filter.
func (f *podAffinityFilter) Explain(n *state.NodeInfo) []string {
	_, why := f.judge(n)
	return []string{why}
}

func (f *podAffinityFilter) judge(n *state.NodeInfo) (Code, string) {
	nodeLabels := n.Node.Object.Labels
	switch {
	case !f.attracts(nodeLabels):
		return UnschedulableAndUnresolvable, affinityReasons[unattracted]
	case f.repelling.hasAny(nodeLabels):
		return Unschedulable, affinityReasons[repels]
	case f.repelledBy.hasAny(nodeLabels):
		return Unschedulable, affinityReasons[repelled]
	default:
		return Success, ""
	}
}

// The reasons why a node fails.
const (
	unattracted uint8 = iota
	repels
	repelled
)

var affinityReasons = []string{
	unattracted: "node(s) didn't match pod affinity rules",
	repels:      "node(s) didn't match pod anti-affinity rules",
	repelled:    "node(s) didn't satisfy existing pods anti-affinity rules",
}

// attracts reports whether the node's domain of every required affinity term attracts the pod. For the first pod of
// its kind it is enough that the node has all topology keys.
func (f *podAffinityFilter) attracts(nodeLabels map[string]string) bool {
	drawn := true
	for i := range f.affinity {
		key := f.affinity[i].TopologyKey
		if _, ok := nodeLabels[key]; !ok {
			return false
		}
		drawn = drawn && f.attracting.has(key, nodeLabels)
	}
	return drawn || f.self && len(f.attracting)+len(f.unsure) == 0
}
