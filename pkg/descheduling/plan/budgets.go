package plan

import (
	"github.com/berth-scheduler/berth/pkg/descheduling"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
)

// budgets are the disruption budgets with what the plan takes from them.
type budgets struct {
	*placement.Budgets
	taken map[string]int32
}

func newBudgets(cluster *state.Snapshot, claimed func(uid string) int32) *budgets {
	return &budgets{Budgets: placement.NewBudgets(cluster, claimed), taken: map[string]int32{}}
}

// refuse returns the budgets that the eviction of a pod takes from, or why it would be
// refused: the eviction API serves no pod that more than one budget covers.
func (b *budgets) refuse(pod *state.Pod) (uids []string, r descheduling.Refusal) {
	charged := b.Charged(pod)
	if len(charged) > 1 {
		return nil, ManyBudgets
	}
	for _, c := range charged {
		if c.Left-b.taken[c.UID] <= 0 {
			return nil, NoBudget
		}
		uids = append(uids, c.UID)
	}
	return uids, ""
}

func (b *budgets) take(uids []string) {
	for _, uid := range uids {
		b.taken[uid]++
	}
}
