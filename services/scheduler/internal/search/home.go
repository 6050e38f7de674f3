package search

// homeNodes caches which nodes are this shard's home; a change of members forgets
// it. Keyed by node UID, so that a node needs no care when it comes or goes.
type homeNodes struct {
	members []string
	home    map[string]bool
	// marked is the view's version of its nodes that the engine has.
	marked uint64
}

// ForgetHome makes the next search ask again which nodes are at home here: the live shards have changed.
func (x *Searcher) ForgetHome() { x.home.members = nil }

// markHome shows the engine which nodes are at home here, if that may have changed.
func (x *Searcher) markHome() {
	h := &x.home
	if h.members != nil && h.marked == x.Shard.View.NodesVersion() {
		return
	}
	if h.members == nil {
		h.members = x.Shard.Members()
		h.home = make(map[string]bool, len(x.Shard.View.Nodes()))
	}
	for _, n := range x.Shard.View.Nodes() {
		uid := n.Node.UID
		is, known := h.home[uid]
		if !known {
			is = x.Shard.Home(h.members, uid)
			h.home[uid] = is
		}
		x.Shard.Engine.SetHome(n, is)
	}
	h.marked = x.Shard.View.NodesVersion()
}
