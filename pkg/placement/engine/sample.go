package engine

import (
	"slices"

	nodetopology "k8s.io/component-helpers/node/topology"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/engine/internal/columns"
	"github.com/berth-scheduler/berth/pkg/state"
)

// zoneWalk caches ZoneOrder of the usable nodes and of the home nodes, for profiles that sample. It is recomputed
// after nodes were added or removed, or changed their zone or marks.
type zoneWalk struct {
	zones []string // by slot, as last seen
	walks [2][]int32
	valid [2]bool
}

// see records the zone of a node; removed nodes have none.
func (z *zoneWalk) see(slot int, n *state.NodeInfo) {
	if lack := slot + 1 - len(z.zones); lack > 0 {
		z.zones = columns.GrowBy(z.zones, lack, "")
		z.forget()
	}
	zone := ""
	if n != nil {
		zone = nodetopology.GetZoneKey(n.Node.Object)
	}
	if z.zones[slot] != zone {
		z.zones[slot] = zone
		z.forget()
	}
}

func (z *zoneWalk) forget() { z.valid = [2]bool{} }

// walk returns the order of the candidates' slots.
func (z *zoneWalk) walk(e *Engine, home bool) []int32 {
	which, marks := 0, columns.MarkUsable
	if home {
		which, marks = 1, columns.MarkUsable|columns.MarkHome
	}
	if z.valid[which] {
		return z.walks[which]
	}
	var nodes []*state.NodeInfo
	for slot, n := range e.columns.Infos {
		if n != nil && e.columns.Marks.Of[slot]&marks == marks {
			nodes = append(nodes, n)
		}
	}
	slices.SortFunc(nodes, byNodeName)
	walk := z.walks[which][:0]
	for _, i := range placement.ZoneOrder(nodes) {
		walk = append(walk, e.columns.Slots[nodes[i]])
	}
	z.walks[which], z.valid[which] = walk, true
	return walk
}

// sample finds as many feasible nodes as the profile wants, stores them in sampled and counts, and returns how many
// it evaluated; see judgeSample.
func (e *Engine) sample(c *class, q Query) (examined int) {
	walk := e.order.walk(e, q.Home)
	if c.plan.only != nil {
		e.narrowed = e.narrowed[:0]
		for _, slot := range walk {
			if c.cells[slot].verdict != placement.VerdictNarrowed {
				e.narrowed = append(e.narrowed, slot)
			}
		}
		walk = e.narrowed
	}
	e.sampled = e.sampled[:0]
	e.counts = slices.Grow(e.counts[:0], len(c.groups.members))[:len(c.groups.members)]
	clear(e.counts)
	enough := c.key.profile.SampleSize(len(walk))
	for step := range walk {
		slot := walk[(q.Start%len(walk)+step)%len(walk)]
		g := c.group[slot]
		if g != noGroup && c.wide.passes(c.groups.row(int(g))[maxGauges:]) && e.passesLate(slot) {
			if len(e.sampled) == enough {
				break
			}
			e.sampled = append(e.sampled, slot)
			e.counts[g]++
		}
		examined++
	}
	return examined
}
