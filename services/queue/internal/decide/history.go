package decide

import (
	"time"

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
	// stored is when the log stored that record; zero if that is not known.
	stored time.Time
	// again: the log is read once more, up to target at least, because it has lost records.
	again  bool
	target uint64
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

// shortened takes in that the log of decisions ends at last and has lost records that were read. What they said of
// attempts is known, and stays.
func (c *Core) shortened(through, last uint64, now moment) {
	c.history.sequence = through
	c.history.stored = time.Time{}
	c.history.recalled = 0
	c.history.again, c.history.target = true, last
	c.leases.decided = min(c.leases.decided, last)
	for _, l := range c.quotas.leaving {
		l.unread = true
	}
	c.readAgain(now)
}

// readAgain has the pods that were let go asked about again, once the log has been read, whose decision it has lost:
// other replicas may not know of them, nor the binders.
func (c *Core) readAgain(now moment) {
	if !c.history.again || c.history.sequence < c.history.target {
		return
	}
	c.history.again = false
	q := &c.quotas
	for _, l := range q.leaving {
		if l.unread && !l.late {
			l.until, q.due = now, now
		}
		l.unread = false
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
