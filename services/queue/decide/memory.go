package decide

import (
	"github.com/berth-scheduler/berth/services/queue/decide/memory"
	"github.com/berth-scheduler/berth/services/queue/decide/waiting"
)

// Remember encodes what the core knows of attempts. decisions is the sequence of the decisions log up to which it
// does.
func (c *Core) Remember() (data []byte, decisions uint64) {
	w := memory.NewWriter(memory.Head{
		Decisions: c.decisions.sequence, Stored: c.decisions.stored,
		Facts: c.world.Facts.Sequence, Epoch: c.world.Facts.Epoch, Ledger: c.world.Revision,
	})
	for uid := range c.backlog.live {
		w.Live(uid)
	}
	for uid, e := range c.backlog.pods {
		if e.Attempt.Count > 0 || e.Attempt.Lost > 0 || e.Attempt.Released > 0 {
			w.Pod(remembered(uid, e, e.In == c.backlog.pools.Parked))
		}
	}
	for uid, decided := range c.budgets.Leaving.All() {
		w.Leaving(uid, decided)
	}
	return w.Finish(), c.decisions.sequence
}

// remembered returns what a later life must know of the attempts at a pod.
func remembered(uid string, e *waiting.Entry, parked bool) *memory.Pod {
	a, v := &e.Attempt, &e.Verdict
	return &memory.Pod{
		UID: uid, Attempts: a.Count, Answered: a.Answered, Lost: a.Lost, Released: a.Released,
		Rejections: v.Rejections, Errors: v.Errors, Kind: v.Kind, Message: v.Message, Plugins: v.Plugins,
		Facts: v.FactSequence, Ledger: v.LedgerRevision,
		Parked: parked, Waits: e.Await.On, Version: e.Await.Version,
	}
}

// Remembered is a memory as an input, for a core that knows nothing yet.
type Remembered struct{ Memory *memory.Memory }

func (in Remembered) apply(c *Core, now waiting.Moment) {
	if c.world.Primed || c.world.Revision != 0 {
		return
	}
	m := in.Memory
	c.decisions.sequence, c.decisions.stored = m.Decisions, m.Stored
	c.decisions.remembered = true
	if !m.Complete {
		c.decisions.recalled = m.Decisions
	}
	for uid, decided := range m.Leaving {
		c.budgets.Leaving.Recall(uid, decided, c.clock.timeOf(now))
	}
	c.world.Revision = m.Ledger
	for _, uid := range m.Live {
		c.backlog.live[uid] = nil
	}
	until := now.Add(c.cfg.ConditionWait)
	for i := range m.Pods {
		c.backlog.unseen[m.Pods[i].UID] = recall(&m.Pods[i], &m.Head, until)
	}
}

// recall returns the entry of a pod from a memory. It waits until the given moment for a condition that was already
// awaited when the memory was written.
func recall(p *memory.Pod, at *memory.Head, until waiting.Moment) *waiting.Entry {
	e := &waiting.Entry{}
	e.Attempt = waiting.Attempt{Count: p.Attempts, Answered: p.Answered, Lost: p.Lost, Released: p.Released}
	e.Verdict = waiting.Verdict{
		Kind: p.Kind, Rejections: p.Rejections, Errors: p.Errors, Message: p.Message, Plugins: p.Plugins,
		FactSequence: p.Facts, FactEpoch: at.Epoch, LedgerRevision: p.Ledger,
	}
	if p.Parked {
		// Nothing up to the memory's position could help it.
		e.Verdict.Remembered = true
		e.Verdict.FactSequence = max(e.Verdict.FactSequence, at.Facts)
		e.Verdict.LedgerRevision = max(e.Verdict.LedgerRevision, at.Ledger)
	}
	if p.Waits {
		e.Await = waiting.Await{On: true, Until: until, Version: p.Version}
	}
	return e
}
