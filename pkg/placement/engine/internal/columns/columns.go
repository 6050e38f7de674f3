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
		Kinds:     kindColumn{ids: map[*state.PodClass]int32{}},
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
func (c *Columns) ChangePods(n *state.NodeInfo, kind *state.PodClass, by int32) {
	slot, known := c.Slots[n]
	if !known {
		return
	}
	c.Resources.setUse(int(slot), n)
	id := c.Kinds.add(int(slot), kind, by)
	c.Journal.Record(Change{slot, id, by})
}

// SwapPod records that a pod of a node was replaced by a version that counts like it (state.Pod.CountsLike).
func (c *Columns) SwapPod(n *state.NodeInfo) {
	if slot, known := c.Slots[n]; known {
		c.Journal.recordSwap(int(slot))
	}
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
