package columns

import (
	"github.com/berth-scheduler/berth/pkg/state"
)

// Columns is the hot state of all nodes. A node has a slot for as long as it exists, and the data that decisions
// read is in arrays indexed by slot. Slots of removed nodes are reused, the last one first.
type Columns struct {
	// Infos holds the nodes by slot, nil for a free one; Hashes holds their UIDHash, for tie-breaks.
	Infos  []*state.NodeInfo
	Hashes []uint64
	// Slots finds the slot of a node by identity; free holds the slots without a node.
	Slots map[*state.NodeInfo]int32
	free  []int32

	// Each of these has an array indexed by slot, which newSlot extends.
	Resources Resources
	Traits    traitColumn
	Kinds     kindColumn
	Images    imageTable
	// Axes holds the topology keys that a class has used so far, by name. A key that no class uses has no array.
	Axes map[string]*axis

	Marks   markColumn
	Journal journal
}

// New returns the columns of no nodes.
func New() Columns {
	return Columns{
		Slots:     map[*state.NodeInfo]int32{},
		Resources: newResourceColumns(),
		Traits:    traitColumn{IDs: map[string]int32{}},
		Kinds:     kindColumn{ids: map[*state.Kind]int32{}},
		Images:    imageTable{byName: map[string]*Image{}},
		Axes:      map[string]*axis{},
	}
}

// Len returns the number of slots, free ones included.
func (c *Columns) Len() int { return len(c.Infos) }

// Nodes returns the number of nodes.
func (c *Columns) Nodes() int { return len(c.Slots) }

// SetNode adds or replaces a node, with all pods on it. Its cost is proportional to the pods and images of the
// node and the number of axes.
func (c *Columns) SetNode(n *state.NodeInfo) {
	slot, known := c.Slots[n]
	if !known {
		slot = c.newSlot()
		c.Slots[n] = slot
		c.Infos[slot] = n
		c.Marks.Set(int(slot), MarkUsable, true)
	}
	c.Hashes[slot] = n.Node.UIDHash
	c.Resources.setNode(int(slot), n)
	c.Traits.set(int(slot), n.Node.Object)
	c.Images.replace(int(slot), n.Node.Images)
	for _, a := range c.Axes {
		a.set(int(slot), n.Node.Object.Labels)
	}
	c.Kinds.recount(int(slot), n)
	c.Journal.recordObject(int(slot))
}

// DropNode removes a node. Its row of resources stays as it is: a class skips slots without a node.
func (c *Columns) DropNode(n *state.NodeInfo) {
	slot, known := c.Slots[n]
	if !known {
		return
	}
	delete(c.Slots, n)
	c.Infos[slot] = nil
	c.Marks.Set(int(slot), MarkUsable, false)
	c.Marks.Set(int(slot), MarkHome, false)
	c.Images.replace(int(slot), nil)
	for _, a := range c.Axes {
		a.set(int(slot), nil)
	}
	c.Kinds.recount(int(slot), nil)
	c.Journal.recordObject(int(slot))
	c.free = append(c.free, slot)
}

// newSlot returns a free slot, or extends all arrays by one.
func (c *Columns) newSlot() int32 {
	if last := len(c.free) - 1; last >= 0 {
		slot := c.free[last]
		c.free = c.free[:last]
		return slot
	}
	c.Infos = append(c.Infos, nil)
	c.Hashes = append(c.Hashes, 0)
	c.Resources.grow()
	c.Traits.Of = append(c.Traits.Of, 0)
	c.Kinds.Of = append(c.Kinds.Of, nil)
	c.Images.of = append(c.Images.of, nil)
	c.Marks.Of = append(c.Marks.Of, 0)
	c.Journal.grow()
	for _, a := range c.Axes {
		a.Of = append(a.Of, NoDomain)
	}
	return int32(len(c.Infos) - 1)
}

// ChangePods records that the pods of a node changed: by is 1 if a pod of the kind was added, and -1 if one was
// removed. n must already show the change. kind may be nil, for a pod that no fact has described yet.
func (c *Columns) ChangePods(n *state.NodeInfo, kind *state.Kind, by int32) {
	slot, known := c.Slots[n]
	if !known {
		return
	}
	c.Resources.setUse(int(slot), n)
	id := c.Kinds.add(int(slot), kind, by)
	c.Journal.Record(Change{slot, id, by})
}

// Axis returns the column of a topology key, and fills it when it is new, which looks at every node.
func (c *Columns) Axis(key string) *axis {
	if a, ok := c.Axes[key]; ok {
		return a
	}
	a := &axis{key: key, IDs: map[string]int32{}, Of: make([]int32, len(c.Infos))}
	for slot, n := range c.Infos {
		a.Of[slot] = NoDomain
		if n != nil {
			a.set(slot, n.Node.Object.Labels)
		}
	}
	c.Axes[key] = a
	return a
}

// Marks restrict how a node may be used, in addition to its columns.
const (
	// MarkUsable: the node may receive pods now. Every node is usable until the caller says otherwise.
	MarkUsable uint8 = 1 << iota
	// MarkHome: the node is one of the home nodes that Query.Home refers to.
	MarkHome
)

// markColumn holds the marks of each slot.
type markColumn struct {
	Of []uint8
	// Usable and Home count the nodes that are usable, and those that are usable and home.
	Usable, Home int
}

// Set reports whether anything changed.
func (m *markColumn) Set(slot int, mark uint8, on bool) bool {
	before := m.Of[slot]
	m.count(before, -1)
	after := before &^ mark
	if on {
		after |= mark
	}
	m.Of[slot] = after
	m.count(after, 1)
	return before != after
}

func (m *markColumn) count(marks uint8, by int) {
	if marks&MarkUsable != 0 {
		m.Usable += by
		if marks&MarkHome != 0 {
			m.Home += by
		}
	}
}

// JournalSize is how many changes a class may be behind and still catch up one by one. A class that is further
// behind scans all slots for those that changed. With 12 bytes a change, the journal takes 48 KiB.
const JournalSize = 1 << 12

// journal records when each slot changed. Its clock counts changes, and starts at 0: time 0 is before every
// change, so that a class whose time is 0 has seen nothing.
type journal struct {
	// Now is the time of the last change; Recent holds the last JournalSize changes, that of time t at t %
	// JournalSize.
	Now    uint64
	Recent [JournalSize]Change
	// ChangedAt is when anything about a slot last changed; ObjectChangedAt is when its Node object last changed.
	ChangedAt, ObjectChangedAt []uint64
}

// Change is one change of a slot: pods of a kind were added or removed (By counts them), or something else
// happened, with the kind NoKind.
type Change struct{ Slot, Kind, By int32 }

// NoKind is the kind of a move that is not about a pod, or about a pod without a kind.
const NoKind int32 = -1

func (j *journal) grow() {
	j.ChangedAt = append(j.ChangedAt, 0)
	j.ObjectChangedAt = append(j.ObjectChangedAt, 0)
}

// Record records a change at the next time. It overwrites the oldest one.
func (j *journal) Record(m Change) {
	j.Now++
	j.Recent[j.Now%JournalSize] = m
	j.ChangedAt[m.Slot] = j.Now
}

// recordObject records that the Node object of a slot changed, including the first and the last.
func (j *journal) recordObject(slot int) {
	j.Record(Change{Slot: int32(slot), Kind: NoKind})
	j.ObjectChangedAt[slot] = j.Now
}

// IsTooFar reports whether there are too many changes since a time to process them one by one: the oldest have
// been overwritten, or there are more changes than slots, so that a scan is cheaper.
func (j *journal) IsTooFar(then uint64) bool {
	behind := j.Now - then
	return behind >= JournalSize || behind > uint64(len(j.ChangedAt))
}
