package view

import (
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Settle determines which nodes may accept a placement now and reports that to the follower. Four conditions must
// hold: the node's high-water is reached, the facts describe every pod that is reserved there (an unknown pod could
// repel or be repelled by any pod), the node's name stands for the node, and its document has room. Settle returns
// how many nodes may not because the facts are behind: a pod that fits no other node may yet fit one of those.
// While the progress is undefined that is every node, and Settle reports nothing to the follower. Its cost depends
// on what changed, not on the size of the cluster.
func (v *View) Settle() (behind int) {
	progress, ok := v.facts.store.Position().Progress(events.KindPod)
	if !ok {
		return len(v.nodes.existing)
	}
	for s := range v.nodes.dirty {
		if !s.placed {
			delete(v.nodes.dirty, s)
			delete(v.nodes.unadmitted, s)
			continue
		}
		doc := v.ledger.Open(s.info.Node.UID, s.info.Node.Name, 0)
		late := s.info.UndescribedPods() > 0 || progress < doc.HighWater(ledger.KindPod) ||
			doc.HighWater(ledger.KindClaim) > 0 && v.facts.ClaimProgress() < doc.HighWater(ledger.KindClaim)
		if !v.admitted(s) {
			late = true
		}
		if late {
			behind++
		}
		usable := !late && doc.HasRoom()
		if usable != s.usable {
			s.usable = usable
			v.nodes.follower.SetUsable(s.info, usable)
		}
		if usable {
			delete(v.nodes.dirty, s)
		}
	}
	return behind
}

// admitted reports whether the name of a slot's node stands for that node, and records it if the node has to be
// admitted first.
func (v *View) admitted(s *slot) bool {
	n := s.info.Node
	admission := v.ledger.Names().Admission(n.UID, n.Name, n.ResourceVersion)
	if admission == replica.Unadmitted {
		v.nodes.unadmitted[s] = struct{}{}
	} else {
		delete(v.nodes.unadmitted, s)
	}
	return admission == replica.Admitted
}

// Unadmitted returns, by name, up to limit of the nodes that Settle has found not to be admitted.
func (v *View) Unadmitted(limit int) []*state.Node {
	if len(v.nodes.unadmitted) == 0 {
		return nil
	}
	var nodes []*state.Node
	for s := range v.nodes.unadmitted {
		if s.placed && !v.admitted(s) {
			nodes = append(nodes, s.info.Node)
		}
	}
	slices.SortFunc(nodes, func(a, b *state.Node) int { return strings.Compare(a.Name, b.Name) })
	return nodes[:min(limit, len(nodes))]
}
