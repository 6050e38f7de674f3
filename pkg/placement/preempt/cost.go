package preempt

import (
	"cmp"
	"math"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Cost is the cost of a plan; the cheapest plan wins. The fields are compared in their order. Source:
// framework/preemption pickOneNodeForPreemption.
type Cost struct {
	// Violations is the number of victims that exceed a disruption budget; 0 where budgets are respected.
	Violations int
	// Priority is the priority of the most important victim.
	Priority int32
	// PrioritySum is the sum of the victims' priorities, each plus 2^31 so that more victims never cost less.
	PrioritySum int64
	// Victims is the number of victims. Victims that are already terminating count in none of the fields, unless
	// the profile charges for them.
	Victims int
	// Started is when the earliest of the most important victims started, in nanoseconds since 1970: the later, the
	// cheaper. It is notStarted (the largest number) for a victim that has not started.
	Started int64
}

// notStarted is the start time of a pod that the kubelet has not reported yet: later than all others. (Upstream
// uses the current time.)
const notStarted = math.MaxInt64

// priorityShift makes every priority positive.
const priorityShift = int64(math.MaxInt32) + 1

// Compare orders costs, the lowest first: a negative number means that c is cheaper than d. A later start is
// cheaper, because the pod has done less work.
func (c Cost) Compare(d Cost) int {
	return cmp.Or(
		cmp.Compare(c.Violations, d.Violations),
		cmp.Compare(c.Priority, d.Priority),
		cmp.Compare(c.PrioritySum, d.PrioritySum),
		cmp.Compare(c.Victims, d.Victims),
		cmp.Compare(d.Started, c.Started),
	)
}

// CostOf returns the cost of victims that are sorted by importance. Victims that are already terminating are
// skipped unless chargeLeaving is set.
func CostOf(victims []placement.PlacedPod, violations int, chargeLeaving bool) Cost {
	c := Cost{Violations: violations, Priority: math.MinInt32, Started: notStarted}
	for i := range victims {
		v := &victims[i]
		if v.Pod.Deleting && !chargeLeaving {
			continue
		}
		if c.Victims == 0 {
			c.Priority = v.Pod.Priority
		}
		if v.Pod.Priority == c.Priority {
			c.Started = min(c.Started, v.Started)
		}
		c.PrioritySum += int64(v.Pod.Priority) + priorityShift
		c.Victims++
	}
	return c
}

// ByImportance orders pods, the most important first: by priority, then by how long they have run, then by UID so
// that the order is total. Source: scheduler/util MoreImportantPod.
func ByImportance(a, b placement.PlacedPod) int {
	return cmp.Or(
		cmp.Compare(b.Pod.Priority, a.Pod.Priority),
		cmp.Compare(a.Started, b.Started),
		cmp.Compare(a.Pod.UID, b.Pod.UID),
	)
}

// PlacedPodOf returns a pod on a node, with its start time.
func PlacedPodOf(n *state.NodeInfo, p *state.Pod) placement.PlacedPod {
	s := placement.PlacedPod{Node: n, Pod: p, Started: notStarted}
	if at, ok := p.Started(); ok {
		s.Started = at.UnixNano()
	}
	return s
}
