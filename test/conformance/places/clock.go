package places

import (
	"container/heap"
	"time"
)

// clock is virtual time: the next event is the one due first, and of events due at the same time, the one that was
// put in first.
type clock struct {
	now   time.Time
	count uint64
	due   agenda
}

// appointment is something that happens at a time.
type appointment struct {
	at    time.Time
	order uint64
	do    func()
}

// after makes do happen when so much time has passed.
func (c *clock) after(d time.Duration, do func()) {
	c.count++
	heap.Push(&c.due, appointment{at: c.now.Add(d), order: c.count, do: do})
}

// next makes the next thing happen if it is due before a time. It returns false if there is none.
func (c *clock) next(before time.Time) bool {
	if len(c.due) == 0 || !c.due[0].at.Before(before) {
		return false
	}
	a, _ := heap.Pop(&c.due).(appointment)
	c.now = a.at
	a.do()
	return true
}

// agenda implements heap.Interface.
type agenda []appointment

func (a agenda) Len() int { return len(a) }

func (a agenda) Less(i, j int) bool {
	if !a[i].at.Equal(a[j].at) {
		return a[i].at.Before(a[j].at)
	}
	return a[i].order < a[j].order
}

func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }

// Push implements heap.Interface.
func (a *agenda) Push(x any) {
	one, _ := x.(appointment)
	*a = append(*a, one)
}

// Pop implements heap.Interface.
func (a *agenda) Pop() any {
	last := len(*a) - 1
	x := (*a)[last]
	(*a)[last] = appointment{}
	*a = (*a)[:last]
	return x
}
