package decide

import (
	"github.com/berth-scheduler/berth/services/scheduler/internal/attempt"
)

// submit sends the staged batch if nothing is in flight. Nodes and terms that attempts wait for go
// first, each time in a transaction of their own; then deeds and batches in turns.
func (c *Core) submit() {
	if c.slot.Busy() || c.slot.Waits() || c.admitter.Admit() || c.terms.Register() {
		return
	}
	waiting := c.attempts.Count(attempt.Staged) > 0
	if (!c.plans.alternate || !waiting) && c.act() {
		c.plans.alternate = true
		return
	}
	c.plans.alternate = false
	for !c.slot.Busy() && c.attempts.Count(attempt.Staged) > 0 {
		c.reserver.Send()
	}
}
