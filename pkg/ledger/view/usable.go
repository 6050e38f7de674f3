package view

import (
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
}

func (u *usability) doubt(s *slot) { u.doubtful[s] = struct{}{} }

// Settle finds out which nodes may take a placement now and tells the follower. Those may:
// their high-water is reached, the facts describe every pod that is reserved there (an
// unknown pod could repel or be repelled by anything), and their document has room. It
// returns how many may not because the facts are behind: a pod that fits no other may yet
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
			continue
		}
		doc, _ := v.ledger.Doc(s.info.Node.UID)
		late := s.info.UndescribedPods() > 0 || progress < doc.HW[ledger.KindPod] ||
			doc.HW[ledger.KindClaim] > 0 && v.ClaimProgress() < doc.HW[ledger.KindClaim]
		if late {
			behind++
		}
		usable := !late && len(doc.Entries) < ledger.MaxEntries
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
