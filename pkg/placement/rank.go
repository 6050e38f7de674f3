package placement

import (
	"cmp"
	"slices"

	"github.com/berth-scheduler/berth/pkg/state"
)

// candidate is one feasible node in the ranking.
type candidate struct {
	total int64
	tie   uint64
	index int
}

// best returns the limit best candidates, best first. It keeps a sorted list of the best so far and inserts better
// ones: the expected cost is linear in the number of nodes, because few of them beat the last of the list.
func best(nodes []*state.NodeInfo, totals []int64, tie func(*state.NodeInfo) uint64, limit int) []candidate {
	before := func(a, b candidate) int {
		return cmp.Or(
			cmp.Compare(b.total, a.total),
			cmp.Compare(b.tie, a.tie),
			cmp.Compare(nodes[a.index].Node.UID, nodes[b.index].Node.UID),
		)
	}
	if limit >= len(nodes) {
		all := make([]candidate, len(nodes))
		for i, n := range nodes {
			all[i] = candidate{total: totals[i], tie: tie(n), index: i}
		}
		slices.SortFunc(all, before)
		return all
	}
	top := make([]candidate, 0, limit)
	for i, n := range nodes {
		if len(top) == limit && totals[i] < top[limit-1].total {
			continue
		}
		c := candidate{total: totals[i], tie: tie(n), index: i}
		if len(top) == limit {
			if before(c, top[limit-1]) > 0 {
				continue
			}
			top = top[:limit-1]
		}
		at, _ := slices.BinarySearchFunc(top, c, before)
		top = slices.Insert(top, at, c)
	}
	return top
}

// tieBreak orders nodes with equal totals: the finaliser of splitmix64 (Steele, Lea, Flood: Fast Splittable
// Pseudorandom Number Generators) over seed and node.
func tieBreak(seed, node uint64) uint64 {
	z := (seed ^ node) + 0x9e3779b97f4a7c15
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb
	return z ^ (z >> 31)
}

// homeFirst returns a tie-break that ranks home nodes before all others, and keeps the order within both sets.
func homeFirst(tie uint64, home bool) uint64 {
	const first = 1 << 63
	tie >>= 1
	if home {
		tie |= first
	}
	return tie
}
