package reserve

import (
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/services/scheduler/decide/attempt"
)

// StoreAlternatives stores the next-best nodes of a decision. A pod that a rule beyond its node concerns has none, as
// the needs of its placement differ from node to node.
func (r *Reserver) StoreAlternatives(a *attempt.Attempt, ranked []placement.Scored, concerned bool) {
	a.Alternatives = [attempt.MaxAlternatives]attempt.Alternative{}
	if concerned {
		return
	}
	i := 0
	for _, s := range ranked {
		if i == attempt.MaxAlternatives || s.Node.Node.UID == a.Pick.NodeUID {
			continue
		}
		a.Alternatives[i] = attempt.Alternative{
			Node: s.Node, Generation: s.Node.Generation, Basis: r.Shard.Ledger.Version(s.Node.Node.UID),
		}
		i++
	}
}

// nextBest stages an attempt that lost its node on the next-best one, without another search. It does so only if
// nothing has changed there since, so that the decision would have had this result without the lost node. The
// transaction compares the same revisions as any other.
func (r *Reserver) nextBest(a *attempt.Attempt) bool {
	pod, known := r.Shard.View.Pod(a.Pod.UID)
	if !known || pod != a.Pod || a.Pick.Needs.Registry != r.Shard.Ledger.Terms().RegistryRevision() {
		return false
	}
	if _, _, reserved := r.Shard.Ledger.Entry(a.Pod.UID); reserved {
		return false
	}
	for i, o := range a.Alternatives {
		if o.Node == nil || !r.nodeUnchanged(o) {
			continue
		}
		a.Alternatives[i] = attempt.Alternative{}
		r.Life.Unstage(a)
		a.Pick.NodeUID = o.Node.Node.UID
		a.Pick.NodeName = o.Node.Node.Name
		a.Pick.Basis = o.Basis
		a.Pick.NodeRV = o.Node.Node.ResourceVersion
		a.Pick.Evidence = r.Record.NumberAlternative(a.Pick.Evidence, i+1)
		r.Shard.View.Stage(a.Pod, a.Pick.NodeName)
		r.Attempts.Append(attempt.Staged, a)
		return true
	}
	return false
}

// nodeUnchanged reports whether a next-best node, its pods and its document are those that the decision saw, and the
// node is usable and has room in its document.
func (r *Reserver) nodeUnchanged(o attempt.Alternative) bool {
	if o.Node.Node == nil || o.Node.Generation != o.Generation || !r.Shard.Gate.Usable(o.Node) {
		return false
	}
	doc, _ := r.Shard.Ledger.Doc(o.Node.Node.UID)
	return r.Shard.Ledger.Version(o.Node.Node.UID) == o.Basis && doc.HasRoom()
}
