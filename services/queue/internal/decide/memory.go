package decide

import (
	"github.com/berth-scheduler/berth/services/queue/internal/memory"
)

// Remember encodes what the core knows of attempts. decisions is the sequence of the decisions log up to which it
// does.
func (c *Core) Remember() (data []byte, decisions uint64) {
	w := memory.NewWriter(memory.Head{
		Decisions: c.decisions.sequence, Stored: c.decisions.stored,
		Facts: c.world.facts.Sequence, Epoch: c.world.facts.Epoch, Ledger: c.world.revision,
	})
	for uid := range c.backlog.live {
		w.Live(uid)
	}
	for uid, e := range c.backlog.pods {
		if e.attempt.count > 0 || e.attempt.lost > 0 || e.attempt.released > 0 {
			w.Pod(e.remember(uid, e.in == c.backlog.pools.parked))
		}
	}
	for uid, decided := range c.budgets.Leaving() {
		w.Leaving(uid, decided)
	}
	return w.Finish(), c.decisions.sequence
}

// remember returns what a later life must know of the attempts at a pod.
func (e *entry) remember(uid string, parked bool) *memory.Pod {
	a, v := &e.attempt, &e.verdict
	return &memory.Pod{
		UID: uid, Attempts: a.count, Answered: a.answered, Lost: a.lost, Released: a.released,
		Rejections: v.rejections, Errors: v.errors, Kind: v.kind, Message: v.message, Plugins: v.plugins,
		Facts: v.factSequence, Ledger: v.ledgerRevision,
		Parked: parked, Waits: e.await.on, Version: e.await.version,
	}
}

// Remembered is a memory as an input, for a core that knows nothing yet.
type Remembered struct{ Memory *memory.Memory }

func (in Remembered) apply(c *Core, now moment) {
	if c.world.primed || c.world.revision != 0 {
		return
	}
	m := in.Memory
	c.decisions.sequence, c.decisions.stored = m.Decisions, m.Stored
	c.decisions.remembered = true
	if !m.Complete {
		c.decisions.recalled = m.Decisions
	}
	for uid, decided := range m.Leaving {
		c.budgets.Recall(uid, decided, c.clock.timeOf(now))
	}
	c.world.revision = m.Ledger
	for _, uid := range m.Live {
		c.backlog.live[uid] = nil
	}
	until := now.add(c.cfg.ConditionWait)
	for i := range m.Pods {
		c.backlog.unseen[m.Pods[i].UID] = recall(&m.Pods[i], &m.Head, until)
	}
}

// recall returns the entry of a pod from a memory. It waits until the given moment for a condition that was already
// awaited when the memory was written.
func recall(p *memory.Pod, at *memory.Head, until moment) *entry {
	e := &entry{}
	e.attempt = attempt{count: p.Attempts, answered: p.Answered, lost: p.Lost, released: p.Released}
	e.verdict = verdict{
		kind: p.Kind, rejections: p.Rejections, errors: p.Errors, message: p.Message, plugins: p.Plugins,
		factSequence: p.Facts, factEpoch: at.Epoch, ledgerRevision: p.Ledger,
	}
	if p.Parked {
		// Nothing up to the memory's position could help it.
		e.verdict.remembered = true
		e.verdict.factSequence = max(e.verdict.factSequence, at.Facts)
		e.verdict.ledgerRevision = max(e.verdict.ledgerRevision, at.Ledger)
	}
	if p.Waits {
		e.await = await{on: true, until: until, version: p.Version}
	}
	return e
}
