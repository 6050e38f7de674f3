package decide

import (
	"cmp"
	"container/heap"
	"time"
)

// turns are about binds that would all go out at once. As many as there are workers for, and
// some more, are under way; the others wait here for their turn, with nothing promised to
// anybody: more important pods first, then first come, first served. What is true of a pod is
// looked at when its turn comes, so that a pod that has gone meanwhile takes no worker's time
// from others. Were they to wait for a worker with their bind decided, a line that is longer
// than pods live would bind nothing but pods that are gone.
type turns struct {
	// taken counts the binds under way.
	taken int
	line  line
	// came numbers the line.
	came uint64
}

// place is a reservation's place in the line.
type place struct {
	r        *reservation
	priority int32
	came     uint64
	since    time.Time
}

// line is a heap of places; the first is the next.
type line []place

// Len, Less, Swap, Push and Pop belong to container/heap.
func (l line) Len() int { return len(l) }
func (l line) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(l[j].priority, l[i].priority), cmp.Compare(l[i].came, l[j].came)) < 0
}
func (l line) Swap(i, j int) { l[i], l[j] = l[j], l[i] }

// Push belongs to container/heap.
func (l *line) Push(x any) { *l = append(*l, x.(place)) }

// Pop belongs to container/heap.
func (l *line) Pop() any {
	last := len(*l) - 1
	p := (*l)[last]
	(*l)[last] = place{}
	*l = (*l)[:last]
	return p
}

// takeTurn binds, or waits for a turn.
func (r *reservation) takeTurn(c *Core, priority int32) {
	switch {
	case r.lined:
	case c.turns.taken < c.limits.Binds:
		r.bind(c)
	default:
		c.turns.came++
		heap.Push(&c.turns.line, place{r, priority, c.turns.came, c.now})
		r.lined = true
	}
}

// nextTurns lets those act whose turn it is. One that has begun something else meanwhile, or has
// left the ledger, loses its place.
func (c *Core) nextTurns() {
	for c.turns.taken < c.limits.Binds && c.turns.line.Len() > 0 {
		p := heap.Pop(&c.turns.line).(place)
		if !p.r.lined {
			continue
		}
		p.r.lined = false
		// The wait for us says nothing about this pod.
		p.r.since = p.r.since.Add(c.now.Sub(p.since))
		p.r.advance(c)
	}
}
