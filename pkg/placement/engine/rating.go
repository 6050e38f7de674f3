package engine

import (
	"math"
	"slices"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/engine/internal/columns"
)

// rating is one evaluation of the groups of a class: which are feasible, and the points of their nodes. It is
// scratch.
type rating struct {
	// groups holds the feasible groups that count; nodes holds how many nodes each has.
	groups []int32
	nodes  []int32
	// points are by group plus one, infeasible for groups that do not count. So there is an entry for noGroup, and
	// scan has one condition less to check.
	points []int32
	// sums and raw have one entry per entry of groups.
	sums, raw []int64
	total     int
	// weighed records how the points were composed, if that is requested.
	weighed weighing
}

// list finds the feasible groups. counts holds how many nodes each has.
func (r *rating) list(c *class, counts []int32) {
	r.groups = r.groups[:0]
	r.nodes = r.nodes[:0]
	r.total = 0
	r.points = slices.Grow(r.points[:0], len(counts)+1)[:len(counts)+1]
	r.points[0] = infeasible
	for g, n := range counts {
		r.points[g+1] = infeasible
		if n == 0 || !c.wide.passes(c.groups.row(g)[maxGauges:]) {
			continue
		}
		r.points[g+1] = 0
		r.groups = append(r.groups, int32(g))
		r.nodes = append(r.nodes, n)
		r.total += int(n)
	}
	if c.wide.active {
		c.plan.judged(len(counts))
	}
}

// rate computes the points of the listed groups; weigh records what each step adds.
func (r *rating) rate(c *class, weigh bool) {
	marks := &r.weighed
	marks.compared = weigh
	r.sums = slices.Grow(r.sums[:0], len(r.groups))[:len(r.groups)]
	r.raw = slices.Grow(r.raw[:0], len(r.groups))[:len(r.groups)]
	clear(r.sums)
	for i := range c.gauges {
		if weigh {
			marks.mark(r.sums)
		}
		var top int64
		for _, g := range r.groups {
			top = max(top, c.groups.row(int(g))[i])
		}
		for j, g := range r.groups {
			r.sums[j] += c.gauges[i].points(c.groups.row(int(g))[i], top)
		}
		c.plan.scoredBy(fromGauge, i, len(r.groups))
	}
	if c.wide.active {
		for i, ranker := range c.wide.rankers {
			if weigh {
				marks.mark(r.sums)
			}
			ranker.rate(c, r)
			c.plan.scoredBy(fromRanker, i, len(r.groups))
		}
	}
	for j, g := range r.groups {
		r.points[g+1] = int32(r.sums[j])
	}
}

// columns returns the values of an entry of groups that the rules beyond one node read.
func (r *rating) columns(c *class, entry int) []int64 {
	return c.groups.row(int(r.groups[entry]))[maxGauges:]
}

// board is a short list of the best nodes, best first; see best for the order.
type board struct {
	e         *Engine
	seed      uint64
	homeFirst bool
	limit     int
	list      []placement.Ranked
}

func (b *board) reset(q Query, feasible int) {
	b.seed = q.Seed
	b.homeFirst = q.HomeFirst
	b.list = b.list[:0]
	switch {
	case q.Limit == 0:
		b.limit = min(placement.TopK, feasible)
	case q.Limit < 0:
		b.limit = feasible
	default:
		b.limit = min(q.Limit, feasible)
	}
}

// scan offers all nodes of a class. Most are below the bar, and most of those at the bar lose the tie. The current
// totals of the best nodes of the class's last decision give a bar to start with: as many nodes as requested are at
// it or above.
func (b *board) scan(c *class, points []int32) {
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

// tie returns the key that orders nodes of equal total, the highest first.
func (b *board) tie(slot int) uint64 {
	tie := placement.TieBreak(b.seed, b.e.columns.Hashes[slot])
	if b.homeFirst {
		tie = placement.HomeFirst(tie, b.e.columns.Marks.Of[slot]&columns.MarkHome != 0)
	}
	return tie
}

// floor returns a total that at least limit nodes reach, or 0 when none is known, as no feasible node has less.
func (b *board) floor(c *class, points []int32) int32 {
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
func (b *board) offer(c placement.Ranked) {
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

func (b *board) before(x, y *placement.Ranked) bool {
	switch {
	case x.Total != y.Total:
		return x.Total > y.Total
	case x.Tie != y.Tie:
		return x.Tie > y.Tie
	default:
		return b.e.columns.Infos[x.Index].Node.UID < b.e.columns.Infos[y.Index].Node.UID
	}
}
