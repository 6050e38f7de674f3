package placement

import (
	"cmp"
	"slices"

	nodetopology "k8s.io/component-helpers/node/topology"

	"github.com/berth-scheduler/berth/pkg/state"
)

// Bounds of sampling.
const (
	// minSample is the smallest number of feasible nodes that a sampling profile searches for
	// (minFeasibleNodesToFind in upstream's pkg/scheduler/schedule_one.go).
	minSample = 100
	// maxPercent is the largest percentageOfNodesToScore.
	maxPercent = 100
)

// SampleSize returns how many feasible nodes are enough among this many nodes: all of them when the profile does
// not sample, which is the default. Example: 30 percent of 5,000 nodes is 1,500, of 200 nodes the minimum of 100.
// Source: upstream's numFeasibleNodesToFind. Upstream treats a percentage of 0 as adaptive; here it means all
// nodes.
func (p *Profile) SampleSize(nodes int) int {
	switch {
	case p.percentage == 0:
		return nodes
	case !p.scores:
		return min(nodes, 1) // no score distinguishes nodes, so the first one is enough
	case nodes < minSample:
		return nodes
	default:
		return max(nodes*int(p.percentage)/maxPercent, minSample)
	}
}

// ZoneOrder returns the order in which a sampling profile visits the nodes, as positions in nodes: the first of
// every zone, then the second of every zone, and so on, so that a sample has nodes of all zones. Zones (a region
// and zone label together; nodes without both are one zone) are in the order of their names, the nodes of a zone in
// the given order. Source: upstream's node tree (pkg/scheduler/backend/cache/node_tree.go), whose zones are in
// order of appearance instead, which depends on history.
func ZoneOrder(nodes []*state.NodeInfo) []int {
	zones := map[string]int{} // number of nodes so far
	type place struct {
		round    int // number of nodes of its zone before it
		zone     string
		position int
	}
	places := make([]place, len(nodes))
	for i, n := range nodes {
		zone := nodetopology.GetZoneKey(n.Node.Object)
		places[i] = place{zones[zone], zone, i}
		zones[zone]++
	}
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.round, b.round), cmp.Compare(a.zone, b.zone))
	})
	order := make([]int, len(nodes))
	for i, p := range places {
		order[i] = p.position
	}
	return order
}
