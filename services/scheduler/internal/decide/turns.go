package decide

import (
	"maps"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/services/scheduler/internal/avoid"
)

// Where everybody wants the same few nodes, as a profile that packs does, optimism fails: of
// several shards one wins each round, and nothing says that it is not always the same. So who
// has lost turnAfter races asks the home shard of the node that it lost to for a turn. The
// home shard gives one turn at a time, in the order of asking; all others leave the node
// alone until the one whose turn it is has placed there, or for turnLength.
//
// The pod stays with its own shard, whose epoch its transaction compares: handed over to the
// home shard, a pod would have two that may decide about it, and nothing in the ledger to tell
// which one does. And a turn is a courtesy: what keeps nodes from being overcommitted is the
// ledger, with turns or without.

const (
	// turnAfter is how many lost races make an attempt ask for a turn.
	turnAfter = 3
	// turnLength is how long a turn lasts at most: some round trips to the ledger.
	turnLength = 300 * time.Millisecond
	// turnPatience is how long an attempt waits for its turn before it goes on without: as
	// long as a few others before it take.
	turnPatience = 4 * turnLength
	// turnQueue is how many shards may wait for one node; more are not answered.
	turnQueue = 16
)

// turns is what a shard knows of them.
type turns struct {
	// running are the turns that have been heard of, by node UID.
	running map[string]turn
	// waiting are the shards that want one, first come first; only at the node's home shard.
	waiting map[string][]string
	// out are messages to send.
	out []events.Turn
}

type turn struct {
	shard string
	until time.Time
}

// ownTurn is an attempt's wait for its turn at a node.
type ownTurn struct {
	nodeUID string
	until   time.Time
	granted bool
}

// pending says whether the attempt has to wait for its turn still.
func (t ownTurn) pending(now time.Time) bool {
	return t.nodeUID != "" && !t.granted && now.Before(t.until)
}

// askTurn asks for a turn at the node that an attempt has just lost.
func (c *Core) askTurn(a *attempt) {
	if c.cfg.Home == nil || a.pick.nodeUID == "" {
		return
	}
	node := a.pick.nodeUID
	a.turn = ownTurn{nodeUID: node, until: c.now.Add(turnPatience)}
	ask := events.Turn{NodeUID: node, Shard: c.cfg.Shard}
	if c.homeOf(node) {
		c.hearTurn(ask)
		return
	}
	c.turns.out = append(c.turns.out, ask)
}

// homeOf says whether this shard is the one that gives turns at a node.
func (c *Core) homeOf(nodeUID string) bool {
	return c.cfg.Home != nil && c.cfg.Home(c.shards(), nodeUID)
}

// hearTurn takes in what a shard says, this one included.
func (c *Core) hearTurn(t events.Turn) {
	switch {
	case t.Granted:
		c.beginTurn(t)
	case c.homeOf(t.NodeUID):
		queue := c.turns.waiting[t.NodeUID]
		if len(queue) < turnQueue && !slices.Contains(queue, t.Shard) {
			if c.turns.waiting == nil {
				c.turns.waiting = map[string][]string{}
			}
			c.turns.waiting[t.NodeUID] = append(queue, t.Shard)
		}
		c.nextTurn(t.NodeUID)
	}
}

// nextTurn gives the next turn at a node, at its home shard, if nobody's is running.
func (c *Core) nextTurn(nodeUID string) {
	queue := c.turns.waiting[nodeUID]
	if _, running := c.turns.running[nodeUID]; running || len(queue) == 0 {
		return
	}
	next := events.Turn{NodeUID: nodeUID, Shard: queue[0], Granted: true}
	if queue = queue[1:]; len(queue) == 0 {
		delete(c.turns.waiting, nodeUID)
	} else {
		c.turns.waiting[nodeUID] = queue
	}
	c.turns.out = append(c.turns.out, next)
	c.beginTurn(next)
}

func (c *Core) beginTurn(t events.Turn) {
	if c.turns.running == nil {
		c.turns.running = map[string]turn{}
	}
	c.turns.running[t.NodeUID] = turn{shard: t.Shard, until: c.now.Add(turnLength)}
	if t.Shard != c.cfg.Shard {
		c.avoid.Begin(t.NodeUID, avoid.Turn)
		return
	}
	c.avoid.End(t.NodeUID, avoid.Turn)
	for _, a := range c.attempts.byPod {
		if a.turn.nodeUID == t.NodeUID && !a.turn.granted {
			a.turn.granted = true
			c.stirred = true
		}
	}
}

// endTurn ends a turn, and gives the next.
func (c *Core) endTurn(nodeUID string) {
	delete(c.turns.running, nodeUID)
	c.avoid.End(nodeUID, avoid.Turn)
	c.nextTurn(nodeUID)
}

// turnsTaken ends the turns of shards that have placed where they wanted to.
func (c *Core) turnsTaken(changes ledger.ViewChanges) {
	if len(c.turns.running) == 0 {
		return
	}
	for _, d := range changes.Docs {
		t, running := c.turns.running[d.After.NodeUID]
		if running && slices.ContainsFunc(d.After.Entries, func(e ledger.Entry) bool {
			if e.Role != ledger.RoleReservation || e.Shard != t.shard {
				return false
			}
			old, was := d.Before.Find(e.PodUID)
			return !was || old.Token != e.Token
		}) {
			c.endTurn(d.After.NodeUID)
		}
	}
}

// passTurns ends turns that have lasted too long, and waits that have.
func (c *Core) passTurns() {
	for _, uid := range slices.Sorted(maps.Keys(c.turns.running)) {
		if !c.now.Before(c.turns.running[uid].until) {
			c.endTurn(uid)
		}
	}
	for _, a := range c.attempts.in(deferred) {
		if a.turn.nodeUID != "" && !a.turn.granted && !c.now.Before(a.turn.until) {
			a.turn = ownTurn{}
			c.stirred = true
		}
	}
}

// soon says whether time alone will change something in less than a heartbeat.
func (c *Core) soon() bool {
	return len(c.turns.running) > 0 || c.flight == nil && len(c.cross.asked) > 0 ||
		slices.ContainsFunc(c.attempts.in(deferred), func(a *attempt) bool { return a.turn.pending(c.now) })
}
