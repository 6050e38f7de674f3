package decide

import (
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/services/queue/decide/waiting"
)

// newEpoch voids the verdicts that were computed from facts which are lost.
func (b *backlog) newEpoch() {
	known := b.world.Epochs
	for _, all := range []map[string]*waiting.Entry{b.pods, b.unseen} {
		for _, e := range all {
			e.Verdict.FactSequence = known.Valid(e.Verdict.FactSequence, e.Verdict.FactEpoch)
		}
	}
	b.pools.NewEpoch(known)
}

// advance records how far the facts have been applied.
func (c *Core) advance(to waiting.Position, objects rule.Objects, now waiting.Moment) {
	after := c.world.Facts.Sequence
	c.world.Facts, c.world.Objects = to, objects
	if c.world.NewEpoch(after + 1) {
		c.backlog.newEpoch()
		c.backlog.wakeVoid(now)
	}
}

// rewind records the position of a store that was rebuilt. Its last fact is of its epoch, whatever came before; and
// changes of pods after that position have not happened in this store.
func (c *Core) rewind(to waiting.Position, objects rule.Objects) {
	c.world.Facts, c.world.Objects = to, objects
	if c.world.NewEpoch(to.Sequence) {
		c.backlog.newEpoch()
	}
	for _, e := range c.backlog.pods {
		e.Sequence = min(e.Sequence, to.Sequence)
	}
}
