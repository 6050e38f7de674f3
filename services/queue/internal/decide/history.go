package decide

import (
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
)

// history is what the core knows of earlier attempts. Their answers are in the decisions log, which every replica
// reads whether it leads or not, so that a new leader knows attempts, backoffs and what parked pods wait for. Facts
// and decisions are two logs; an answer about a pod that the facts have not shown yet is kept as a ghost.
type history struct {
	// ghosts hold what is known of attempts at pods that the facts have not shown.
	ghosts map[string]*entry
	// sequence is the last sequence read from the decisions log.
	sequence uint64
	// stored is when the log stored that record; zero if that is not known.
	stored time.Time
	// again means that the log is being read once more, up to target at least, because it has lost records.
	again  bool
	target uint64
	// recalled is the sequence up to which this life's memory knows all answers but not the pods that were let go,
	// because an earlier version wrote it. It is 0 once the decisions up to there have been read again.
	recalled uint64
	// remembered means that this life began with a memory and has not read the ledger yet.
	remembered bool
	// primed means that there are facts. A pod that they do not show at an answer's sequence is gone.
	primed bool
	// caughtUp means that the decisions made before this replica started have been read. Nothing is offered before
	// that, because old answers would pass for answers to new offers.
	caughtUp bool
}

// ghostLimit bounds the ghosts. Each dropped ghost is an attempt that is not counted.
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

// remembered returns the entry of a pod that is new to the facts, with what is known of earlier attempts at it.
func (c *Core) remembered(uid string) *entry {
	g, ok := c.history.ghosts[uid]
	if !ok {
		return &entry{}
	}
	delete(c.history.ghosts, uid)
	return g
}

// resume puts a pod that has just become known into the pool where its last answer left it.
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

// primed records that there are facts now.
func (c *Core) primed() {
	c.history.primed = true
	c.forgetGhosts()
}

// forgetGhosts drops what is known of pods that the facts would have shown by now.
func (c *Core) forgetGhosts() {
	c.quotas.ForgetHidden(c.quotaFacts())
	for uid, g := range c.history.ghosts {
		if g.verdict.factSequence <= c.world.facts.Sequence {
			delete(c.history.ghosts, uid)
		}
	}
}

// shortened records that the decisions log now ends at last and has lost records that were read. What they reported
// about attempts stays known.
func (c *Core) shortened(through, last uint64, now moment) {
	c.history.sequence = through
	c.history.stored = time.Time{}
	c.history.recalled = 0
	c.history.again, c.history.target = true, last
	c.leases.decided = min(c.leases.decided, last)
	c.quotas.LogShortened()
	c.readAgain(now)
}

// readAgain schedules another request for each pod that was let go by a decision which the log has lost, once the log
// has been read again: other replicas and the binders may not know of the pod.
func (c *Core) readAgain(now moment) {
	if !c.history.again || c.history.sequence < c.history.target {
		return
	}
	c.history.again = false
	c.quotas.LogReadAgain(c.timeOf(now))
}

// trustMemory moves the remembered verdicts forward to a ledger revision. No reservation that the memory knew is
// gone, and one that came and went since was not counted when its pods were parked. So nothing in the ledger up to
// now can help the parked pods either.
func (c *Core) trustMemory(revision int64) {
	for _, all := range []map[string]*entry{c.history.ghosts, c.pods} {
		for _, e := range all {
			if e.verdict.remembered {
				e.verdict.ledgerRevision = revision
			}
		}
	}
}
