package decide

import (
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/services/scheduler/decide/attempt"
)

// submit sends the staged batch if no transaction is in flight. Nodes and terms that attempts wait for come first,
// each in a transaction of its own; then changes of plans and batches alternate.
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

// ledgerMoved passes changes of the ledger's view on to the parts.
func (c *Core) ledgerMoved(changes replica.Changes) {
	c.shard.View.ApplyLedger(changes)
	c.shard.Claims.FollowLedger(changes)
	c.preempt.FollowLedger(changes)
	c.shard.Avoid.FollowDocs(changes.Docs)
	c.performing.FollowLedger(changes.PodUIDs)
}
