package view

import (
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/pkg/state"
)

// Follower observes every change to the nodes that exist, after the change and in order; *engine.Engine is one.
// Pods on a node that does not exist (yet) are delivered with SetNode. SetNode is not called for a version of a node
// that reads like the one before (state.Node.ReadsLike), which a heartbeat leaves; the NodeInfo has the new version.
type Follower interface {
	SetNode(n *state.NodeInfo)
	DropNode(n *state.NodeInfo)
	// ChangePod reports that a pod was added (before is nil), removed (after is nil) or replaced by another version.
	ChangePod(n *state.NodeInfo, before, after *state.Pod)
	// SetUsable reports whether a node may accept a placement now. A new node may until SetUsable is called for it.
	SetUsable(n *state.NodeInfo, usable bool)
}

// noFollower ignores everything.
type noFollower struct{}

func (noFollower) SetNode(*state.NodeInfo)                           {}
func (noFollower) DropNode(*state.NodeInfo)                          {}
func (noFollower) ChangePod(*state.NodeInfo, *state.Pod, *state.Pod) {}
func (noFollower) SetUsable(*state.NodeInfo, bool)                   {}

// nodeTable holds the nodes and what counts on each. Every change of it is reported to the follower.
type nodeTable struct {
	follower Follower
	// slots has a slot for each node, and for each name on which pods count before its node exists.
	slots map[string]*slot
	// existing are the nodes that exist, in name order: a stable order makes decisions replayable.
	existing []*state.NodeInfo
	// byUID finds the slot of a node that exists.
	byUID map[string]*slot
	// version changes when a node appears, disappears or is replaced under its name.
	version uint64
	// dirty are the slots that have changed since Settle, and those that were not usable then.
	dirty map[*slot]struct{}
	// unadmitted are the slots of nodes that have to be admitted before they can be used.
	unadmitted map[*slot]struct{}
}

// slot is the place of one node name.
type slot struct {
	name string
	info *state.NodeInfo
	// placed is true while info is in nodeTable.existing, that is while the node exists.
	placed bool
	// usable is the value last reported to the follower.
	usable bool
}

func newNodeTable(f Follower, version uint64) *nodeTable {
	return &nodeTable{
		follower: f, version: version, slots: map[string]*slot{}, byUID: map[string]*slot{},
		dirty: map[*slot]struct{}{}, unadmitted: map[*slot]struct{}{},
	}
}

// renewed drops every node from the follower, and returns an empty table of a later version.
func (t *nodeTable) renewed() *nodeTable {
	for _, n := range t.existing {
		t.follower.DropNode(n)
	}
	return newNodeTable(t.follower, t.version+1)
}

// set adds a node, or replaces what is known of it. Pods that were counted on its name before it existed are
// delivered with it.
func (t *nodeTable) set(n *state.Node) {
	s := t.slot(n.Name)
	old := s.info.Node
	if old == nil || old.UID != n.UID {
		t.version++
		if old != nil {
			delete(t.byUID, old.UID)
		}
	}
	s.info.SetNode(n)
	t.byUID[n.UID] = s
	if !s.placed {
		s.placed, s.usable = true, true
		i, _ := slices.BinarySearchFunc(t.existing, s.info, byName)
		t.existing = slices.Insert(t.existing, i, s.info)
	}
	if old == nil || !old.ReadsLike(n) {
		t.follower.SetNode(s.info)
	}
	t.markDirty(s) // whether the node is admitted depends on its version
}

func byName(a, b *state.NodeInfo) int { return strings.Compare(a.Node.Name, b.Node.Name) }

// drop removes a node, and returns its slot, on which pods may still count; nil if the node is not there. The caller
// then calls forget.
func (t *nodeTable) drop(n *state.Node) *slot {
	s, ok := t.byUID[n.UID]
	if !ok {
		return nil
	}
	delete(t.byUID, n.UID)
	if i, found := slices.BinarySearchFunc(t.existing, s.info, byName); found {
		t.existing = slices.Delete(t.existing, i, i+1)
	}
	s.placed = false
	t.version++
	t.follower.DropNode(s.info)
	s.info.SetNode(nil)
	return s
}

// forget drops a slot that neither a node nor a pod needs.
func (t *nodeTable) forget(s *slot) {
	if !s.placed && s.info.PodCount() == 0 {
		delete(t.slots, s.name)
	}
}

// slot returns the slot of a node name, and creates it if there is none.
func (t *nodeTable) slot(name string) *slot {
	s, ok := t.slots[name]
	if !ok {
		s = &slot{name: name, info: state.NewNodeInfo(nil)}
		t.slots[name] = s
	}
	return s
}

// addPod adds a pod to a slot, whether its node exists or not. The follower learns of pods on existing nodes only.
func (t *nodeTable) addPod(s *slot, pod *state.Pod) {
	s.info.AddPod(pod)
	if s.placed {
		t.follower.ChangePod(s.info, nil, pod)
		t.markDirty(s)
	}
}

// replacePod replaces a version of a pod by another one, on the same slot. A version that counts like the one before
// leaves the slot as usable as it was.
func (t *nodeTable) replacePod(s *slot, before, after *state.Pod) {
	s.info.ReplacePod(after)
	if s.placed {
		t.follower.ChangePod(s.info, before, after)
		if !before.CountsLike(after) {
			t.markDirty(s)
		}
	}
}

// removePod reverts addPod.
func (t *nodeTable) removePod(s *slot, pod *state.Pod) {
	s.info.RemovePod(pod.UID)
	if s.placed {
		t.follower.ChangePod(s.info, pod, nil)
		t.markDirty(s)
	}
}

// markDirty makes Settle recheck a slot.
func (t *nodeTable) markDirty(s *slot) { t.dirty[s] = struct{}{} }

// markNameDirty makes Settle recheck the node of a name.
func (t *nodeTable) markNameDirty(name string) {
	if s, ok := t.slots[name]; ok && s.placed {
		t.markDirty(s)
	}
}

// markAllDirty makes Settle recheck every node.
func (t *nodeTable) markAllDirty() {
	for _, s := range t.byUID {
		t.markDirty(s)
	}
}
