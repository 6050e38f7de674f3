package decide

import (
	"slices"
	"time"

	"github.com/berth-scheduler/berth/services/scheduler/internal/avoid"
)

// turnAfter is how many lost races make an attempt ask for a turn at the node that it lost last (avoid.Turns).
const turnAfter = 3

// ownTurn is an attempt's wait for its turn at a node.
type ownTurn struct {
	nodeUID string
	until   time.Time
	granted bool
}

// pending reports whether the attempt still has to wait for its turn.
func (t ownTurn) pending(now time.Time) bool {
	return t.nodeUID != "" && !t.granted && now.Before(t.until)
}

// askTurn asks for a turn at the node that an attempt has just lost.
func (c *Core) askTurn(a *attempt) {
	if c.shard.Home == nil || a.pick.nodeUID == "" {
		return
	}
	a.turn = ownTurn{nodeUID: a.pick.nodeUID, until: c.shard.Now.Add(avoid.TurnPatience)}
	c.turns.Ask(a.turn.nodeUID, c.shard.Now)
}

// passTurns ends turns that have lasted too long, hands out those that were given, and ends waits that have lasted too
// long.
func (c *Core) passTurns() {
	c.turns.Expire(c.shard.Now)
	if granted := c.turns.Granted(); len(granted) > 0 {
		for _, a := range c.attempts.byPod {
			if !a.turn.granted && slices.Contains(granted, a.turn.nodeUID) {
				a.turn.granted = true
				c.stirred = true
			}
		}
	}
	for _, a := range c.attempts.in(deferred) {
		if a.turn.nodeUID != "" && !a.turn.granted && !c.shard.Now.Before(a.turn.until) {
			a.turn = ownTurn{}
			c.stirred = true
		}
	}
}

// soon reports whether time alone will change something in less than a heartbeat.
func (c *Core) soon() bool {
	return c.turns.Running() || c.flight == nil && len(c.cross.asked) > 0 ||
		slices.ContainsFunc(c.attempts.in(deferred), func(a *attempt) bool { return a.turn.pending(c.shard.Now) })
}
