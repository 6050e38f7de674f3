package search

// homeNodes caches which nodes are home nodes of this shard; a change of members clears it. It is keyed by node UID,
// so that nodes that appear or disappear need no handling.
type homeNodes struct {
	members []string
	home    map[string]bool
	// marked is the version of the view's nodes that the engine has been given.
	marked uint64
}

// ForgetHome makes the next search determine the home nodes again: the live shards have changed.
func (x *Searcher) ForgetHome() { x.home.members = nil }

// markHome marks the home nodes of this shard in the engine, if they may have changed: the members, or the set of
// nodes. It
// runs before a search that may use them.
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
