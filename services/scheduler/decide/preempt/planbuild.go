package preempt

import (
	"slices"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/pkg/placement/preempt"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/scheduler/decide/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/decide/shard"
)

// planBuild collects the content of a T2 or T4: the documents of all nodes that the plan concerns, each once, as
// this plan changes them.
type planBuild struct {
	shard *shard.State
	// authority is the epoch of the pod's partition with the registry of terms; docs are the documents by node UID,
	// order their UIDs in the order in which they were opened.
	authority txns.Authority
	docs      map[string]ledger.NodeDoc
	order     []string
	// claims are the claims on victims that must be evicted, keepers the pods that must stay. yields counts the
	// victims that are only reserved, and are asked back from their binders.
	claims  []txns.NodeEntry
	keepers []txns.NodeEntry
	yields  int
}

// newPlan returns a plan for a place on a node, with the node's document, whose high-water mark covers the node's
// version that was decided on. It returns false if this shard does not own the pod's partition.
func newPlan(s *shard.State, a *attempt.Attempt, node *state.NodeInfo) (*planBuild, bool) {
	authority, ok := s.Authority(a.Offer.Partition)
	b := &planBuild{shard: s, authority: authority, docs: map[string]ledger.NodeDoc{}}
	doc := b.open(node.Node).Cover(ledger.KindNode, node.Node.ResourceVersion)
	b.docs[node.Node.UID] = doc
	return b, ok
}

// open returns a node's document without its finished entries: the same one for every call of the plan.
func (b *planBuild) open(n *state.Node) ledger.NodeDoc { return b.openDoc(n.UID, n.Name) }

// openDoc is open for a node of which only the name is known.
func (b *planBuild) openDoc(uid, name string) ledger.NodeDoc {
	if d, ok := b.docs[uid]; ok {
		return d
	}
	doc := b.shard.OpenDoc(uid, name)
	b.docs[uid], b.order = doc, append(b.order, uid)
	return doc
}

// victims claims the pods that must be evicted, in the documents of their nodes. Victims that are only reserved are
// asked back from their binders (Wanted), which is not a claim: another plan may want the same reservation. It
// returns false if one has no reservation that could be given back: it is staged by this shard only, or held for a
// plan.
func (b *planBuild) victims(victims []preempt.Victim) bool {
	for _, v := range victims {
		doc := b.open(v.Node.Node)
		if v.Reserved {
			e, ok := doc.Find(v.Pod.UID)
			if !ok || e.State == ledger.Held {
				return false
			}
			if marked, changed, err := txns.MarkWanted(doc, e.PodUID, e.Token); err == nil && changed {
				b.docs[doc.NodeUID] = marked
			}
			b.yields++
			continue
		}
		claim := ledger.Entry{
			PodUID: v.Pod.UID, Namespace: v.Pod.Namespace, Name: v.Pod.Name,
			PodRV: v.Pod.ResourceVersion, Priority: v.Pod.Priority,
		}
		for _, budget := range v.Budgets {
			claim.Budgets = append(claim.Budgets, budget.UID)
		}
		b.claims = append(b.claims, txns.NodeEntry{
			NodeUID: doc.NodeUID, Entry: claim, Request: v.Pod.EvictsByRequest(),
		})
	}
	return true
}

// keep pins the pods that the placement relies on, so that no plan evicts them; false if one is not bound yet, as
// its reservation may still be taken back.
func (b *planBuild) keep(keepers []preempt.Keeper) bool {
	for _, k := range keepers {
		if k.Pod.NodeName == "" {
			return false
		}
		b.keepers = append(b.keepers, txns.NodeEntry{NodeUID: b.open(k.Node.Node).NodeUID, Entry: ledger.Entry{
			PodUID: k.Pod.UID, Namespace: k.Pod.Namespace, Name: k.Pod.Name,
		}})
	}
	return true
}

// request returns the content in the form of a T2. Budgets, guards and exclusive claims are added by the caller.
func (b *planBuild) request(node *state.NodeInfo, entry ledger.Entry) txns.Nomination {
	return txns.Nomination{
		Authority: b.authority, Hold: txns.NodeEntry{NodeUID: node.Node.UID, Entry: entry},
		Victims: b.claims, Yields: b.yields, Keepers: b.keepers, Docs: b.documents(), Facts: b.shard.View.TxnFacts(),
	}
}

// documents returns the documents in the order in which they were opened, which makes the transaction reproducible.
func (b *planBuild) documents() []ledger.NodeDoc {
	out := make([]ledger.NodeDoc, 0, len(b.order))
	for _, uid := range b.order {
		out = append(out, b.docs[uid])
	}
	return out
}

// except returns all documents of the build but one.
func (b *planBuild) except(nodeUID string) []ledger.NodeDoc {
	return slices.DeleteFunc(b.documents(), func(d ledger.NodeDoc) bool { return d.NodeUID == nodeUID })
}
