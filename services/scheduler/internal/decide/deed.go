package decide

import (
	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/services/scheduler/internal/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/internal/step"
	"github.com/berth-scheduler/berth/services/scheduler/internal/txn"
)

// ledgerMoved passes on what has changed in the ledger's picture.
func (c *Core) ledgerMoved(changes ledger.ViewChanges) {
	c.shard.View.ApplyLedger(changes)
	c.shard.Claims.FollowLedger(changes)
	c.followPlans(changes)
	c.shard.Avoid.FollowDocs(changes.Docs)
	if len(c.performing.bindable) > 0 {
		for _, uid := range changes.PodUIDs {
			c.seeBound(uid)
		}
	}
}

// act sends the next deed there is, if any. Holds come first: room that is free at last, or
// held for nothing, is worth more than the next plan.
func (c *Core) act() bool {
	if c.shard.Draining || !c.shard.Usable() {
		return false
	}
	return c.tend() || c.releaseOne() || c.seek()
}

// lostDeed puts an attempt whose deed was lost back, or gives it back if it has lost too often.
func (c *Core) lostDeed(a *attempt.Attempt, lost ledger.Lost) {
	reason := step.LostNode
	switch {
	case len(lost.Partitions) > 0:
		reason = step.LostPartition
	case len(lost.Guards) > 0:
		reason = step.LostGuard
	case len(lost.Budgets) > 0 && len(lost.Docs) == 0:
		reason = step.LostBudget
	case len(lost.Exclusives) > 0 && len(lost.Docs) == 0:
		reason = step.LostVolume
	}
	c.effects.Report(a.Lost(reason))
	c.record.Lost(a, reason)
	a.Losses++
	if reason == step.LostPartition || a.Doubtful || a.Losses >= attempt.MaxLosses {
		c.life.GiveBack(a)
		return
	}
	a.Wait.Revision = max(a.Wait.Revision, txn.LostAt(lost))
	c.life.Again(a)
}

func refOf(e ledger.Entry) events.PodRef {
	return events.PodRef{UID: e.PodUID, Namespace: e.Namespace, Name: e.Name}
}
