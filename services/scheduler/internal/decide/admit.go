package decide

import (
	"slices"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/state"
)

// admitAtOnce is how many nodes one transaction admits (T15) at most: each takes two or three
// operations, and its documents are written again.
const admitAtOnce = 32

// admit sends the T15 of nodes whose names stand for other nodes, or for none; true if it is on its
// way. Until then nothing is placed on them.
func (c *Core) admit() bool {
	if c.shard.Draining || !c.shard.Usable() || c.shard.Ledger.Revision() < c.admitAfter {
		return false
	}
	nodes := c.shard.View.Unadmitted(admitAtOnce)
	for limit := admitAtOnce; limit > 0; limit /= 2 {
		tooLarge := false
		for some := range slices.Chunk(nodes, limit) {
			err := c.sendAdmission(some)
			if c.flight != nil {
				return true
			}
			tooLarge = tooLarge || isTooLarge(err)
		}
		if !tooLarge {
			return false
		}
	}
	return false
}

// sendAdmission sends one T15, unless none of the nodes can be admitted.
func (c *Core) sendAdmission(nodes []*state.Node) error {
	var all ledger.Change
	for _, n := range nodes {
		change, err := ledger.AdmitNode{
			NodeUID: n.UID, NodeName: n.Name, NodeRV: n.ResourceVersion,
			Known: c.shard.Ledger.Incarnation(n.Name), Docs: c.shard.Ledger.Named(n.Name), Floor: c.shard.Ledger.Floor(),
		}.Admit()
		if err == nil {
			all.Docs = append(all.Docs, change.Docs...)
			all.Incarnations = append(all.Incarnations, change.Incarnations...)
		}
	}
	if len(all.Incarnations) == 0 {
		return nil
	}
	return c.launch(&admission{}, all)
}

// admission is a T15 in flight. Won or lost, the picture of the ledger shows what has come of it.
type admission struct{}

func (*admission) kind() string { return "T15" }

// done: what is staged on the nodes before was not decided on the documents as they are now, although
// they were changed by this shard.
func (*admission) done(c *Core, _ int64) { c.written = nil }

func (*admission) undone(c *Core, lost ledger.Lost) { c.admitAfter = lostAt(lost) }

func (*admission) tooLarge(*Core, string) {} // fewer go next
