package decide

import (
	"slices"

	"github.com/berth-scheduler/berth/pkg/membership"
	"github.com/berth-scheduler/berth/pkg/state"
)

// homeNodes caches which nodes are this shard's home; a change of members forgets
// it. Keyed by node UID, so that a node needs no care when it comes or goes.
type homeNodes struct {
	members []string
	home    map[string]bool
	scratch []*state.NodeInfo
}

func (h *homeNodes) forget() { h.members = nil }

// homeOf returns the nodes of the list that are at home here, in the same order.
func (c *Core) homeOf(nodes []*state.NodeInfo) []*state.NodeInfo {
	h := &c.home
	if h.members == nil {
		h.members = c.shards()
		h.home = make(map[string]bool, len(nodes))
	}
	h.scratch = h.scratch[:0]
	for _, n := range nodes {
		uid := n.Node.UID
		is, known := h.home[uid]
		if !known {
			is = c.cfg.Home(h.members, uid)
			h.home[uid] = is
		}
		if is {
			h.scratch = append(h.scratch, n)
		}
	}
	return h.scratch
}

// shards lists the live shards, sorted; this one always among them.
func (c *Core) shards() []string {
	ids := []string{c.cfg.Shard}
	for _, m := range c.ledger.Members(membership.RoleScheduler) {
		ids = append(ids, m.ID)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}
