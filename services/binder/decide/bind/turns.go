package bind

import (
	"cmp"
	"container/heap"
	"time"

	"github.com/berth-scheduler/berth/services/binder/decide/basis"
)

// turns limits the binds that would otherwise all be sent at once. As many as there are workers for, and some more,
// are in flight. The others wait here for their turn, without any promise: more important pods first, then first
// come, first served. A pod is checked when its turn comes, so a pod that is gone by then takes no worker's time from
// others. If pods waited for a worker with their bind already decided, a queue longer than pods live would only bind
// pods that are gone.
type turns struct {
	// inFlight counts the binds in flight.
	inFlight int
	line     waitingLine
	// lastSeq numbers the places in the line.
	lastSeq uint64
}

// turn is a reservation's side of its wait.
type turn struct {
	// lined means that it has a place in the line.
	lined bool
}

// place is a reservation's place in the line.
type place struct {
	key      basis.Attempt
	turn     *turn
	priority int32
	seq      uint64
	since    time.Time
}

// waitingLine is a heap of places; the first is served next.
type waitingLine []place

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (l waitingLine) Len() int { return len(l) }
func (l waitingLine) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(l[j].priority, l[i].priority), cmp.Compare(l[i].seq, l[j].seq)) < 0
}
func (l waitingLine) Swap(i, j int) { l[i], l[j] = l[j], l[i] }

// Push implements heap.Interface.
func (l *waitingLine) Push(x any) { *l = append(*l, x.(place)) }

// Pop implements heap.Interface.
func (l *waitingLine) Pop() any {
	last := len(*l) - 1
	p := (*l)[last]
	(*l)[last] = place{}
	*l = (*l)[:last]
	return p
}

// free reports whether another bind may be sent now.
func (t *turns) free(limit int) bool { return t.inFlight < limit }

// wait adds a reservation to the line.
func (t *turns) wait(key basis.Attempt, own *turn, priority int32, now time.Time) {
	t.lastSeq++
	heap.Push(&t.line, place{key, own, priority, t.lastSeq, now})
	own.lined = true
}

// next removes the next reservation from the line, and returns its key and how long it has waited. It reports false if
// the line is empty. A reservation that has begun another step in the meantime, or has left the ledger, has lost its
// place.
func (t *turns) next(now time.Time) (key basis.Attempt, waited time.Duration, ok bool) {
	for t.line.Len() > 0 {
		p := heap.Pop(&t.line).(place)
		if p.turn.lined {
			p.turn.lined = false
			return p.key, now.Sub(p.since), true
		}
	}
	return basis.Attempt{}, 0, false
}
