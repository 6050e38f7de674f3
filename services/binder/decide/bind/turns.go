package bind

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

// free reports whether another bind may be sent now.
func (t *turns) free(limit int) bool { return t.taken < limit }

// wait adds a reservation to the line.
func (t *turns) wait(r *reservation, priority int32, now time.Time) {
	t.came++
	heap.Push(&t.line, place{r, priority, t.came, now})
	r.lined = true
}

// next removes the next reservation from the line, and returns nil if the line is empty. One that has begun another
// step in the meantime, or has left the ledger, has lost its place.
func (t *turns) next(now time.Time) *reservation {
	for t.line.Len() > 0 {
		p := heap.Pop(&t.line).(place)
		if !p.r.lined {
			continue
		}
		p.r.lined = false
		// The wait for a turn says nothing about this pod.
		p.r.since = p.r.since.Add(now.Sub(p.since))
		return p.r
	}
	return nil
}

// takeTurn binds, or waits for a turn.
func (r *reservation) takeTurn(b *Reservations, priority int32) {
	switch {
	case r.lined:
	case b.turns.free(b.Limits.Binds):
		r.bind(b)
	default:
		b.turns.wait(r, priority, b.Now)
	}
}

// nextTurns advances the reservations whose turn it is.
func (b *Reservations) nextTurns() {
	for b.turns.free(b.Limits.Binds) {
		r := b.turns.next(b.Now)
		if r == nil {
			return
		}
		r.advance(b)
	}
}
