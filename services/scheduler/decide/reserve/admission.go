package reserve

import (
	"slices"

	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/scheduler/decide/shard"
	"github.com/berth-scheduler/berth/services/scheduler/decide/txn"
)

// admitAtOnce is the maximum number of nodes that one transaction admits (T15): each needs two or three operations,
// and its documents are written again.
const admitAtOnce = 32

// Admitter admits nodes whose names the ledger assigns to other nodes, or to none (T15).
type Admitter struct {
	Shard *shard.State
	Slot  *txn.Slot
	// after is the revision that the ledger's watch must have reached before nodes are admitted again.
	after int64
}

// Admit sends the T15 of nodes whose names the ledger assigns to other nodes, or to none; true if it has been sent.
// Nothing is placed on these nodes before it is committed.
func (n *Admitter) Admit() bool {
	if n.Shard.Draining || !n.Shard.Usable() || n.Shard.Ledger.Revision() < n.after {
		return false
	}
	nodes := n.Shard.View.Unadmitted(admitAtOnce)
	for limit := admitAtOnce; limit > 0; limit /= 2 {
		tooLarge := false
		for some := range slices.Chunk(nodes, limit) {
			err := n.sendAdmission(some)
			if n.Slot.Busy() {
				return true
			}
			tooLarge = tooLarge || txn.IsTooLarge(err)
		}
		if !tooLarge {
			return false
		}
	}
	return false
}

// sendAdmission sends one T15, unless none of the nodes can be admitted. Nodes that cannot be admitted now are left
// out.
func (n *Admitter) sendAdmission(nodes []*state.Node) error {
	var all txns.Change
	for _, node := range nodes {
		change, err := txns.AdmitNode{
			NodeUID: node.UID, NodeName: node.Name, NodeRV: node.ResourceVersion,
			Known: n.Shard.Ledger.Names().Incarnation(node.Name), Docs: n.Shard.Ledger.Names().Docs(node.Name),
			Floor: n.Shard.Ledger.Floor(),
		}.Admit()
		if err == nil {
			all.Docs = append(all.Docs, change.Docs...)
			all.Incarnations = append(all.Incarnations, change.Incarnations...)
		}
	}
	if len(all.Incarnations) == 0 {
		return nil
	}
	return n.Slot.Launch(&admission{n}, all)
}

// admission is a T15 in flight. Whether it is committed or lost, the view of the ledger shows the outcome.
type admission struct{ by *Admitter }

// Kind implements txn.Proposal.
func (*admission) Kind() string { return "T15" }

// Done implements txn.Proposal. Attempts staged on these nodes before were not decided on the documents as they are
// now, although this shard has changed them itself; so the slot forgets that it wrote them.
func (a *admission) Done(int64) { a.by.Slot.Forget() }

// Undone implements txn.Proposal.
func (a *admission) Undone(lost txns.Outcome) { a.by.after = txn.LostAt(lost) }

// TooLarge implements txn.Proposal: fewer nodes are admitted next.
func (*admission) TooLarge(string) {}
