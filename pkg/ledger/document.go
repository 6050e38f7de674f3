package ledger

import (
	"fmt"
	"maps"
	"slices"
)

const (
	// KindPod is the kind of fact whose high-water is raised by hand-overs and fences.
	KindPod = "pod"
	// KindNode is the kind whose high-water every placement raises to the version of the node that the decision
	// used. A member that does not know the node yet, or not in that version, can detect this.
	KindNode = "node"
	// KindBudget is the kind of disruption budgets: the high-water of the budget claims that were settled.
	KindBudget = "poddisruptionbudget"
	// KindClaim is the kind of claims to devices: the high-water of the versions that reservations have written, or
	// have been kept from writing.
	KindClaim = "resourceclaim"
)

// Documents are values that are never changed in place. Every step below returns a copy that shares nothing mutable
// with its input, so a View can hand its documents out.

// Find returns the entry that reserves this node for the pod, and false if there is none.
func (d NodeDoc) Find(podUID string) (Entry, bool) {
	if i := d.index(podUID); i >= 0 {
		return d.Entries[i], true
	}
	return Entry{}, false
}

func (d NodeDoc) index(podUID string) int {
	return slices.IndexFunc(d.Entries, func(e Entry) bool {
		return e.Role == RoleReservation && e.PodUID == podUID
	})
}

// copy returns a document whose entries and high-water may be changed.
func (d NodeDoc) copy() NodeDoc {
	d.Entries = slices.Clone(d.Entries)
	d.HW = maps.Clone(d.HW)
	return d
}

// raise lifts the high-water of kind to rv; it never lowers it. d must be a copy.
func (d *NodeDoc) raise(kind string, rv uint64) { d.HW = raised(d.HW, kind, rv) }

// raised returns hw, changed in place, with the given kind at rv or higher.
func raised(hw map[string]uint64, kind string, rv uint64) map[string]uint64 {
	if rv <= hw[kind] {
		return hw
	}
	if hw == nil {
		hw = map[string]uint64{}
	}
	hw[kind] = rv
	return hw
}

// HighWater returns the high-water of a kind for the node's name: the highest of the document's own and those of
// the documents of nodes that had the name before.
func (d NodeDoc) HighWater(kind string) uint64 {
	hw := d.HW[kind]
	for older := d.Older; older != nil; older = older.Older {
		hw = max(hw, older.HW[kind])
	}
	return hw
}

// anyOf reports whether this document, or that of a node that had the name before, has an entry of the given role
// for a pod. (Documents of earlier nodes lose entries and gain none.)
func (d NodeDoc) anyOf(role Role, podUID string) bool {
	of := func(e Entry) bool { return e.Role == role && e.PodUID == podUID }
	return slices.ContainsFunc(d.Entries, of) || d.Older != nil && d.Older.anyOf(role, podUID)
}

// raisedTo returns hw, changed in place, with every kind at least as high as in other.
func raisedTo(hw, other map[string]uint64) map[string]uint64 {
	for kind, rv := range other {
		hw = raised(hw, kind, rv)
	}
	return hw
}

// Cover returns the document with its high-water of a kind at rv or higher.
func Cover(d NodeDoc, kind string, rv uint64) NodeDoc {
	if rv <= d.HW[kind] {
		return d
	}
	d.HW = raised(maps.Clone(d.HW), kind, rv)
	return d
}

// Place adds entries to a document. A new reservation starts Held or Committed, carries the resourceVersion and the
// token that its bind will need, and is the pod's only one on the node. Place returns a *DocTooLargeError when the
// entries do not fit, counting also how much they and the existing entries may still grow. It returns an
// *EntryTooLargeError when an entry would fit no document.
func Place(d NodeDoc, entries ...Entry) (NodeDoc, error) {
	d.Entries = append(make([]Entry, 0, len(d.Entries)+len(entries)), d.Entries...)
	for i := range entries {
		if err := placeable(d, entries[i]); err != nil {
			return NodeDoc{}, err
		}
		if err := entries[i].checkSize(); err != nil {
			return NodeDoc{}, err
		}
		d.Entries = append(d.Entries, entries[i])
	}
	if err := d.roomy(); err != nil {
		return NodeDoc{}, err
	}
	return d, nil
}

func placeable(d NodeDoc, e Entry) error {
	if d.SupersededBy != "" {
		return d.superseded(e.PodUID)
	}
	if v := checkEntry(d, e); len(v) > 0 {
		return v[0]
	}
	if e.Role == RoleVictim && (d.pinned(e.PodUID) || d.Claimed(e.PodUID)) {
		return &ClaimedError{NodeUID: d.NodeUID, PodUID: e.PodUID}
	}
	if e.Role != RoleReservation {
		return nil
	}
	if !legal(0, e.State) {
		return &TransitionError{NodeUID: d.NodeUID, PodUID: e.PodUID, To: e.State}
	}
	if old, ok := d.Find(e.PodUID); ok {
		return fmt.Errorf("ledger: node %s already holds a reservation of pod %s (token %s)", d.NodeUID, e.PodUID, old.Token)
	}
	return nil
}
