package placement

import (
	"github.com/berth-scheduler/berth/pkg/state"
)

// podAffinityFilter holds nodes to the required terms of the pod, and to the required
// anti-affinity of the pods that are there. Source: plugins/interpodaffinity/filtering.go.
type podAffinityFilter struct {
	party
	affinity, antiAffinity []ownTerm

	// What Survey finds: the domains of pods that match all of affinity, or any of
	// antiAffinity, or repel this pod. first: there are none of the first sort, and the pod
	// matches its own affinity, so that it may be the first.
	attracting, repelling, repelledBy domains
	first                             bool
}

// Survey implements ClusterFilter.
func (f *podAffinityFilter) Survey(all []*state.NodeInfo) Filter {
	surveyed := *f
	surveyed.attracting, surveyed.repelling, surveyed.repelledBy = domains{}, domains{}, domains{}
	for _, n := range all {
		surveyed.addExisting(n)
		if len(f.affinity)+len(f.antiAffinity) > 0 {
			surveyed.addOwn(n)
		}
	}
	surveyed.first = len(surveyed.attracting) == 0 && matchesAll(f.affinity, f.pod)
	if len(f.affinity)+len(f.antiAffinity)+len(surveyed.repelledBy) == 0 {
		return pass{}
	}
	return &surveyed
}

// addExisting adds the domains from which the pods on a node repel this pod.
func (f *podAffinityFilter) addExisting(n *state.NodeInfo) {
	for other := range n.AntiAffinityPods() {
		if other.Terms == nil {
			continue
		}
		for i := range other.Terms.RequiredAntiAffinity {
			if t := &other.Terms.RequiredAntiAffinity[i]; f.matchedBy(t) {
				f.repelledBy.add(t.TopologyKey, n.Node.Object.Labels)
			}
		}
	}
}

// addOwn adds the domains of a node for the pods on it that the pod's terms speak of.
func (f *podAffinityFilter) addOwn(n *state.NodeInfo) {
	nodeLabels := n.Node.Object.Labels
	for other := range n.Pods() {
		if matchesAll(f.affinity, other) {
			for i := range f.affinity {
				f.attracting.add(f.affinity[i].TopologyKey, nodeLabels)
			}
		}
		for i := range f.antiAffinity {
			if t := &f.antiAffinity[i]; t.matches(other) {
				f.repelling.add(t.TopologyKey, nodeLabels)
			}
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

// Why a node fails.
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

// attracts tells whether a node is in a domain that each required affinity term is drawn
// to. For the first pod of its kind it is enough that the node is in any.
func (f *podAffinityFilter) attracts(nodeLabels map[string]string) bool {
	drawn := true
	for i := range f.affinity {
		key := f.affinity[i].TopologyKey
		if _, ok := nodeLabels[key]; !ok {
			return false
		}
		drawn = drawn && f.attracting.has(key, nodeLabels)
	}
	return drawn || f.first
}
