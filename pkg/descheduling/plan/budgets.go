package plan

import (
	"math"

	"github.com/berth-scheduler/berth/pkg/descheduling"
	"github.com/berth-scheduler/berth/pkg/placement/preempt"
)

// budgets holds the disruption budgets with what the plan takes from them.
type budgets struct {
	*preempt.Budgets
	taken map[string]int32
	// spare is Input.Spare; limits caches its results.
	spare  func(uid string) int
	limits map[string]int
}

func newBudgets(in *Input) *budgets {
	return &budgets{
		Budgets: preempt.NewBudgets(in.Cluster, in.Claimed), taken: map[string]int32{},
		spare: in.Spare, limits: map[string]int{},
	}
}

// refuse returns the budgets that an eviction of the pod is charged to, or why it would be refused: the eviction
// API does not evict a pod that more than one budget covers. A pod whose eviction can only be requested is requested
// whatever its budget has left, and takes from it like any other.
func (b *budgets) refuse(pod *descheduling.Pod) (uids []string, r descheduling.Refusal) {
	charged := b.Charged(pod.Pod)
	if len(charged) > 1 {
		return nil, ManyBudgets
	}
	for _, c := range charged {
		spent := c.Left-b.taken[c.UID] <= 0 || b.taken[c.UID] > 0 && int(b.taken[c.UID]) >= b.limit(c.UID)
		if spent && !pod.ByRequest {
			return nil, NoBudget
		}
		uids = append(uids, c.UID)
	}
	return uids, ""
}

// limit returns how much may be taken from a budget in total, according to the pods in the facts; see Input.Spare.
func (b *budgets) limit(uid string) int {
	if b.spare == nil {
		return math.MaxInt
	}
	limit, known := b.limits[uid]
	if !known {
		limit = b.spare(uid)
		b.limits[uid] = limit
	}
	return limit
}

// take counts one planned eviction against each budget.
func (b *budgets) take(uids []string) {
	for _, uid := range uids {
		b.taken[uid]++
	}
}
