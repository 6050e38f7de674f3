package decide

import (
	"slices"

	"github.com/berth-scheduler/berth/services/scheduler/decide/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/decide/avoid"
)

// askTurn asks for a turn at the node that an attempt has just lost.
func (c *Core) askTurn(a *attempt.Attempt) {
	if c.shard.Home == nil || a.Pick.NodeUID == "" {
		return
	}
	a.Turn = attempt.OwnTurn{NodeUID: a.Pick.NodeUID, Until: c.shard.Now.Add(avoid.TurnPatience)}
	c.turns.Ask(a.Turn.NodeUID, c.shard.Now)
}

// passTurns ends turns that have lasted too long, hands out the granted turns, and ends waits that have lasted too
// long.
func (c *Core) passTurns() {
	c.turns.Expire(c.shard.Now)
	if granted := c.turns.Granted(); len(granted) > 0 {
		for _, a := range c.attempts.ByPod {
			if !a.Turn.Granted && slices.Contains(granted, a.Turn.NodeUID) {
				a.Turn.Granted = true
				c.life.Stir()
			}
		}
	}
	for _, a := range c.attempts.In(attempt.Deferred) {
		if a.Turn.NodeUID != "" && !a.Turn.Granted && !c.shard.Now.Before(a.Turn.Until) {
			a.Turn = attempt.OwnTurn{}
			c.life.Stir()
		}
	}
}

// soon reports whether time alone will change something before the next heartbeat.
func (c *Core) soon() bool {
	pending := func(a *attempt.Attempt) bool { return a.Turn.Pending(c.shard.Now) }
	return c.turns.Running() || !c.slot.Busy() && c.terms.Waiting() ||
		slices.ContainsFunc(c.attempts.In(attempt.Deferred), pending)
}
