package view

import (
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Follower observes every change to the nodes that exist, after the change and in order; *engine.Engine is one.
// Pods on a node that does not exist (yet) are delivered with SetNode.
type Follower interface {
	SetNode(n *state.NodeInfo)
	DropNode(n *state.NodeInfo)
	AddPod(n *state.NodeInfo, pod *state.Pod)
	RemovePod(n *state.NodeInfo, pod *state.Pod)
	// SetUsable reports whether a node may accept a placement now. A new node may until SetUsable is called for it.
	SetUsable(n *state.NodeInfo, usable bool)
}

type nobody struct{}

func (nobody) SetNode(*state.NodeInfo)               {}
func (nobody) DropNode(*state.NodeInfo)              {}
func (nobody) AddPod(*state.NodeInfo, *state.Pod)    {}
func (nobody) RemovePod(*state.NodeInfo, *state.Pod) {}
func (nobody) SetUsable(*state.NodeInfo, bool)       {}

// usability keeps track of which nodes may accept a placement.
type usability struct {
	follower Follower
	// doubtful are the slots that have changed since Settle, and those that were not usable then.
	doubtful map[*slot]struct{}
	// unadmitted are the slots of nodes that have to be admitted before they can be used.
	unadmitted map[*slot]struct{}
}

func newUsability(f Follower) usability {
	return usability{follower: f, doubtful: map[*slot]struct{}{}, unadmitted: map[*slot]struct{}{}}
}

func (u *usability) doubt(s *slot) { u.doubtful[s] = struct{}{} }

// Settle determines which nodes may accept a placement now and reports that to the follower. Four conditions must
// hold: the node's high-water is reached, the facts describe every pod that is reserved there (an unknown pod could
// repel or be repelled by any pod), the node's name stands for the node, and its document has room. Settle returns
// how many nodes may not because the facts are behind: a pod that fits no other node may yet fit one of those.
// While the progress is undefined that is every node, and Settle reports nothing to the follower. Its cost depends
// on what changed, not on the size of the cluster.
func (v *View) Settle() (behind int) {
	progress, ok := v.store.Position().Progress(events.KindPod)
	if !ok {
		return len(v.nodes)
	}
	for s := range v.doubtful {
		if !s.placed {
			delete(v.doubtful, s)
			delete(v.unadmitted, s)
			continue
		}
		doc := v.ledger.Open(s.info.Node.UID, s.info.Node.Name, 0)
		late := s.info.UndescribedPods() > 0 || progress < doc.HighWater(ledger.KindPod) ||
			doc.HighWater(ledger.KindClaim) > 0 && v.ClaimProgress() < doc.HighWater(ledger.KindClaim)
		if !v.admitted(s) {
			late = true
		}
		if late {
			behind++
		}
		usable := !late && doc.HasRoom()
		if usable != s.usable {
			s.usable = usable
			v.follower.SetUsable(s.info, usable)
		}
		if usable {
			delete(v.doubtful, s)
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
		v.unadmitted[s] = struct{}{}
	} else {
		delete(v.unadmitted, s)
	}
	return admission == replica.Admitted
}

// Unadmitted returns, by name, up to limit of the nodes that Settle has found not to be admitted.
func (v *View) Unadmitted(limit int) []*state.Node {
	if len(v.unadmitted) == 0 {
		return nil
	}
	var nodes []*state.Node
	for s := range v.unadmitted {
		if s.placed && !v.admitted(s) {
			nodes = append(nodes, s.info.Node)
		}
	}
	slices.SortFunc(nodes, func(a, b *state.Node) int { return strings.Compare(a.Name, b.Name) })
	return nodes[:min(limit, len(nodes))]
}
