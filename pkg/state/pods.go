package state

import (
	"github.com/cespare/xxhash/v2"

	"github.com/berth-scheduler/berth/pkg/state/persist"
)

// podTable is the table of all pods. A pod has a slot for as long as it exists, and everything that leads to pods
// stores slots: the index by UID, the pages of names and the sites of nodes. So a new version of a pod, which is what
// most facts are about, changes one row and no index.
//
// A podTable is a value, and persistent: see package persist.
type podTable struct {
	rows persist.Array[*Pod]
	uids persist.Index
	// next is the first slot that no pod has had; free holds the slots that pods have left. Only the newest version
	// is asked for a slot.
	next uint32
	free []uint32
}

// hashUID returns the hash under which a UID is indexed. The index works with any: UIDs with one hash share a bucket.
func hashUID(uid string) uint64 { return xxhash.Sum64String(uid) }

// at returns the pod in a slot; nil if there is none.
func (t *podTable) at(slot uint32) *Pod { return t.rows.At(slot) }

// find returns the pod with a UID and its slot; nil if there is none.
func (t *podTable) find(uid string) (pod *Pod, slot uint32) {
	slot, _ = t.uids.Find(hashUID(uid), func(slot uint32) bool {
		p := t.rows.At(slot)
		if p == nil || p.UID != uid {
			return false
		}
		pod = p
		return true
	})
	return pod, slot
}

// podEdit is an edit of the table: a version that only one application sees until it publishes it.
type podEdit struct {
	podTable
	number persist.Edit
	// left holds the slots that pods have left in this edit. They are free for the next one: within an edit, a slot
	// stands for one pod, so that what was found in the old version of an index can be looked up in the new one.
	left []uint32
}

// insert adds a pod, whose UID no pod has, and returns its slot.
func (e *podEdit) insert(pod *Pod) (slot uint32) {
	if last := len(e.free) - 1; last >= 0 {
		slot = e.free[last]
		e.free = e.free[:last]
	} else {
		slot = e.next
		e.next++
	}
	e.rows.Set(slot, pod, e.number)
	e.uids.Add(hashUID(pod.UID), slot, e.number)
	return slot
}

// replace puts another version of a pod in its slot.
func (e *podEdit) replace(slot uint32, pod *Pod) { e.rows.Set(slot, pod, e.number) }

// remove removes the pod in a slot.
func (e *podEdit) remove(slot uint32) {
	e.uids.Remove(hashUID(e.at(slot).UID), slot, e.number)
	e.rows.Set(slot, nil, e.number)
	e.left = append(e.left, slot)
}

// end returns the version that the edit has led to. The edit must not be used any more.
func (e *podEdit) end() podTable {
	t := e.podTable
	// Slots are appended beyond what an edit that failed has seen: free is only shortened until here.
	t.free = append(t.free, e.left...)
	return t
}
