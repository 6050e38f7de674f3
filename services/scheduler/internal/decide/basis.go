package decide

import (
	"maps"
	"slices"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/services/scheduler/internal/step"
)

// recording is what the records of decisions are put together from, beside the decisions.
type recording struct {
	// chosen counts decisions that chose a node, for events.Evidence.Order, and moments the looks
	// at nodes, for events.Basis.Moment.
	chosen, moments uint64
	// ahead is what the picture of the ledger has that its watch has not told of yet.
	ahead []events.Learned
}

// basis is what the decision that is made now depends on beside facts, ledger and pod; of avoided
// nodes the UIDs. It counts as a moment.
func (c *Core) basis(profile *placement.Profile, avoided []string) events.Basis {
	c.moments++
	if c.shard.NoEvidence {
		return events.Basis{}
	}
	b := events.Basis{
		Moment: c.moments, FactEpoch: c.shard.Store.Position().Epoch, Learned: c.learnedAhead(),
		Avoided: c.shard.NamesOf(avoided), Whole: !c.shard.HomeFirst,
	}
	if avoided := c.shard.Gate.Avoided(); len(avoided) > 0 {
		names := c.shard.NamesOf(slices.Collect(maps.Keys(avoided)))
		b.Unlisted = len(names) > events.MaxLeftAlone
		b.LeftAlone = names[:min(len(names), events.MaxLeftAlone)]
	}
	if usable, _ := c.shard.Engine.Candidates(); profile.SampleSize(usable) < usable {
		b.Start, b.HomeStart = int32(c.start[0]), int32(c.start[1])
	}
	return b
}

// prefer notes that the choice prefers a node.
func (c *Core) prefer(e *events.Evidence, nodeUID string) {
	if n, ok := c.shard.View.Node(nodeUID); ok && e != nil {
		e.Basis.Preferred = n.Node.Name
	}
}

// learnedOwn and learned note what the picture of the ledger is about to learn ahead of its watch,
// by an own transaction and by one that was lost. (What the registry and guards learn is left out:
// no choice of a node depends on it.)
func (c *Core) learnedOwn(revision int64) {
	if !c.shard.NoEvidence && revision > c.shard.Ledger.Revision() {
		c.ahead = append(c.ahead, events.Learned{Revision: revision})
	}
}

func (c *Core) learned(current []ledger.KV) {
	if c.shard.NoEvidence {
		return // nobody would read it, nor shorten it
	}
	for _, kv := range current {
		l := events.Learned{Revision: kv.ModRevision, Key: kv.Key}
		if kv.ModRevision > c.shard.Ledger.Revision() && !slices.Contains(c.ahead, l) {
			c.ahead = append(c.ahead, l)
		}
	}
}

// learnedAhead is what the watch has not told of yet, in the order of learning.
func (c *Core) learnedAhead() []events.Learned {
	told := c.shard.Ledger.Revision()
	c.ahead = slices.DeleteFunc(c.ahead, func(l events.Learned) bool { return l.Revision <= told })
	return slices.Clone(c.ahead)
}

// abandon makes a record of a choice that comes to nothing, if there is none: pods that were
// decided after it may have counted it.
func (c *Core) abandon(a *attempt) {
	if e := a.pick.evidence; e != nil && e.Order > a.told {
		c.effects.Abandon(c.lostRecord(a, step.Abandoned))
	}
}
