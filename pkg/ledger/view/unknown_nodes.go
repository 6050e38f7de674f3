package view

import (
	"slices"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
)

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
	seen, _ := v.store.Position().Progress(events.KindNode)
	for uid, since := range v.tally.onUnknownNodes {
		c, counted := v.tally.counted[uid]
		if !counted || c.slot.placed || c.since != since || seen >= since {
			delete(v.tally.onUnknownNodes, uid)
			continue
		}
		if v.vouched(uid, c) {
			return true
		}
	}
	return false
}

// vouched reports whether a document of the node name that a pod is bound to has promised the pod, or may have.
func (v *View) vouched(uid string, c count) bool {
	return slices.ContainsFunc(v.ledger.Names().Docs(c.slot.name), func(d ledger.NodeDoc) bool {
		return d.HW[ledger.KindPod] >= c.since || slices.ContainsFunc(d.Entries, func(e ledger.Entry) bool {
			return e.Role == ledger.RoleReservation && e.PodUID == uid
		})
	})
}

// noteUnknownNode records a bound pod that counts on a node which the facts do not show.
func (v *View) noteUnknownNode(uid string, c count) {
	if !c.slot.placed && c.pod.NodeName != "" {
		v.tally.onUnknownNodes[uid] = c.since
	}
}
