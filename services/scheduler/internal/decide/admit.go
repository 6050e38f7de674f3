package decide

import (
	"github.com/berth-scheduler/berth/pkg/ledger"
)

// admitAtOnce is how many nodes one transaction admits (T15) at most: each takes two or three
// operations, and its documents are written again.
const admitAtOnce = 32

// admit sends the T15 of nodes whose names stand for other nodes, or for none; true if it is on its
// way. Until then nothing is placed on them.
func (c *Core) admit(out *Output) bool {
	if c.draining || !c.usable() || c.ledger.Revision() < c.admitAfter {
		return false
	}
	for limit := admitAtOnce; limit > 0; limit /= 2 {
		var all ledger.Change
		for _, n := range c.view.Unadmitted(limit) {
			change, err := ledger.AdmitNode{
				NodeUID: n.UID, NodeName: n.Name, NodeRV: n.ResourceVersion,
				Known: c.ledger.Incarnation(n.Name), Docs: c.ledger.Named(n.Name), Floor: c.ledger.Floor(),
			}.Admit()
			if err == nil {
				all.Docs = append(all.Docs, change.Docs...)
				all.Incarnations = append(all.Incarnations, change.Incarnations...)
			}
		}
		if len(all.Incarnations) == 0 {
			return false
		}
		if err := c.launch(&admission{}, all, out); !isTooLarge(err) {
			return err == nil
		}
	}
	return false
}

// admission is a T15 in flight. Won or lost, the picture of the ledger shows what has come of it.
type admission struct{}

func (*admission) kind() string { return "T15" }

// done: what is staged on the nodes before was not decided on the documents as they are now, although
// they were changed by this shard.
func (*admission) done(c *Core, _ int64, _ *Output) { c.written = nil }

func (*admission) undone(c *Core, lost ledger.Lost, _ *Output) { c.admitAfter = lostAt(lost) }
