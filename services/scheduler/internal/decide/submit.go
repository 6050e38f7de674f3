package decide

import (
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/services/scheduler/internal/attempt"
)

// submit sends the staged batch if nothing is in flight. Nodes and terms that attempts wait for go
// first, each time in a transaction of their own; then deeds and batches in turns.
func (c *Core) submit() {
	if c.slot.Busy() || c.slot.Waits() || c.admitter.Admit() || c.terms.Register() {
		return
	}
	waiting := c.attempts.Count(attempt.Staged) > 0
	if (!c.alternate || !waiting) && c.preempt.Propose() {
		c.alternate = true
		return
	}
	c.alternate = false
	for !c.slot.Busy() && c.attempts.Count(attempt.Staged) > 0 {
		c.reserver.Send()
	}
}

// ledgerMoved passes on what has changed in the ledger's picture.
func (c *Core) ledgerMoved(changes replica.Changes) {
	c.shard.View.ApplyLedger(changes)
	c.shard.Claims.FollowLedger(changes)
	c.preempt.FollowLedger(changes)
	c.shard.Avoid.FollowDocs(changes.Docs)
	c.performing.FollowLedger(changes.PodUIDs)
}
