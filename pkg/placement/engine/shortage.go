package engine

import (
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/engine/internal/columns"
	"github.com/berth-scheduler/berth/pkg/placement/internal/spread"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// shortage is, for each hard spread constraint of a class, how many of the pods it counts have to leave a node's
// domain before one more fits there; one byte each, the first constraint in the lowest.
//
// Example: maxSkew 1 over zones with 5, 3 and 3 matching pods, and a waiting pod that counts itself. A zone may
// have 3 + 1 - 1 = 3 pods before the pod is placed, so that nodes in the first zone have the shortage 2 and all
// others 0.
//
// For a given shortage, nothing else about the domains matters. Pods that are evicted from one node are
// subtracted from one domain of each constraint. If that domain becomes the one with the fewest pods, this can
// only admit the pod: the domain then exceeds the minimum by no more than the pod itself, and maxSkew is at least
// one. So the result of trying a node depends only on the node and its shortage, and is cached by both.
type shortage uint64

const (
	// maxShort is the largest number that fits; maxSpreads is how many constraints fit.
	maxShort   = 1<<8 - 1
	maxSpreads = 8
	// maxShortages is how many different shortages one query may meet. More occur only for pods spread over nodes
	// or racks so unevenly that distinguishing them costs more than deciding from scratch.
	maxShortages = 8
)

// of returns the shortage of one constraint, 0 to maxShort.
func (s shortage) of(constraint int) int { return int(s>>(8*constraint)) & maxShort }

// hardRule returns the only rule about other nodes that can reject: hard spread, or nil for none. known is false
// if there is any other, such as anti-affinity: whether its obstacles can be evicted depends on pods on other
// nodes.
func (w *crossNodeState) hardRule() (spread *spreadTallyFilter, known bool) {
	for _, j := range w.filters {
		switch j := j.(type) {
		case *affinityTallyFilter:
			if len(j.Affinity)+len(j.AntiAffinity)+len(j.repelledBy) > 0 {
				return nil, false
			}
		case *spreadTallyFilter:
			if spread != nil || len(j.Constraints) > maxSpreads {
				return nil, false
			}
			spread = j
		default:
			return nil, false
		}
	}
	return spread, true
}

// shortageOf returns the shortage of a slot's domains as of prepare; ok is false if it is too large. A node
// without the key of a constraint has no shortage of that constraint: the rule itself rejects the node.
func (j *spreadTallyFilter) shortageOf(w *crossNodeState, slot int) (s shortage, ok bool) {
	for i, number := range j.tallies {
		t := w.tallies[number]
		d := t.Axis.Of[slot]
		if d == columns.NoDomain {
			continue
		}
		lacks := t.Sum(d) - j.limits[i]
		if lacks > maxShort {
			return 0, false
		}
		s |= shortage(max(0, lacks)) << (8 * i)
	}
	return s, true
}

// shortFilter is spread.Filter on a node of which only the shortage is known. It counts the pods that are removed
// from that node, and passes when as many have been removed as the shortage requires.
type shortFilter struct {
	*spread.Filter
	short shortage
	// removed is how many pods that count have been removed, per constraint.
	removed []int
}

// Recount counts again when a pod is removed (by is -1) or put back (1); placement.WhatIf calls it.
func (f *shortFilter) Recount(n *state.Node, pod *state.Pod, by int) {
	if !spread.HasKeys(n.Object.Labels, f.Constraints) {
		return
	}
	for i := range f.Constraints {
		if c := &f.Constraints[i]; f.Counts(c, pod) && f.Includes(c, n) {
			f.removed[i] -= by
		}
	}
}

// Check implements Filter.
func (f *shortFilter) Check(n *state.NodeInfo) rule.Code {
	for i := range f.Constraints {
		if _, ok := n.Node.Object.Labels[f.Constraints[i].Key]; !ok {
			return rule.UnschedulableAndUnresolvable
		}
		if f.removed[i] < f.short.of(i) {
			return rule.Unschedulable
		}
	}
	return rule.Success
}

// Explain implements Filter.
func (f *shortFilter) Explain(n *state.NodeInfo) []string {
	if f.Check(n) == rule.UnschedulableAndUnresolvable {
		return []string{spread.Reasons[spread.LacksKey]}
	}
	return []string{spread.Reasons[spread.OverSkew]}
}

// narrow returns the filters about one node, and hard spread for a node with this shortage. Filters of pod
// affinity are left out: hardRule has made sure that they cannot reject.
func (p *plan) narrow(short shortage) []placement.ActiveFilter {
	list := make([]placement.ActiveFilter, 0, len(p.filters))
	beyond := p.crossNode
	for i, f := range p.filters {
		if len(beyond) == 0 || beyond[0] != int16(i) {
			list = append(list, f)
			continue
		}
		beyond = beyond[1:]
		if spread, ok := f.Filter.(*spread.Filter); ok {
			f.Filter = &shortFilter{Filter: spread, short: short, removed: make([]int, len(spread.Constraints))}
			list = append(list, f)
		}
	}
	return list
}
