package decide

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
	if h.members != nil && h.marked == c.shard.View.NodesVersion() {
		return
	}
	if h.members == nil {
		h.members = c.shard.Members()
		h.home = make(map[string]bool, len(c.shard.View.Nodes()))
	}
	for _, n := range c.shard.View.Nodes() {
		uid := n.Node.UID
		is, known := h.home[uid]
		if !known {
			is = c.shard.Home(h.members, uid)
			h.home[uid] = is
		}
		c.shard.Engine.SetHome(n, is)
	}
	h.marked = c.shard.View.NodesVersion()
}
