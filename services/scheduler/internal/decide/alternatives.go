package decide

import (
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
)

// maxAlternatives is how many of the next-best nodes an attempt remembers: one for each race
// that it may lose before it asks for a turn, and some that others have moved meanwhile.
const maxAlternatives = 4

// alternative is a node that would have been the choice if the better ones had not been
// there, as the decision saw it.
type alternative struct {
	node       *state.NodeInfo
	generation uint64
	basis      ledger.Version
}

// rememberOthers keeps the next-best nodes of a decision. A pod that a rule beyond its node
// concerns has none: what its placement needs differs from node to node.
func (c *Core) rememberOthers(a *attempt, ranked []placement.Scored, concerned bool) {
	a.others = [maxAlternatives]alternative{}
	if concerned {
		return
	}
	i := 0
	for _, s := range ranked {
		if i == maxAlternatives || s.Node.Node.UID == a.pick.nodeUID {
			continue
		}
		a.others[i] = alternative{
			node: s.Node, generation: s.Node.Generation, basis: c.shard.Ledger.Version(s.Node.Node.UID),
		}
		i++
	}
}

// nextBest stages an attempt that lost its node on the next-best one, without another search:
// only if nothing there has moved since, so that it is what the decision would have been
// without the lost node. The transaction compares the same revisions as any other.
func (c *Core) nextBest(a *attempt) bool {
	pod, known := c.shard.View.Pod(a.pod.UID)
	if !known || pod != a.pod || a.pick.needs.registry != c.shard.Ledger.TermRegistryRevision() {
		return false
	}
	if _, _, reserved := c.shard.Ledger.Entry(a.pod.UID); reserved {
		return false
	}
	for i, o := range a.others {
		if o.node == nil || !c.unmoved(o) {
			continue
		}
		a.others[i] = alternative{}
		c.unstage(a)
		a.pick.nodeUID = o.node.Node.UID
		a.pick.nodeName = o.node.Node.Name
		a.pick.basis = o.basis
		a.pick.nodeRV = o.node.Node.ResourceVersion
		a.pick.evidence = c.choseOther(a.pick.evidence, i+1)
		c.shard.View.Stage(a.pod, a.pick.nodeName)
		c.attempts.append(staged, a)
		return true
	}
	return false
}

func (c *Core) unmoved(o alternative) bool {
	if o.node.Node == nil || o.node.Generation != o.generation || !c.shard.Gate.Usable(o.node) {
		return false
	}
	doc, _ := c.shard.Ledger.Doc(o.node.Node.UID)
	return c.shard.Ledger.Version(o.node.Node.UID) == o.basis && doc.HasRoom()
}
