package placement

import (
	"cmp"
	"slices"

	"github.com/berth-scheduler/berth/pkg/state"
)

// Ranked is one feasible node in the ranking: its total, the key that breaks ties (the highest first), and its
// index in the list of feasible nodes or, in the engine, its slot.
type Ranked struct {
	Total int64
	Tie   uint64
	Index int
}

// best returns the limit best candidates, best first. It keeps a sorted list of the best so far and inserts better
// ones: the expected cost is linear in the number of nodes, because few of them beat the last of the list.
func best(nodes []*state.NodeInfo, totals []int64, tie func(*state.NodeInfo) uint64, limit int) []Ranked {
	before := func(a, b Ranked) int {
		return cmp.Or(
			cmp.Compare(b.Total, a.Total),
			cmp.Compare(b.Tie, a.Tie),
			cmp.Compare(nodes[a.Index].Node.UID, nodes[b.Index].Node.UID),
		)
	}
	if limit >= len(nodes) {
		all := make([]Ranked, len(nodes))
		for i, n := range nodes {
			all[i] = Ranked{Total: totals[i], Tie: tie(n), Index: i}
		}
		slices.SortFunc(all, before)
		return all
	}
	top := make([]Ranked, 0, limit)
	for i, n := range nodes {
		if len(top) == limit && totals[i] < top[limit-1].Total {
			continue
		}
		c := Ranked{Total: totals[i], Tie: tie(n), Index: i}
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

// TieBreak orders nodes with equal totals: the finaliser of splitmix64 (Steele, Lea, Flood: Fast Splittable
// Pseudorandom Number Generators) over seed and node. A random number per decision would not be reproducible, and
// the order of the nodes would send all pods to the same one.
func TieBreak(seed, node uint64) uint64 {
	z := (seed ^ node) + 0x9e3779b97f4a7c15
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb
	return z ^ (z >> 31)
}

// HomeFirst returns a tie-break that ranks home nodes before all others, and keeps the order within both sets.
func HomeFirst(tie uint64, home bool) uint64 {
	const first = 1 << 63
	tie >>= 1
	if home {
		tie |= first
	}
	return tie
}
