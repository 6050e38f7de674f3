package walk

import (
	"cmp"
	"slices"

	nodetopology "k8s.io/component-helpers/node/topology"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/engine/internal/columns"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Order caches placement.ZoneOrder of the usable nodes and of the home nodes, for profiles that sample. It is
// recomputed after nodes were added or removed, or changed their zone or marks. Computing it sorts all nodes, which
// would cost more than the sample saves.
type Order struct {
	zones []string // by slot, as last seen
	// walks holds slots in the order of the walk, for all usable nodes and for home nodes; valid reports which of
	// the two are up to date.
	walks [2][]int32
	valid [2]bool
}

// Observe records the zone of a node; nil stands for a removed one, which has none. Other changes of a node do
// not affect the order.
func (z *Order) Observe(slot int, n *state.NodeInfo) {
	if lack := slot + 1 - len(z.zones); lack > 0 {
		z.zones = columns.GrowBy(z.zones, lack, "")
		z.Invalidate()
	}
	zone := ""
	if n != nil {
		zone = nodetopology.GetZoneKey(n.Node.Object)
	}
	if z.zones[slot] != zone {
		z.zones[slot] = zone
		z.Invalidate()
	}
}

// Invalidate makes the next query compute the order again.
func (z *Order) Invalidate() { z.valid = [2]bool{} }

// Walk returns the order of the candidates' slots. The slice belongs to the Order and is valid until
// the next change.
func (z *Order) Walk(cols *columns.Columns, home bool) []int32 {
	which, marks := 0, columns.MarkUsable
	if home {
		which, marks = 1, columns.MarkUsable|columns.MarkHome
	}
	if z.valid[which] {
		return z.walks[which]
	}
	var nodes []*state.NodeInfo
	for slot, n := range cols.Infos {
		if n != nil && cols.Marks.Of[slot]&marks == marks {
			nodes = append(nodes, n)
		}
	}
	slices.SortFunc(nodes, ByName)
	walk := z.walks[which][:0]
	for _, i := range placement.ZoneOrder(nodes) {
		walk = append(walk, cols.Slots[nodes[i]])
	}
	z.walks[which], z.valid[which] = walk, true
	return walk
}

// ByName orders nodes by name, which is unique.
func ByName(a, b *state.NodeInfo) int { return cmp.Compare(a.Node.Name, b.Node.Name) }
