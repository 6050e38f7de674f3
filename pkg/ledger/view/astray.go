package view

import (
	"maps"

	"github.com/berth-scheduler/berth/pkg/events"
)

// Astray reports whether a pod is bound to the name of a node that the facts do not show although it may be
// there: the facts about nodes are older than the bind. A node that was deleted and has registered again is
// gone for a moment, to whoever has read of its pods before that. Who counts over the whole cluster does not
// count such pods. (That a node is gone for good shows in facts that are later than all binds to it.)
//
// It is almost never so, which costs nothing to find out. While the progress of nodes is undefined every such
// pod is one.
func (v *View) Astray() bool {
	if len(v.tally.astray) == 0 {
		return false
	}
	seen, _ := v.store.Position().Progress(events.KindNode)
	maps.DeleteFunc(v.tally.astray, func(uid string, since uint64) bool {
		c, counted := v.tally.counted[uid]
		return !counted || c.slot.placed || c.since != since || seen >= since
	})
	return len(v.tally.astray) > 0
}

// noteAstray keeps a pod that counts on a node which is not there, if it is bound.
func (v *View) noteAstray(uid string, c count) {
	if !c.slot.placed && c.pod.NodeName != "" {
		v.tally.astray[uid] = c.since
	}
}
