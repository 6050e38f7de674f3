package ledger

import (
	"iter"
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
	if i := d.Index(podUID); i >= 0 {
		return d.Entries[i], true
	}
	return Entry{}, false
}

// Index returns the index of the entry that reserves this node for the pod, -1 if there is none.
func (d NodeDoc) Index(podUID string) int {
	return slices.IndexFunc(d.Entries, func(e Entry) bool {
		return e.Role == RoleReservation && e.PodUID == podUID
	})
}

// Clone returns a document whose entries and high-water may be changed.
func (d NodeDoc) Clone() NodeDoc {
	d.Entries = slices.Clone(d.Entries)
	d.HW = maps.Clone(d.HW)
	return d
}

// Raise lifts the high-water of kind to rv; it never lowers it. d must be a copy.
func (d *NodeDoc) Raise(kind string, rv uint64) { d.HW = Raised(d.HW, kind, rv) }

// Raised returns hw, changed in place, with the given kind at rv or higher.
func Raised(hw map[string]uint64, kind string, rv uint64) map[string]uint64 {
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

// Cover returns the document with its high-water of a kind at rv or higher.
func (d NodeDoc) Cover(kind string, rv uint64) NodeDoc {
	if rv <= d.HW[kind] {
		return d
	}
	d.HW = Raised(maps.Clone(d.HW), kind, rv)
	return d
}

// Document is a value of a key that is changed by compare-and-set on its mod revision.
type Document[T any] interface {
	DocKey() string
	ReadAt() int64
	// Blank returns the document in the form that stands for one that does not exist.
	Blank() T
}

// ReadUnder returns the revision of the Floor under which the absence of the document was read.
func (d NodeDoc) ReadUnder() int64 { return d.Floor }

// DocKey returns the key of the document.
func (d NodeDoc) DocKey() string { return KeyNode(d.NodeUID) }

// ReadAt returns the revision that the document was read at, 0 if it does not exist.
func (d NodeDoc) ReadAt() int64 { return d.Revision }

// Blank returns the document in the form that stands for one that does not exist.
func (d NodeDoc) Blank() NodeDoc { return NodeDoc{NodeUID: d.NodeUID, NodeName: d.NodeName} }

// Reservations iterates over the reservations of a document. An entry is some hundred bytes, so they are not copied
// into a separate list for reading.
func (d NodeDoc) Reservations() iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		for i := range d.Entries {
			if d.Entries[i].Role == RoleReservation && !yield(d.Entries[i]) {
				return
			}
		}
	}
}

// Reserves reports whether the document holds a reservation for the pod.
func (d NodeDoc) Reserves(podUID string) bool {
	for i := range d.Entries {
		if d.Entries[i].Role == RoleReservation && d.Entries[i].PodUID == podUID {
			return true
		}
	}
	return false
}

// Victim returns the claim on a pod, and false if there is none in this document.
func (d NodeDoc) Victim(podUID string) (Entry, bool) {
	if i := d.VictimIndex(podUID); i >= 0 {
		return d.Entries[i], true
	}
	return Entry{}, false
}

// VictimIndex returns the index of the claim on a pod, -1 if there is none.
func (d NodeDoc) VictimIndex(podUID string) int {
	return slices.IndexFunc(d.Entries, func(e Entry) bool { return e.Role == RoleVictim && e.PodUID == podUID })
}

// Victims returns the claims of a plan in the document, in document order.
func (d NodeDoc) Victims(plan string) (victims []Entry) {
	for i := range d.Entries {
		if e := &d.Entries[i]; e.Role == RoleVictim && e.Plan == plan {
			victims = append(victims, *e)
		}
	}
	return victims
}

// Owner returns the hold or placeholder that a plan works for, and false if it is not in this document.
func (d NodeDoc) Owner(plan string) (Entry, bool) {
	if i := d.owner(plan); i >= 0 {
		return d.Entries[i], true
	}
	return Entry{}, false
}

func (d NodeDoc) owner(plan string) int {
	return slices.IndexFunc(d.Entries, func(e Entry) bool { return plan != "" && e.Plan == plan && e.OwnsPlan() })
}

// OwnsPlan reports whether the entry is the hold or placeholder that a plan works for.
func (e Entry) OwnsPlan() bool {
	return e.Role == RoleMove || e.Role == RoleReservation && e.State == Held
}

// Version identifies the version of a document that a member knows.
type Version struct {
	// Revision is that of the document. It is 0 when the document does not exist, and Floor is then that of the
	// Floor.
	Revision, Floor int64
}

// StoredDoc is a document with its stored form: Value was decoded to Doc, or Doc encoded to Value. The entries of both
// are in the same order.
type StoredDoc struct {
	Doc   NodeDoc
	Value []byte
}
