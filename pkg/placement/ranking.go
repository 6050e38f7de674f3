package placement

import "slices"

// ranking keeps the totals of a class whose rules look at one node at a time, so that the
// best are found without looking at every node.
type ranking struct {
	// totals by slot, infeasible for nodes that do not pass. tops are the largest of each
	// block of slots.
	totals, tops []int64
	feasible     int
	// touched are slots whose totals are to be worked out again.
	touched []int32
}

const (
	infeasible int64 = -1
	// blockSize is how many slots share an entry of tops: looking at 5,000 nodes costs 80
	// entries and a block or two.
	blockSize = 64
)

func (r *ranking) grow(by int) {
	r.totals = growBy(r.totals, by, infeasible)
	blocks := (len(r.totals) + blockSize - 1) / blockSize
	r.tops = growBy(r.tops, blocks-len(r.tops), infeasible)
}

func (r *ranking) bytes() int64 { return int64(8 * (len(r.totals) + len(r.tops))) }

// leave takes a slot out before what is known of it changes.
func (r *ranking) leave(c *class, slot int) {
	if c.verdicts[slot] != verdictPass {
		return
	}
	r.feasible--
	for i := range c.gauges {
		if g := &c.gauges[i]; g.raw[slot] == g.top {
			g.atTop--
		}
	}
}

// enter puts a slot back in.
func (r *ranking) enter(c *class, slot int) {
	r.touched = append(r.touched, int32(slot))
	if c.verdicts[slot] != verdictPass {
		return
	}
	r.feasible++
	for i := range c.gauges {
		g := &c.gauges[i]
		switch raw := g.raw[slot]; {
		case raw > g.top:
			g.top, g.atTop = raw, 1
			c.imageBonus.changed = true // all totals are due
		case raw == g.top:
			g.atTop++
		}
	}
}

// settle works out the totals that are due.
func (r *ranking) settle(c *class, e *Engine) {
	all := c.imageBonus.changed
	for i := range c.gauges {
		if g := &c.gauges[i]; g.atTop == 0 && g.top > 0 {
			g.remeasure(c)
			all = true
		}
	}
	if all {
		for slot := range r.totals {
			r.totals[slot] = c.total(slot)
		}
		for block := range r.tops {
			r.tops[block] = slices.Max(r.block(block))
		}
	} else {
		for _, slot := range r.touched {
			r.update(c, int(slot))
		}
	}
	c.imageBonus.changed = false
	r.touched = r.touched[:0]
}

// remeasure finds the top among the nodes that pass.
func (g *gauge) remeasure(c *class) {
	g.top, g.atTop = 0, 0
	for slot, v := range c.verdicts {
		if v != verdictPass {
			continue
		}
		switch raw := g.raw[slot]; {
		case raw > g.top:
			g.top, g.atTop = raw, 1
		case raw == g.top:
			g.atTop++
		}
	}
}

// total is the weighted sum of all scores of a node that passes.
func (c *class) total(slot int) int64 {
	if c.verdicts[slot] != verdictPass {
		return infeasible
	}
	sum := c.score[slot] + c.imageBonus.points(c, slot)
	for i := range c.gauges {
		sum += c.gauges[i].points(slot)
	}
	return sum
}

func (r *ranking) update(c *class, slot int) {
	before, now := r.totals[slot], c.total(slot)
	if before == now {
		return
	}
	r.totals[slot] = now
	block := slot / blockSize
	switch {
	case now >= r.tops[block]:
		r.tops[block] = now
	case before == r.tops[block]:
		r.tops[block] = slices.Max(r.block(block))
	}
}

func (r *ranking) block(i int) []int64 {
	return r.totals[i*blockSize : min((i+1)*blockSize, len(r.totals))]
}

// best ranks the best nodes into a board.
func (r *ranking) best(b *board) {
	for i, top := range r.tops {
		if top == infeasible || !b.admits(top) {
			continue
		}
		for j, total := range r.block(i) {
			if total != infeasible {
				b.offer(total, i*blockSize+j)
			}
		}
	}
}

// board is a short list of the best nodes, best first; see best for the order.
type board struct {
	e     *Engine
	seed  uint64
	limit int
	list  []candidate
}

// admits tells whether a node with that total could get onto the board.
func (b *board) admits(total int64) bool {
	return len(b.list) < b.limit || total >= b.list[len(b.list)-1].total
}

func (b *board) offer(total int64, slot int) {
	if !b.admits(total) {
		return
	}
	c := candidate{total: total, tie: tieBreak(b.seed, b.e.hashes[slot]), index: slot}
	at := len(b.list)
	for at > 0 && b.before(c, b.list[at-1]) {
		at--
	}
	if at == b.limit {
		return
	}
	if len(b.list) < b.limit {
		b.list = append(b.list, candidate{})
	}
	copy(b.list[at+1:], b.list[at:])
	b.list[at] = c
}

func (b *board) before(x, y candidate) bool {
	switch {
	case x.total != y.total:
		return x.total > y.total
	case x.tie != y.tie:
		return x.tie > y.tie
	default:
		return b.e.infos[x.index].Node.UID < b.e.infos[y.index].Node.UID
	}
}
