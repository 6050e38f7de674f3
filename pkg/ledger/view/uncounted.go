package view

import (
	"slices"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Uncounted lists the nodes on which there may be pods that this View does not count, or counts without knowing
// what they are: their high-water is not reached, or a reserved pod is not described. elsewhere reports that there
// may be such pods on nodes that the facts do not show yet, whatever their labels, or that there are some on nodes
// that seem gone (HasPodsOnUnknownNodes). Both are empty most of the time, and then cheap to determine. A caller
// that relies on a count over a domain must not have one of these nodes in the domain: the ledger view includes
// placements that are missing from the count.
func (v *View) Uncounted() (nodes []*state.NodeInfo, elsewhere bool) {
	pods, podsKnown := v.facts.store.Position().Progress(events.KindPod)
	seen, nodesKnown := v.facts.store.Position().Progress(events.KindNode)
	if !podsKnown || !nodesKnown {
		return v.nodes.existing, true
	}
	if v.HasPodsOnUnknownNodes() {
		return nil, true
	}
	if v.tally.undescribed == 0 && pods >= v.ledger.HighWater(ledger.KindPod) &&
		seen >= v.ledger.HighWater(ledger.KindNode) {
		return nil, false
	}
	for _, n := range v.nodes.existing {
		doc := v.ledger.Open(n.Node.UID, n.Node.Name, 0)
		if n.UndescribedPods() > 0 || pods < doc.HighWater(ledger.KindPod) || seen < doc.HighWater(ledger.KindNode) {
			nodes = append(nodes, n)
		}
	}
	for doc := range v.ledger.Docs() {
		if _, known := v.nodes.byUID[doc.NodeUID]; !known && seen < doc.HW[ledger.KindNode] {
			return nodes, true
		}
	}
	return nodes, false
}

// HasPodsOnUnknownNodes reports whether a pod that the ledger has promised is bound to a node that the facts do not
// show, while the facts about nodes are older than the bind. The node may exist: it was deleted and has registered
// again, and this View has applied the pod's bind and the node's deletion, but not yet its registration. Such a pod
// counts in no domain, so counts over the whole cluster are wrong. Facts that are later than every bind to a node
// prove that a missing node is gone for good.
//
// Pods without a promise in the ledger are ignored: otherwise any user who may create pods with a nodeName could
// defer the pods of all other users. The set is almost always empty, and then the check costs nothing. While the
// progress of nodes is undefined, every promised pod on a missing node counts as one.
func (v *View) HasPodsOnUnknownNodes() bool {
	seen, _ := v.facts.store.Position().Progress(events.KindNode)
	for uid, since := range v.tally.onUnknownNodes {
		c, counted := v.tally.counted[uid]
		if !counted || c.slot.placed || c.since != since || seen >= since {
			delete(v.tally.onUnknownNodes, uid)
			continue
		}
		if v.promisedOnName(uid, c) {
			return true
		}
	}
	return false
}

// promisedOnName reports whether a document of the node name that a pod is bound to has promised the pod, or may have.
func (v *View) promisedOnName(uid string, c count) bool {
	return slices.ContainsFunc(v.ledger.Names().Docs(c.slot.name), func(d ledger.NodeDoc) bool {
		return d.HW[ledger.KindPod] >= c.since || slices.ContainsFunc(d.Entries, func(e ledger.Entry) bool {
			return e.Role == ledger.RoleReservation && e.PodUID == uid
		})
	})
}
