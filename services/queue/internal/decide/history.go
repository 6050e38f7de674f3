package decide

import (
	"github.com/berth-scheduler/berth/pkg/events"
)

// What became of earlier attempts is in the decisions log, and every replica reads it, be
// it leading or not: so that whoever takes over knows attempts, backoffs and what parked
// pods wait for. Facts and decisions are two logs; an answer about a pod that the facts
// have not shown yet is kept with its ghost.
type history struct {
	// ghosts are what is known of the attempts at pods that the facts have not shown.
	ghosts map[string]*entry
	// sequence is the last one read of the decisions log.
	sequence uint64
	// recalled is the sequence up to which the memory of this life knows all answers, and nobody that was let go: an
	// earlier version wrote it. 0 once the decisions up to there have been read again.
	recalled uint64
	// remembered: this life began with a memory, and has not looked at the ledger yet.
	remembered bool
	// primed: there are facts. A pod that they do not show by an answer's sequence is gone.
	primed bool
	// caughtUp: the decisions made before this replica started are read. Nothing is offered
	// before, or old answers would pass for those to new offers.
	caughtUp bool
}

// ghostLimit bounds the ghosts. What is dropped is an attempt not counted.
const ghostLimit = 1 << 20

// haunt keeps an answer about a pod that the facts have not shown.
func (c *Core) haunt(d *events.Decision, now moment) {
	g, ok := c.history.ghosts[d.Pod.UID]
	if !ok {
		gone := c.history.primed && d.FactSequence <= c.world.facts.Sequence
		if gone || !isAnswer(d.Kind) || len(c.history.ghosts) >= ghostLimit {
			return
		}
		g = &entry{}
		c.history.ghosts[d.Pod.UID] = g
	}
	switch {
	case d.Kind == events.DecisionCondition:
		c.conditionWritten(g, d)
	case isAnswer(d.Kind) && c.isNews(g, d):
		c.tally(g, d, now)
	}
}

// remembered is the entry of a pod that is new to the facts, with what is known of earlier
// attempts at it.
func (c *Core) remembered(uid string) *entry {
	g, ok := c.history.ghosts[uid]
	if !ok {
		return &entry{}
	}
	delete(c.history.ghosts, uid)
	return g
}

// resume puts a pod that has just become known where its last answer left it.
func (c *Core) resume(e *entry, now moment) {
	if e.await.on && e.await.version != 0 && e.pod.ResourceVersion >= e.await.version {
		e.await = await{}
	}
	switch {
	case e.hold.live || e.pod.Gated:
		c.free(e, eventPodAdd, now)
	case e.verdict.kind == events.DecisionUnplaceable, e.verdict.kind == events.DecisionHeldBack:
		c.park(e, now)
	case e.verdict.kind == events.DecisionFailed:
		c.backOff(e, now)
		c.requeue(e, eventPodAdd, now)
	case e.verdict.kind == events.DecisionQuarantined:
		c.enter(e, c.bags.quarantine, eventPodAdd, now)
	default:
		c.free(e, eventPodAdd, now)
	}
}

// primed notes that there are facts now.
func (c *Core) primed() {
	c.history.primed = true
	c.forgetGhosts()
}

// forgetGhosts drops what is known of pods that the facts would have shown by now.
func (c *Core) forgetGhosts() {
	c.forgetHidden()
	for uid, g := range c.history.ghosts {
		if g.verdict.factSequence <= c.world.facts.Sequence {
			delete(c.history.ghosts, uid)
		}
	}
}

// trustMemory: no reservation of those that the memory knew is gone, and one that came and
// went since was not counted when its pods were parked. So nothing of the ledger up to now
// can help them either.
func (c *Core) trustMemory(revision int64) {
	for _, all := range []map[string]*entry{c.history.ghosts, c.pods} {
		for _, e := range all {
			if e.verdict.remembered {
				e.verdict.ledgerRevision = revision
			}
		}
	}
}
