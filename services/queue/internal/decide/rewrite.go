package decide

import "github.com/berth-scheduler/berth/pkg/placement"

// newEpoch voids the verdicts that were computed from facts which are lost.
func (b *backlog) newEpoch() {
	known := b.world.epochs
	for _, all := range []map[string]*entry{b.pods, b.unseen} {
		for _, e := range all {
			e.verdict.factSequence = known.valid(e.verdict.factSequence, e.verdict.factEpoch)
		}
	}
	b.pools.lanes.newEpoch(known)
}

// advance records how far the facts have been applied.
func (c *Core) advance(to Position, objects placement.Objects, now moment) {
	after := c.world.facts.Sequence
	c.world.facts, c.world.objects = to, objects
	if c.world.newEpoch(after + 1) {
		c.backlog.newEpoch()
		c.backlog.wakeVoid(now)
	}
}

// rewind records the position of a store that was rebuilt. Its last fact is of its epoch, whatever came before; and
// changes of pods after that position have not happened in this store.
func (c *Core) rewind(to Position, objects placement.Objects) {
	c.world.facts, c.world.objects = to, objects
	if c.world.newEpoch(to.Sequence) {
		c.backlog.newEpoch()
	}
	for _, e := range c.backlog.pods {
		e.sequence = min(e.sequence, to.Sequence)
	}
}
