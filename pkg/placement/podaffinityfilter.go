package placement

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/state"
)

// podAffinityFilter holds nodes to the required terms of the pod, and to the required
// anti-affinity of the pods that are there. Source: plugins/interpodaffinity/filtering.go.
//
// With RefuseCrossNode, terms over hostnames are evaluated where the ledger makes that as
// good as deciding alone. A shard decides about a node from everything its document and
// the API hold, and its reservation counts only if the document has not changed since; so
// of two shards that place pods which repel each other on one node, one fails. That is all
// there is to see if a domain is a node: no two nodes may have the same hostname label. A
// pod that another shard has reserved and no fact has described yet could repel, or be
// repelled by, anything: its node is left alone until it is known.
type podAffinityFilter struct {
	party
	cross                  CrossNodeRules
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
	undescribed := 0
	for _, n := range all {
		undescribed += n.UndescribedPods()
		if surveyed.addExisting(n) && f.cross == RefuseCrossNode {
			return refuse(InterPodAffinity)
		}
		if len(f.affinity)+len(f.antiAffinity) > 0 {
			surveyed.addOwn(n)
		}
	}
	surveyed.first = len(surveyed.attracting) == 0 && matchesAll(f.affinity, f.pod)
	byNode := len(f.antiAffinity)+len(surveyed.repelledBy) > 0
	switch {
	case f.cross == RefuseCrossNode && byNode && sharedHostname(all):
		return refuse(InterPodAffinity)
	case f.cross == RefuseCrossNode && undescribed > 0:
		return &surveyed
	case len(f.affinity) == 0 && !byNode:
		return pass{}
	default:
		return &surveyed
	}
}

// addExisting adds the domains from which the pods on a node repel this pod; wide when one
// of them may be wider than a node, or may select the pod's namespace, which is not known.
func (f *podAffinityFilter) addExisting(n *state.NodeInfo) (wide bool) {
	for other := range n.AntiAffinityPods() {
		if other.Terms == nil {
			continue
		}
		for i := range other.Terms.RequiredAntiAffinity {
			t := &other.Terms.RequiredAntiAffinity[i]
			if f.matchedBy(t) {
				f.repelledBy.add(t.TopologyKey, n.Node.Object.Labels)
				wide = wide || isWide(*t)
			}
			wide = wide || f.mayBeMatchedBy(t)
		}
	}
	return wide
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

// sharedHostname tells whether two nodes have the same hostname label.
func sharedHostname(all []*state.NodeInfo) bool {
	seen := make(map[string]struct{}, len(all))
	for _, n := range all {
		name, ok := n.Node.Object.Labels[corev1.LabelHostname]
		if !ok {
			continue
		}
		if _, twice := seen[name]; twice {
			return true
		}
		seen[name] = struct{}{}
	}
	return false
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
	case f.cross == RefuseCrossNode && n.UndescribedPods() > 0:
		return Unschedulable, affinityReasons[unknownThere]
	default:
		return Success, ""
	}
}

// Why a node fails.
const (
	unattracted uint8 = iota
	repels
	repelled
	unknownThere
	reachesBeyond
)

var affinityReasons = []string{
	unattracted:   "node(s) didn't match pod affinity rules",
	repels:        "node(s) didn't match pod anti-affinity rules",
	repelled:      "node(s) didn't satisfy existing pods anti-affinity rules",
	unknownThere:  "node(s) hold a reservation of a pod that is not known yet",
	reachesBeyond: string(refuse(InterPodAffinity).reason),
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
