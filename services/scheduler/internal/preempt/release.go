package preempt

import (
	"slices"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/services/scheduler/internal/attempt"
)

// release is the T8 of a place that was kept for a pod which has gone elsewhere.
type release struct {
	by   *reconciler
	plan string
}

func (r *release) Kind() string { return "T8" }

func (r *release) Done(int64) { r.by.budgets.stale = true }

// tooLarge: what is left is the binders' to sweep.
func (r *release) TooLarge(string) {}

func (r *release) Undone(_ ledger.Lost) {
	c := r.by
	c.releases = append(c.releases, r.plan)
}

// missedPlaces notes, when a pod has a place, that one of those kept for it will not be wanted:
// the first of which the pod that it replaces is going. (Before that it is no replacement, but
// one more.)
func (c *reconciler) missedPlaces(a *attempt.Attempt) {
	for _, plan := range a.Missed {
		_, e, ok := c.shard.Ledger.PlanOwner(plan)
		if !ok || e.Role != ledger.RoleMove || slices.Contains(c.releases, plan) {
			continue
		}
		if _, victim, claimed := c.shard.Ledger.Victim(e.PodUID); claimed {
			if fate, _ := c.shard.View.VictimFate(victim.PodUID, victim.PodRV); fate == ledger.Staying {
				continue
			}
		}
		c.releases = append(c.releases, plan)
		return
	}
}

// releaseOne sends T8 for a place that nobody will want; true if it is on its way.
func (c *reconciler) releaseOne() bool {
	for len(c.releases) > 0 {
		plan := c.releases[0]
		c.releases = c.releases[1:]
		if _, e, ok := c.shard.Ledger.PlanOwner(plan); !ok || e.Role != ledger.RoleMove {
			continue
		}
		// What cannot be sent is released by the binders, after a while.
		if c.sendAbort(&release{by: c, plan: plan}, c.abortOf(plan), "") == nil {
			return true
		}
	}
	return false
}
