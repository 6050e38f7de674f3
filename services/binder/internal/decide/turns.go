package decide

import (
	"cmp"
	"container/heap"
	"time"
)

// turns limits the binds that would otherwise all be sent at once. As many as there are workers for, and some more,
// are in flight. The others wait here for their turn, without any promise: more important pods first, then first
// come, first served. A pod is checked when its turn comes, so a pod that is gone by then takes no worker's time from
// others. If pods waited for a worker with their bind already decided, a queue longer than pods live would only bind
// pods that are gone.
type turns struct {
	// taken counts the binds in flight.
	taken int
	line  line
	// came numbers the places in the line.
	came uint64
}

// place is a reservation's place in the line.
type place struct {
	r        *reservation
	priority int32
	came     uint64
	since    time.Time
}

// line is a heap of places; the first is served next.
type line []place

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (l line) Len() int { return len(l) }
func (l line) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(l[j].priority, l[i].priority), cmp.Compare(l[i].came, l[j].came)) < 0
}
func (l line) Swap(i, j int) { l[i], l[j] = l[j], l[i] }

// Push implements heap.Interface.
func (l *line) Push(x any) { *l = append(*l, x.(place)) }

// Pop implements heap.Interface.
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

// nextTurns advances the reservations whose turn it is. One that has begun another step in the meantime, or has left
// the ledger, loses its place.
func (c *Core) nextTurns() {
	for c.turns.taken < c.limits.Binds && c.turns.line.Len() > 0 {
		p := heap.Pop(&c.turns.line).(place)
		if !p.r.lined {
			continue
		}
		p.r.lined = false
		// The wait for a turn says nothing about this pod.
		p.r.since = p.r.since.Add(c.now.Sub(p.since))
		p.r.advance(c)
	}
}
