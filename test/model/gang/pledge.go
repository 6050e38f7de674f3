package gang

// pledge is one part of T9 pledge: a place for one member, free or with the victim on its node. A transaction with
// several members is a sequence of these with nothing between.
func (m *model) pledge(w *world, i, p int, step stepFunc) {
	g := int(m.pods[p].gang) - 1
	pic := &w.shards[i]
	r := pic.records[g]
	same := w.sameRecord(i, g) || m.without("the compare of the record, to pledge")
	if !r.live() || !same || !m.owns(w, i, g) || !w.pods[p].pending() || m.placed(pic, p) != void {
		return
	}
	for n := range m.capacity {
		if !w.sameDoc(i, n) {
			continue
		}
		m.options(w, pic, n, p, func(as entryState, victims uint8) {
			t := *w
			d := &t.now.docs[n]
			d.entries[p] = entry{state: as, attempt: r.attempt, version: w.pods[p].version}
			t.claim(n, victims, entry{state: claimed, attempt: r.attempt, by: plan(1 + g)})
			t.learnDoc(i, n)
			text := "shard %d pledges %c to node %c"
			if as == held {
				text = "shard %d holds %c on node %c, which victims must leave"
			}
			m.emit(t, does(text, uint8(i), m.pods[p].name, node(n)), step)
		})
	}
}

// claim puts a document, with claims on victims (bits).
func (w *world) claim(n int, victims uint8, as entry) {
	for v := range w.pods {
		if victims>>v&1 == 1 {
			w.now.docs[n].entries[v] = as
		}
	}
	w.now.docs[n].revision++
}

// options calls found for each way to place a member on a node, as far as a picture shows.
func (m *model) options(w *world, pic *picture, n, p int, found func(as entryState, victims uint8)) {
	switch {
	case !m.fullLater(w, pic, n, p, 0) && !m.full(w, pic, n, p):
		found(pledged, 0)
		return
	case !m.fullLater(w, pic, n, p, 0):
		found(held, 0) // victims of its gang, or of plans that were given up, are leaving
		return
	case pic.records[m.pods[p].gang-1].state == ready && !m.without("no new victims after ready"):
		return
	}
	for v := range m.pods {
		if m.pods[v].runs != 0 && w.pods[v].on(n) && m.preempts(pic, w, p, v) && !m.fullLater(w, pic, n, p, 1<<v) {
			found(held, 1<<v)
		}
	}
}

// preempts reports whether a pod may be a victim of a member: it is less important, and it and the others of its unit
// are not claimed.
func (m *model) preempts(pic *picture, w *world, p, v int) bool {
	for u := range m.pods {
		if u != v && (m.pods[u].unit != m.pods[v].unit || m.pods[v].unit == 0 || m.without("whole units")) {
			continue
		}
		o := m.claimant(pic, u)
		free := o == 0 && pic.docs[m.pods[u].runs-1].entries[u].state != marked || u != v && o == m.planOf(p)
		if !w.pods[u].gone && (!free || m.pods[u].priority >= m.pods[p].priority) {
			return false
		}
	}
	return true
}

// hasPlace reports whether a member could be placed, as far as a picture shows.
func (m *model) hasPlace(w *world, pic *picture, p int) (has bool) {
	for n := range m.capacity {
		m.options(w, pic, n, p, func(entryState, uint8) { has = true })
	}
	return has
}

// extend is the other part of T9 pledge: a claim on a pod of a unit of which another pod is claimed.
func (m *model) extend(w *world, i, g int, step stepFunc) {
	pic := &w.shards[i]
	if pic.records[g].state != forming || !w.sameRecord(i, g) || !m.owns(w, i, g) || m.without("whole units") {
		return
	}
	for u := range m.pods {
		if m.pods[u].unit == 0 || w.pods[u].gone || m.claimant(pic, u) != 0 {
			continue
		}
		n := int(m.pods[u].runs) - 1
		if !m.sharesUnit(pic, u, plan(1+g)) || !w.sameDoc(i, n) || w.now.docs[n].entries[u].state == marked {
			continue
		}
		t := *w
		t.claim(n, 1<<u, entry{state: claimed, attempt: pic.records[g].attempt, by: plan(1 + g)})
		t.learnDoc(i, n)
		m.emit(t, does("shard %d claims %c for %c too", uint8(i), m.pods[u].name, m.gangs[g].name), step)
	}
}

// settle is T9 settle, and of a pod without a gang T3: the victims of a place have gone.
func (m *model) settle(w *world, i, p, n int, step stepFunc) {
	pic := &w.shards[i]
	e := w.now.docs[n].entries[p]
	if e.state != held || !w.pods[p].pending() || !w.sameDoc(i, n) || m.judge(pic, n, p) == void {
		return
	}
	own, mine := m.planOf(p), m.pods[p].shard == i
	if g := int(m.pods[p].gang) - 1; g >= 0 {
		mine = m.owns(w, i, g) && w.sameRecord(i, g)
	}
	leaving := false
	for v := range m.pods {
		leaving = leaving || w.pods[v].on(n) && m.claimant(pic, v) == own
	}
	fits := !m.full(w, pic, n, p)
	if !mine || !fits && (leaving || !m.without("the test that it fits now")) {
		return
	}
	t := *w
	if !fits {
		t.violation = blindly
	}
	t.now.docs[n].entries[p].state = pledged
	if m.pods[p].gang == 0 {
		t.now.docs[n].entries[p].state = committed
	}
	t.now.docs[n].revision++
	t.learnDoc(i, n)
	m.emit(t, does("shard %d settles %c on node %c", uint8(i), m.pods[p].name, node(n)), step)
}

// placeWhole is T1 of a gang that one transaction has room for: all members without a place, or none. It counts members
// as a commit does. No attempt may be open. The compare of the epoch is enough for that: only the owner forms one.
func (m *model) placeWhole(w *world, i, g int, step stepFunc) {
	all := m.missing(w, &w.shards[i], g)
	open := w.shards[i].records[g].live() && !m.without("no open attempt of a gang in one transaction")
	if !m.gangs[g].whole || open || !m.owns(w, i, g) || all == 0 {
		return
	}
	m.spread(*w, i, 0, all, func(t world, left uint8) {
		few := m.strength(&t, &t.shards[i], g, firm) < m.gangs[g].min
		few = few && !m.without("the count of members, in one transaction")
		if left == all || (left != 0 || few) && !m.without("a gang in one transaction, or not at all") {
			return
		}
		if m.strength(&t, &t.now, g, firm) < m.gangs[g].min {
			t.violation = inPart
		}
		m.emit(t, does("shard %d reserves places for %c", uint8(i), m.gangs[g].name), step)
	})
}

// spread calls found for each way to put pods (bits), from p on, on nodes with room. left are those without a node.
func (m *model) spread(w world, i, p int, pods uint8, found func(w world, left uint8)) {
	if p == len(m.pods) {
		found(w, pods)
		return
	}
	m.spread(w, i, p+1, pods, found)
	for n := range m.capacity {
		pic := &w.shards[i]
		if pods>>p&1 == 0 || !w.sameDoc(i, n) || m.full(&w, pic, n, p) || m.fullLater(&w, pic, n, p, 0) {
			continue
		}
		t := w
		t.reserve(i, n, p, committed)
		m.spread(t, i, p+1, pods&^(1<<p), found)
	}
}

// reserve puts a document with a reservation of a pod that is placed by itself.
func (w *world) reserve(i, n, p int, as entryState) {
	w.now.docs[n].entries[p] = entry{state: as, version: w.pods[p].version}
	w.now.docs[n].revision++
	w.learnDoc(i, n)
}
