package view

import (
	"slices"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
)

// Astray reports whether a pod that was placed by way of the ledger is bound to the name of a node that the
// facts do not show although it may be there: the facts about nodes are older than the bind. A node that was
// deleted and has registered again is gone for a moment, to whoever has read of its pods before that. Who
// counts over the whole cluster does not count such pods. (That a node is gone for good shows in facts that
// are later than all binds to it.)
//
// Pods that somebody else binds to a name do not matter: else who may create pods could keep everybody
// waiting. It is almost never so, which costs nothing to find out. While the progress of nodes is undefined
// every such pod is one.
func (v *View) Astray() bool {
	seen, _ := v.store.Position().Progress(events.KindNode)
	for uid, since := range v.tally.astray {
		c, counted := v.tally.counted[uid]
		if !counted || c.slot.placed || c.since != since || seen >= since {
			delete(v.tally.astray, uid)
			continue
		}
		if v.vouched(uid, c) {
			return true
		}
	}
	return false
}

// vouched reports whether a document of the name that a pod is bound to has promised the pod, or may have.
func (v *View) vouched(uid string, c count) bool {
	return slices.ContainsFunc(v.ledger.Named(c.slot.name), func(d ledger.NodeDoc) bool {
		return d.HW[ledger.KindPod] >= c.since || slices.ContainsFunc(d.Entries, func(e ledger.Entry) bool {
			return e.Role == ledger.RoleReservation && e.PodUID == uid
		})
	})
}

// noteAstray keeps a pod that counts on a node which is not there, if it is bound.
func (v *View) noteAstray(uid string, c count) {
	if !c.slot.placed && c.pod.NodeName != "" {
		v.tally.astray[uid] = c.since
	}
}
