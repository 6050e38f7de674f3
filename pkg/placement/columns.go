package placement

import (
	"github.com/berth-scheduler/berth/pkg/state"
)

// columns is the hot state of all nodes. A node has a slot for as long as it exists, and the data that decisions
// read is in arrays indexed by slot. Slots of removed nodes are reused.
type columns struct {
	// infos holds the nodes by slot, nil for a free one; hashes holds their UIDHash.
	infos  []*state.NodeInfo
	hashes []uint64
	slots  map[*state.NodeInfo]int32
	free   []int32

	resources resourceColumns
	traits    traitColumn
	kinds     kindColumn
	images    imageTable
	// axes holds the topology keys that a class has used so far, by name.
	axes map[string]*axis

	marks   markColumn
	journal journal
}

func newColumns() columns {
	return columns{
		slots:     map[*state.NodeInfo]int32{},
		resources: newResourceColumns(),
		traits:    traitColumn{ids: map[string]int32{}},
		kinds:     kindColumn{ids: map[*state.Kind]int32{}},
		images:    imageTable{byName: map[string]*image{}},
		axes:      map[string]*axis{},
	}
}

// len returns the number of slots, free ones included.
func (c *columns) len() int { return len(c.infos) }

// nodes returns the number of nodes.
func (c *columns) nodes() int { return len(c.slots) }

// setNode adds or replaces a node, with all pods on it.
func (c *columns) setNode(n *state.NodeInfo) {
	slot, known := c.slots[n]
	if !known {
		slot = c.newSlot()
		c.slots[n] = slot
		c.infos[slot] = n
		c.marks.set(int(slot), markUsable, true)
	}
	c.hashes[slot] = n.Node.UIDHash
	c.resources.setNode(int(slot), n)
	c.traits.set(int(slot), n.Node.Object)
	c.images.replace(int(slot), n.Node.Images)
	for _, a := range c.axes {
		a.set(int(slot), n.Node.Object.Labels)
	}
	c.kinds.recount(int(slot), n)
	c.journal.restate(int(slot))
}

// dropNode removes a node.
func (c *columns) dropNode(n *state.NodeInfo) {
	slot, known := c.slots[n]
	if !known {
		return
	}
	delete(c.slots, n)
	c.infos[slot] = nil
	c.marks.set(int(slot), markUsable, false)
	c.marks.set(int(slot), markHome, false)
	c.images.replace(int(slot), nil)
	for _, a := range c.axes {
		a.set(int(slot), nil)
	}
	c.kinds.recount(int(slot), nil)
	c.journal.restate(int(slot))
	c.free = append(c.free, slot)
}

func (c *columns) newSlot() int32 {
	if last := len(c.free) - 1; last >= 0 {
		slot := c.free[last]
		c.free = c.free[:last]
		return slot
	}
	c.infos = append(c.infos, nil)
	c.hashes = append(c.hashes, 0)
	c.resources.grow()
	c.traits.of = append(c.traits.of, 0)
	c.kinds.of = append(c.kinds.of, nil)
	c.images.of = append(c.images.of, nil)
	c.marks.of = append(c.marks.of, 0)
	c.journal.grow()
	for _, a := range c.axes {
		a.of = append(a.of, nowhere)
	}
	return int32(len(c.infos) - 1)
}

// changePods records that the pods of a node changed: by is 1 if a pod of the kind was added, and -1 if one was
// removed.
func (c *columns) changePods(n *state.NodeInfo, kind *state.Kind, by int32) {
	slot, known := c.slots[n]
	if !known {
		return
	}
	c.resources.setUse(int(slot), n)
	id := c.kinds.add(int(slot), kind, by)
	c.journal.move(move{slot, id, by})
}

// axis returns the column of a topology key, and fills it when it is new.
func (c *columns) axis(key string) *axis {
	if a, ok := c.axes[key]; ok {
		return a
	}
	a := &axis{key: key, ids: map[string]int32{}, of: make([]int32, len(c.infos))}
	for slot, n := range c.infos {
		a.of[slot] = nowhere
		if n != nil {
			a.set(slot, n.Node.Object.Labels)
		}
	}
	c.axes[key] = a
	return a
}

// Marks restrict how a node may be used, in addition to its columns.
const (
	// markUsable: the node may receive pods now. Every node is usable until the caller says otherwise.
	markUsable uint8 = 1 << iota
	// markHome: the node is one of the home nodes that Query.Home refers to.
	markHome
)

type markColumn struct {
	of []uint8
	// usable and home count the nodes that are usable, and usable and home.
	usable, home int
}

// set reports whether anything changed.
func (m *markColumn) set(slot int, mark uint8, on bool) bool {
	before := m.of[slot]
	m.count(before, -1)
	after := before &^ mark
	if on {
		after |= mark
	}
	m.of[slot] = after
	m.count(after, 1)
	return before != after
}

func (m *markColumn) count(marks uint8, by int) {
	if marks&markUsable != 0 {
		m.usable += by
		if marks&markHome != 0 {
			m.home += by
		}
	}
}

// journalSize is how many moves a class may be behind and still catch up one by one. A class that is further behind
// scans all slots for those that changed.
const journalSize = 1 << 12

// journal records when each slot changed. Its clock counts moves.
type journal struct {
	now  uint64
	last [journalSize]move
	// moved is when anything about a slot last changed; restated is when its Node object last changed.
	moved, restated []uint64
}

// move is one change of a slot: pods of a kind were added or removed, or something else happened.
type move struct{ slot, kind, by int32 }

// noKind is the kind of a move that is not about a pod, or about a pod without a kind.
const noKind int32 = -1

func (j *journal) grow() {
	j.moved = append(j.moved, 0)
	j.restated = append(j.restated, 0)
}

func (j *journal) move(m move) {
	j.now++
	j.last[j.now%journalSize] = m
	j.moved[m.slot] = j.now
}

func (j *journal) restate(slot int) {
	j.move(move{slot: int32(slot), kind: noKind})
	j.restated[slot] = j.now
}

// isFar reports whether there are too many moves since a time to process them one by one.
func (j *journal) isFar(then uint64) bool {
	behind := j.now - then
	return behind >= journalSize || behind > uint64(len(j.moved))
}
