package view

import (
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Follower is told of every change to the nodes that exist, after it and in order;
// *placement.Engine is one. Pods on a node that is not there (yet) come with SetNode.
type Follower interface {
	SetNode(n *state.NodeInfo)
	DropNode(n *state.NodeInfo)
	AddPod(n *state.NodeInfo, pod *state.Pod)
	RemovePod(n *state.NodeInfo, pod *state.Pod)
	// SetUsable says whether a node may take a placement now. A new one may until then.
	SetUsable(n *state.NodeInfo, usable bool)
}

type nobody struct{}

func (nobody) SetNode(*state.NodeInfo)               {}
func (nobody) DropNode(*state.NodeInfo)              {}
func (nobody) AddPod(*state.NodeInfo, *state.Pod)    {}
func (nobody) RemovePod(*state.NodeInfo, *state.Pod) {}
func (nobody) SetUsable(*state.NodeInfo, bool)       {}

// usability keeps track of which nodes may take a placement.
type usability struct {
	follower Follower
	// doubtful are the slots that have changed since Settle, and those that were not usable
	// then.
	doubtful map[*slot]struct{}
	// unadmitted are the slots of nodes that have to be admitted before they can be used.
	unadmitted map[*slot]struct{}
}

func newUsability(f Follower) usability {
	return usability{follower: f, doubtful: map[*slot]struct{}{}, unadmitted: map[*slot]struct{}{}}
}

func (u *usability) doubt(s *slot) { u.doubtful[s] = struct{}{} }

// Settle finds out which nodes may take a placement now and tells the follower. Those may:
// their high-water is reached, the facts describe every pod that is reserved there (an
// unknown pod could repel or be repelled by anything), their name stands for them, and their
// document has room. It returns how many may not because the facts are behind: a pod that fits no other may yet
// fit one of those. While the progress is undefined that is all of them, and the follower
// is told nothing. It costs what changed, not the cluster.
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

// admitted reports whether the name of a slot's node stands for that node, and notes it if the
// node has to be admitted first.
func (v *View) admitted(s *slot) bool {
	n := s.info.Node
	admission := v.ledger.Admission(n.UID, n.Name, n.ResourceVersion)
	if admission == ledger.Unadmitted {
		v.unadmitted[s] = struct{}{}
	} else {
		delete(v.unadmitted, s)
	}
	return admission == ledger.Admitted
}

// Unadmitted are up to limit of the nodes that Settle has found not to be admitted, by name.
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
