package gang

// standing is the effective state of a reservation.
type standing uint8

const (
	// void: nothing. It counts nowhere, and can be dropped.
	void standing = iota
	// waits: Held. The place counts in the future test.
	waits
	// unclear: pledged in an attempt that the picture's record does not name. It takes room, and is nothing that a gang
	// can rely on.
	unclear
	// counts: pledged in an attempt that has not ended. It counts like a committed one, and is not bound.
	counts
	// firm: committed, by itself or by its record.
	firm
)

// judge returns the effective state of a pod's entry in a picture.
func (m *model) judge(pic *picture, n, p int) standing {
	e := pic.docs[n].entries[p]
	switch {
	case e.state == committed:
		return firm
	case e.state == held && m.pods[p].gang == 0:
		return waits
	case e.state != held && e.state != pledged:
		return void
	}
	s := m.attemptOf(pic, n, int(m.pods[p].gang)-1, e.attempt)
	switch {
	case s == void:
		return void
	case e.state == held:
		return waits
	}
	return s
}

// attemptOf returns the effective state that the record gives to the entries of an attempt. An attempt that the record
// does not name has ended. But a document that is ahead of the watch may have pledges of an attempt that the picture's
// record does not show yet.
func (m *model) attemptOf(pic *picture, n, g int, attempt uint8) standing {
	r := pic.records[g]
	named := r.attempt == attempt || m.without("attempts told apart")
	switch {
	case named && r.live():
		return counts
	case named && r.state == recordCommitted:
		return firm
	case pic.ahead>>n&1 == 1 && !m.without("pledges count in a document ahead of the watch"):
		return unclear
	}
	return void
}

// placed returns how a member stands in a picture, wherever its place is.
func (m *model) placed(pic *picture, p int) (best standing) {
	for n := range m.capacity {
		best = max(best, m.judge(pic, n, p))
	}
	return best
}

// full reports whether a node has no room for another pod now: pods that run there and reservations that count.
func (m *model) full(w *world, pic *picture, n, except int) bool {
	total := 0
	for q := range m.pods {
		s := m.judge(pic, n, q)
		if s == counts && m.without("pledges count") {
			s = void
		}
		if q != except && (w.pods[q].on(n) || w.pods[q].pending() && (s >= unclear || m.leaks(pic, n, q))) {
			total++
		}
	}
	return total >= m.capacity[n]
}

// fullLater reports whether a node will have no room for a pod of a plan, however other plans end, when the plan's own
// victims are gone and the given ones. Of every other plan the larger counts: its places, or its victims.
func (m *model) fullLater(w *world, pic *picture, n, p int, victims uint8) bool {
	total := 0
	var places, leaving [stranger + 1]int
	own := m.planOf(p)
	for q := range m.pods {
		s, o := m.judge(pic, n, q), m.claimant(pic, q)
		switch {
		case q == p, victims>>q&1 == 1, w.pods[q].on(n) && o == own:
		case w.pods[q].on(n) && o != 0:
			leaving[o]++
		case w.pods[q].on(n):
			total++
		case !w.pods[q].pending():
		case s == counts && m.without("pledges count"):
		case s >= unclear, s == waits && m.planOf(q) == own, m.leaks(pic, n, q):
			total++
		case s == waits:
			places[m.planOf(q)]++
		}
	}
	for o := range places {
		total += max(places[o], leaving[o])
	}
	return total >= m.capacity[n]
}

// leaks reports whether a pledge whose attempt has ended takes room all the same.
func (m *model) leaks(pic *picture, n, p int) bool {
	return m.without("void pledges do not count") && pic.docs[n].entries[p].state == pledged
}

// claimant returns the plan that claims a running pod, 0 if none does whose attempt has not ended.
func (m *model) claimant(pic *picture, v int) plan {
	if m.pods[v].runs == 0 {
		return 0
	}
	n := int(m.pods[v].runs) - 1
	e := pic.docs[n].entries[v]
	if g := e.by.gang(); g >= 0 && e.by != 0 {
		switch m.attemptOf(pic, n, g, e.attempt) {
		case void:
			return 0
		case unclear:
			return stranger
		}
	}
	return e.by
}

// members calls each for every member of a gang.
func (m *model) members(g int, each func(p int)) {
	for p, s := range m.pods {
		if int(s.gang) == g+1 {
			each(p)
		}
	}
}

// strength is how many members of a gang are bound, have a reservation of their own, or have an entry of the present
// attempt that stands at least as given.
func (m *model) strength(w *world, pic *picture, g int, least standing) (count int) {
	m.members(g, func(p int) {
		has := w.pods[p].node != 0
		for n := range m.capacity {
			is := m.judge(pic, n, p)
			named := is == firm || pic.docs[n].entries[p].attempt == pic.records[g].attempt || m.without("attempts told apart")
			has = has || w.pods[p].pending() && is >= least && named
		}
		if has {
			count++
		}
	})
	return count
}

// names reports whether an unbound member has an entry of the present attempt in one of the given states.
func (m *model) names(w *world, pic *picture, g int, states ...entryState) (found bool) {
	m.members(g, func(p int) {
		for n := range m.capacity {
			e := pic.docs[n].entries[p]
			for _, s := range states {
				found = found || w.pods[p].pending() && e.state == s && e.attempt == pic.records[g].attempt
			}
		}
	})
	return found
}

// whole reports whether a plan claims every pod of the units of which it claims one, but for those that are gone.
func (m *model) whole(w *world, pic *picture, o plan) bool {
	for v := range m.pods {
		if !w.pods[v].gone && m.claimant(pic, v) != o && m.sharesUnit(pic, v, o) && !m.without("whole units") {
			return false
		}
	}
	return true
}
