package placement

import (
	"cmp"
	"math"

	"github.com/berth-scheduler/berth/pkg/state"
)

// Cost is what a plan costs; of several the one with the least is taken. The order is that of
// the fields. Source: framework/preemption pickOneNodeForPreemption.
type Cost struct {
	// Violations is how many victims exceed a disruption budget; 0 where budgets are
	// respected.
	Violations int
	// Priority is that of the most important victim.
	Priority int32
	// PrioritySum adds up the priorities of the victims, each plus 2^31 so that more victims
	// never cost less.
	PrioritySum int64
	// Victims is how many there are. Those that leave already count in none of the fields,
	// unless the profile charges for them.
	Victims int
	// Started is when the first of the most important victims started, in nanoseconds since
	// 1970: the later, the cheaper. notStarted (the greatest number) for one that has not.
	Started int64
}

// notStarted is the start of a pod that the kubelet has not reported yet: later than all
// others. (Upstream takes the time of asking.)
const notStarted = math.MaxInt64

// priorityShift makes every priority positive.
const priorityShift = int64(math.MaxInt32) + 1

// Compare orders costs, the least first.
func (c Cost) Compare(d Cost) int {
	return cmp.Or(
		cmp.Compare(c.Violations, d.Violations),
		cmp.Compare(c.Priority, d.Priority),
		cmp.Compare(c.PrioritySum, d.PrioritySum),
		cmp.Compare(c.Victims, d.Victims),
		cmp.Compare(d.Started, c.Started),
	)
}

// costOf is the cost of victims sorted by importance.
func costOf(victims []seat, violations int, chargeLeaving bool) Cost {
	c := Cost{Violations: violations, Priority: math.MinInt32, Started: notStarted}
	for i := range victims {
		v := &victims[i]
		if v.pod.Deleting && !chargeLeaving {
			continue
		}
		if c.Victims == 0 {
			c.Priority = v.pod.Priority
		}
		if v.pod.Priority == c.Priority {
			c.Started = min(c.Started, v.started)
		}
		c.PrioritySum += int64(v.pod.Priority) + priorityShift
		c.Victims++
	}
	return c
}

// byImportance orders pods, the most important first: by priority, then by how long they have
// run, then by UID so that there is an order at all. Source: scheduler/util MoreImportantPod.
func byImportance(a, b seat) int {
	return cmp.Or(
		cmp.Compare(b.pod.Priority, a.pod.Priority),
		cmp.Compare(a.started, b.started),
		cmp.Compare(a.pod.UID, b.pod.UID),
	)
}

func seatOf(n *state.NodeInfo, p *state.Pod) seat {
	s := seat{node: n, pod: p, started: notStarted}
	if at, ok := p.Started(); ok {
		s.started = at.UnixNano()
	}
	return s
}
