package nominate

// view returns a pod as the counting side sees it: a shard by its facts, or (the checks) the truth.
type view func(q int) podView

func (m *model) seenBy(w *world, i int) view {
	return func(q int) podView { return w.shards[i].cache[q] }
}

func truth(w *world) view {
	return func(q int) podView { return w.pods[q].podView }
}

// now is the present use of a node: pods that run there, victims included, and pods that are committed to it.
func (m *model) now(w *world, see view, n, p int) int {
	total := 0
	for q, spec := range m.pods {
		e := w.entries[q]
		if q != p && (see(q).on(n) || see(q).pending() && e.state == committed && int(e.node) == n) {
			total += spec.size
		}
	}
	return total
}

// plan is a pod that is to get a node, the victims that it wants evicted, and the plan that it replaces (-1 for
// none).
type plan struct {
	pod, node int
	victims   uint8
	displaces int
}

// future is the future use of the plan's node by other pods, however the other plans end: plans that are given up
// leave their victims running, plans that succeed put their pod there. So each of them counts as the larger of the
// two.
func (m *model) future(w *world, see view, c plan) int {
	total := 0
	var room, victims [maxPods]int
	for q, spec := range m.pods {
		e, by := w.entries[q], int(w.claims[q].by)-1
		switch {
		case q == c.pod:
		case see(q).on(c.node) && c.victims>>q&1 == 1:
		case see(q).on(c.node) && by >= 0 && m.without("claims count for their own plan only"):
		case see(q).on(c.node) && by >= 0 && by < len(m.pods) && by != c.displaces && w.heldOn(by, c.node):
			victims[by] += spec.size
		case see(q).on(c.node), see(q).pending() && e.state == committed && int(e.node) == c.node && q != c.displaces:
			total += spec.size
		case see(q).pending() && q != c.displaces && w.heldOn(q, c.node) && !m.without("Held entries count for everybody"):
			room[q] = spec.size
		}
	}
	for q := range m.pods {
		total += max(room[q], victims[q])
	}
	return total
}

func (w *world) heldOn(q, n int) bool {
	return w.entries[q].state == held && int(w.entries[q].node) == n
}

// fitsLater reports whether a plan's pod fits once its victims are gone.
func (m *model) fitsLater(w *world, see view, c plan) bool {
	return m.future(w, see, c)+m.pods[c.pod].size <= m.capacity[c.node]
}

func (m *model) fitsNow(w *world, see view, n, p int) bool {
	return m.now(w, see, n, p)+m.pods[p].size <= m.capacity[n]
}

// blockers are the pods that must be gone before p may run, and are not.
func (m *model) blockers(see view, p int) uint8 {
	var out uint8
	for q := range m.pods {
		if m.pods[p].blocked>>q&1 == 1 && !see(q).gone && see(q).node != 0 {
			out |= 1 << q
		}
	}
	return out
}

// plans calls found for every smallest set of victims with which a pod fits a node.
func (m *model) plans(w *world, see view, c plan, found func(plan)) {
	must := m.blockers(see, c.pod)
	var may uint8
	for q, spec := range m.pods {
		claimed := w.claims[q].by != 0 && int(w.claims[q].by)-1 != c.displaces
		// Without the compare of a victim's document, a decision rests on its initial state: no claims.
		if claimed && m.without("compare of the victim's document") && int(w.pods[q].node) != c.node+1 {
			claimed = false
		}
		claimed = claimed || m.pinned(w, q)
		lower := spec.priority < m.pods[c.pod].priority
		switch {
		case must>>q&1 == 1 && (claimed || !lower):
			return
		case must>>q&1 == 0 && see(q).on(c.node) && lower && !claimed:
			may |= 1 << q
		}
	}
	for set := may; ; set = (set - 1) & may {
		c.victims = must | set
		if m.fitsLater(w, see, c) && m.smallest(w, see, c, set) && (c.victims != 0 || !m.fitsNow(w, see, c.node, c.pod)) {
			found(c)
		}
		if set == 0 {
			return
		}
	}
}

func (m *model) smallest(w *world, see view, c plan, of uint8) bool {
	all := c.victims
	for q := range m.pods {
		c.victims = all &^ (1 << q)
		if of>>q&1 == 1 && m.fitsLater(w, see, c) {
			return false
		}
	}
	return true
}
