package decide

import (
	"slices"

	"github.com/berth-scheduler/berth/pkg/membership"
)

// homeNodes caches which nodes are this shard's home; a change of members forgets
// it. Keyed by node UID, so that a node needs no care when it comes or goes.
type homeNodes struct {
	members []string
	home    map[string]bool
	// marked is the view's version of its nodes that the engine has been told of.
	marked uint64
}

func (h *homeNodes) forget() { h.members = nil }

// markHome tells the engine which nodes are at home here, if that may have changed.
func (c *Core) markHome() {
	h := &c.home
	if h.members != nil && h.marked == c.view.NodesVersion() {
		return
	}
	if h.members == nil {
		h.members = c.shards()
		h.home = make(map[string]bool, len(c.view.Nodes()))
	}
	for _, n := range c.view.Nodes() {
		uid := n.Node.UID
		is, known := h.home[uid]
		if !known {
			is = c.cfg.Home(h.members, uid)
			h.home[uid] = is
		}
		c.engine.SetHome(n, is)
	}
	h.marked = c.view.NodesVersion()
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
