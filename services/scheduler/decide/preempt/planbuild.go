package preempt

import (
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/pkg/placement/preempt"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/scheduler/decide/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/decide/shard"
)

// planBuild collects the content of a T2 or T4.
type planBuild struct {
	shard   *shard.State
	mandate txns.Authority
	docs    map[string]ledger.NodeDoc
	order   []string
	claims  []txns.NodeEntry
	keepers []txns.NodeEntry
	yields  int
}

func (nm *nominator) newPlan(a *attempt.Attempt, node *state.NodeInfo) (*planBuild, bool) {
	mandate, ok := nm.shard.Mandate(a.Offer.Partition)
	b := &planBuild{shard: nm.shard, mandate: mandate, docs: map[string]ledger.NodeDoc{}}
	doc := b.open(node.Node).Cover(ledger.KindNode, node.Node.ResourceVersion)
	b.docs[node.Node.UID] = doc
	return b, ok
}

// open returns a node's document without its finished entries.
func (b *planBuild) open(n *state.Node) ledger.NodeDoc { return b.openDoc(n.UID, n.Name) }

func (b *planBuild) openDoc(uid, name string) ledger.NodeDoc {
	if d, ok := b.docs[uid]; ok {
		return d
	}
	doc := b.shard.OpenDoc(uid, name)
	b.docs[uid], b.order = doc, append(b.order, uid)
	return doc
}

// victims claims the pods that must be evicted. Victims that are only reserved are asked back from their binders;
// false if one has no reservation that could be given back.
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
		b.claims = append(b.claims, txns.NodeEntry{NodeUID: doc.NodeUID, Entry: claim})
	}
	return true
}

// keep pins the pods that must stay; false if one is not bound yet.
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

func (b *planBuild) nomination(node *state.NodeInfo, entry ledger.Entry) txns.Nomination {
	return txns.Nomination{
		Authority: b.mandate, Hold: txns.NodeEntry{NodeUID: node.Node.UID, Entry: entry},
		Victims: b.claims, Yields: b.yields, Keepers: b.keepers, Docs: b.documents(), Facts: b.shard.View.TxnFacts(),
	}
}

func (b *planBuild) documents() []ledger.NodeDoc {
	out := make([]ledger.NodeDoc, 0, len(b.order))
	for _, uid := range b.order {
		out = append(out, b.docs[uid])
	}
	return out
}
