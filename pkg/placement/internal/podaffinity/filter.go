package podaffinity

import (
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Filter enforces the required terms of the pod, and the required anti-affinity of existing pods. Before Survey
// it holds the resolved terms, and after it the counts of one state of the cluster. Source:
// plugins/interpodaffinity/filtering.go.
type Filter struct {
	Party
	Affinity, AntiAffinity []Term
	// Loose is Affinity that also matches pods that may or may not match.
	Loose []Term

	// Counts of Survey, by domain: attracting counts pods that match all of affinity, repelling terms of
	// AntiAffinity that pods match, RepelledBy terms of other pods that this pod matches. self reports whether the
	// pod matches its own affinity, so that it may be the first pod where no other pod matches. unsure, counted
	// only if self is set, counts pods that may or may not match: they attract nothing, but while they exist no pod
	// is the first.
	attracting, Repelling, RepelledBy, unsure domains
	self                                      bool
}

// Survey implements ClusterFilter. It looks at all pods only if the pod has terms of its own; otherwise only at
// the pods with required anti-affinity, which nodes list separately. A filter without any count passes every
// node.
func (f *Filter) Survey(all []*state.NodeInfo) rule.Filter {
	surveyed := *f
	surveyed.attracting, surveyed.Repelling = domains{}, domains{}
	surveyed.RepelledBy, surveyed.unsure = domains{}, domains{}
	surveyed.self = MatchesAll(f.Affinity, f.Pod)
	for _, n := range all {
		for other := range n.AntiAffinityPods() {
			surveyed.countTheirs(n.Node.Object.Labels, other, 1)
		}
		if len(f.Affinity)+len(f.AntiAffinity) == 0 {
			continue
		}
		for other := range n.Pods() {
			surveyed.countOwn(n.Node.Object.Labels, other, 1)
		}
	}
	if len(f.Affinity)+len(f.AntiAffinity)+len(surveyed.RepelledBy) == 0 {
		return rule.Pass{}
	}
	return &surveyed
}

// Recount counts again when a pod is removed (-1) or put back (1).
func (f *Filter) Recount(n *state.Node, pod *state.Pod, by int) {
	f.countTheirs(n.Object.Labels, pod, by)
	f.countOwn(n.Object.Labels, pod, by)
}

// countTheirs counts the terms by which another pod repels this one.
func (f *Filter) countTheirs(nodeLabels map[string]string, other *state.Pod, by int) {
	if other.Terms == nil {
		return
	}
	for i := range other.Terms.RequiredAntiAffinity {
		if t := &other.Terms.RequiredAntiAffinity[i]; f.MatchedBy(t) {
			f.RepelledBy.add(t.TopologyKey, nodeLabels, by)
		}
	}
}

// countOwn counts a pod that this pod's terms match.
func (f *Filter) countOwn(nodeLabels map[string]string, other *state.Pod, by int) {
	switch {
	case MatchesAll(f.Affinity, other):
		f.attracting.addAll(f.Affinity, nodeLabels, by)
	case f.self && MatchesAll(f.Loose, other):
		f.unsure.addAll(f.Affinity, nodeLabels, by)
	}
	for i := range f.AntiAffinity {
		if t := &f.AntiAffinity[i]; t.MatchesPod(other) {
			f.Repelling.add(t.TopologyKey, nodeLabels, by)
		}
	}
}

// Check implements Filter. It is a few look-ups per topology key.
func (f *Filter) Check(n *state.NodeInfo) rule.Code {
	code, _ := f.judge(n)
	return code
}

// Explain implements Filter.
func (f *Filter) Explain(n *state.NodeInfo) []string {
	_, why := f.judge(n)
	return []string{why}
}

// judge returns the first failure in upstream's order: affinity, anti-affinity of the pod, anti-affinity of
// others. Only the first is unresolvable: evictions cannot bring a pod that attracts.
func (f *Filter) judge(n *state.NodeInfo) (rule.Code, string) {
	nodeLabels := n.Node.Object.Labels
	switch {
	case !f.Attracts(nodeLabels):
		return rule.UnschedulableAndUnresolvable, Reasons[Unattracted]
	case f.Repelling.hasAny(nodeLabels):
		return rule.Unschedulable, Reasons[Repels]
	case f.RepelledBy.hasAny(nodeLabels):
		return rule.Unschedulable, Reasons[Repelled]
	default:
		return rule.Success, ""
	}
}

// The reasons why a node fails.
const (
	Unattracted uint8 = iota
	Repels
	Repelled
)

// Reasons are the reasons of the filter, in the order of their numbers.
var Reasons = []string{
	Unattracted: "node(s) didn't match pod affinity rules",
	Repels:      "node(s) didn't match pod anti-affinity rules",
	Repelled:    "node(s) didn't satisfy existing pods anti-affinity rules",
}

// Attracts reports whether the node's domain of every required affinity term attracts the pod. For the first pod of
// its kind it is enough that the node has all topology keys.
func (f *Filter) Attracts(nodeLabels map[string]string) bool {
	drawn := true
	for i := range f.Affinity {
		key := f.Affinity[i].TopologyKey
		if _, ok := nodeLabels[key]; !ok {
			return false
		}
		drawn = drawn && f.attracting.Has(key, nodeLabels)
	}
	return drawn || f.self && len(f.attracting)+len(f.unsure) == 0
}
