package scale

import (
	"container/heap"
	"time"
)

// clock is virtual time: the next event is the one due first, and of events due at the same time, the one that was
// put in first.
type clock struct {
	now   time.Duration
	count uint64
	due   agenda
}

type appointment struct {
	at    time.Duration
	order uint64
	do    func()
}

// after has do happen when so much time has passed.
func (c *clock) after(d time.Duration, do func()) {
	c.count++
	heap.Push(&c.due, appointment{at: c.now + d, order: c.count, do: do})
}

// next lets one thing happen; false when there is nothing left.
func (c *clock) next() bool {
	if len(c.due) == 0 {
		return false
	}
	a := heap.Pop(&c.due).(appointment)
	c.now = a.at
	a.do()
	return true
}

// agenda implements heap.Interface.
type agenda []appointment

func (a agenda) Len() int { return len(a) }

func (a agenda) Less(i, j int) bool {
	if a[i].at != a[j].at {
		return a[i].at < a[j].at
	}
	return a[i].order < a[j].order
}

func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }

// Push implements heap.Interface.
func (a *agenda) Push(x any) { *a = append(*a, x.(appointment)) }

// Pop implements heap.Interface.
func (a *agenda) Pop() any {
	last := len(*a) - 1
	x := (*a)[last]
	(*a)[last] = appointment{}
	*a = (*a)[:last]
	return x
}
