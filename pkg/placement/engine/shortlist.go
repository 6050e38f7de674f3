package engine

import (
	"math"
	"slices"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/engine/internal/columns"
)

// shortlist is a list of the best nodes, best first, of at most limit entries. The order is that of
// placement.best: by total, then by tie, then by UID. The list is sorted and kept by insertion: limit is usually
// TopK, and few nodes are better than the last entry once the list is full.
type shortlist struct {
	cols      *columns.Columns
	seed      uint64
	homeFirst bool
	// limit is how many nodes to rank, at most the number of feasible ones.
	limit int
	list  []placement.Ranked
}

// reset empties the list for the best of this many feasible nodes. limit is Query.Limit.
func (b *shortlist) reset(seed uint64, homeFirst bool, limit, feasible int) {
	b.seed = seed
	b.homeFirst = homeFirst
	b.list = b.list[:0]
	switch {
	case limit == 0:
		b.limit = min(placement.TopK, feasible)
	case limit < 0:
		b.limit = feasible
	default:
		b.limit = min(limit, feasible)
	}
}

// scan offers all nodes of a class. Most are below the bar, and most of those at the bar lose the tie. The
// current totals of the best nodes of the class's last decision give a bar to start with: as many nodes as
// requested are at it or above.
//
// This is the only loop over all nodes in a decision. It reads two arrays in order (group and base) and one small
// one (points), and computes a hash only for nodes at or above the bar.
func (b *shortlist) scan(c *class, points []int32) {
	bar, barTie := b.floor(c, points), uint64(0)
	base := c.base[:len(c.group)]
	for slot, g := range c.group {
		total := base[slot] + points[g+1]
		if total < bar {
			continue
		}
		tie := b.tie(slot)
		if total == bar && tie < barTie {
			continue
		}
		b.offer(placement.Ranked{Total: int64(total), Tie: tie, Index: slot})
		if len(b.list) == b.limit {
			last := &b.list[len(b.list)-1]
			bar, barTie = int32(last.Total), last.Tie
		}
	}
	c.best = c.best[:0]
	for i := range b.list {
		c.best = append(c.best, int32(b.list[i].Index))
	}
}

// tie returns the key that orders nodes of equal total, the highest first: the hash of placement.TieBreak, with
// home nodes before others if the query wants that.
func (b *shortlist) tie(slot int) uint64 {
	tie := placement.TieBreak(b.seed, b.cols.Hashes[slot])
	if b.homeFirst {
		tie = placement.HomeFirst(tie, b.cols.Marks.Of[slot]&columns.MarkHome != 0)
	}
	return tie
}

// floor returns a total that at least limit nodes reach, or 0 when none is known, as no feasible node has less.
// The last decision's nodes may be infeasible now; their total then is negative, and the floor 0.
func (b *shortlist) floor(c *class, points []int32) int32 {
	if len(c.best) < b.limit {
		return 0
	}
	floor := int32(math.MaxInt32)
	for _, slot := range c.best {
		floor = min(floor, c.base[slot]+points[c.group[slot]+1])
	}
	return max(floor, 0)
}

// offer inserts a node if it is among the best so far.
func (b *shortlist) offer(c placement.Ranked) {
	at := len(b.list)
	for at > 0 && b.before(&c, &b.list[at-1]) {
		at--
	}
	if at == b.limit {
		return
	}
	if len(b.list) < b.limit {
		b.list = append(b.list, placement.Ranked{})
	}
	copy(b.list[at+1:], b.list[at:])
	b.list[at] = c
}

// before reports whether x ranks before y.
func (b *shortlist) before(x, y *placement.Ranked) bool {
	switch {
	case x.Total != y.Total:
		return x.Total > y.Total
	case x.Tie != y.Tie:
		return x.Tie > y.Tie
	default:
		return b.cols.Infos[x.Index].Node.UID < b.cols.Infos[y.Index].Node.UID
	}
}

// preferHome ranks the best home node first if it is behind the best node by no more than what so many more pods would
// cost that one; see Query.Near.
func (b *shortlist) preferHome(c *class, points []int32, pods int64) {
	first, marks := b.list[0].Index, b.cols.Marks.Of
	if marks[first]&columns.MarkHome != 0 {
		return
	}
	usage, resources := &c.plan.usage, &b.cols.Resources
	cost := max(0, usage.score(resources, first, 0)-usage.score(resources, first, pods))
	bar, home := max(0, b.list[0].Total-cost), placement.Ranked{Index: -1}
	for slot, g := range c.group {
		if marks[slot]&columns.MarkHome == 0 {
			continue
		}
		total := int64(c.base[slot] + points[g+1])
		at := placement.Ranked{Total: total, Tie: b.tie(slot), Index: slot}
		if total >= bar && (home.Index < 0 || b.before(&at, &home)) {
			home = at
		}
	}
	if home.Index < 0 {
		return
	}
	b.list = slices.DeleteFunc(b.list, func(r placement.Ranked) bool { return r.Index == home.Index })
	b.list = slices.Insert(b.list[:min(len(b.list), b.limit-1)], 0, home)
}
