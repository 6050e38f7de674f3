package gang

// owner returns the shard that has a gang's partition.
func (m *model) owner(pic *picture, g int) int {
	return (int(m.gangs[g].shard) + int(pic.epochs[g])) % shards
}

// owns reports whether a shard may decide about a gang: as far as it has read, the partition is its own, and the
// compare of the epoch shows that it still is.
func (m *model) owns(w *world, i, g int) bool {
	pic := &w.shards[i]
	return m.owner(pic, g) == i && (pic.epochs[g] == w.now.epochs[g] || m.without("the compare of the epoch"))
}

// sameRecord is the compare of a record.
func (w *world) sameRecord(i, g int) bool {
	return w.shards[i].records[g].revision == w.now.records[g].revision
}

// sameDoc is the compare of a document.
func (w *world) sameDoc(i, n int) bool { return w.shards[i].docs[n].revision == w.now.docs[n].revision }

// write puts a gang's record. The shard that wrote it knows (-1: any member).
func (w *world) write(i, g int, r record) {
	r.revision = w.now.records[g].revision + 1
	w.now.records[g] = r
	if i >= 0 {
		w.shards[i].records[g] = w.now.records[g]
	}
}

// learnDoc copies a node's document into the view of a shard, which has written it or has read it in the answer of a
// refused transaction.
func (w *world) learnDoc(i, n int) {
	w.shards[i].docs[n] = w.now.docs[n]
	w.shards[i].ahead |= 1 << n
}

// form is T9 form: the next attempt of a gang.
func (m *model) form(w *world, i, g int, step stepFunc) {
	pic := &w.shards[i]
	r := pic.records[g]
	over := r.state == absent || r.state == aborted || r.state == recordCommitted &&
		(!m.names(w, pic, g, pledged, held) || m.without("resolved before replaced"))
	if !over || w.left.attempts[g] == 0 || !w.sameRecord(i, g) || !m.owns(w, i, g) ||
		m.missing(w, pic, g) == 0 || m.waitsParked(w, pic, g) {
		return
	}
	t := *w
	t.left.attempts[g]--
	t.parked[g] = false
	t.made[g]++
	attempt := t.made[g]
	if m.without("attempts that are never used again") {
		attempt = r.attempt + 1
	}
	t.write(i, g, record{state: forming, attempt: attempt})
	m.emit(t, does("shard %d forms attempt %d of %c", uint8(i), attempt, m.gangs[g].name), step)
}

// missing are the unbound members without a place, as bits.
func (m *model) missing(w *world, pic *picture, g int) (pods uint8) {
	m.members(g, func(p int) {
		if w.pods[p].pending() && m.placed(pic, p) == void {
			pods |= 1 << p
		}
	})
	return pods
}

// waitsParked reports whether a gang that has yielded waits for the end of the earlier one's attempt.
func (m *model) waitsParked(w *world, pic *picture, g int) bool {
	for e := range g {
		if w.parked[g] && pic.records[e].live() && !m.without("the later waits for the earlier's end") {
			return true
		}
	}
	return false
}

// makeReady is T9 ready: all places are there and all victims claimed. From now on these may be marked.
func (m *model) makeReady(w *world, i, g int, step stepFunc) {
	pic := &w.shards[i]
	if pic.records[g].state != forming || !w.sameRecord(i, g) || !m.owns(w, i, g) ||
		!m.names(w, pic, g, held) {
		return
	}
	complete := m.strength(w, pic, g, waits) >= m.gangs[g].min && m.whole(w, pic, plan(1+g))
	if !complete && !m.without("all claims before ready") {
		return
	}
	t := *w
	t.write(i, g, record{state: ready, attempt: pic.records[g].attempt})
	m.emit(t, does("shard %d makes %c ready", uint8(i), m.gangs[g].name), step)
}

// commit is T9 commit.
func (m *model) commit(w *world, i, g int, step stepFunc) {
	pic := &w.shards[i]
	r := pic.records[g]
	same := w.sameRecord(i, g) ||
		m.without("the compare of the record, to commit") && w.now.records[g].attempt == r.attempt
	switch {
	case !r.live() || !same || !m.owns(w, i, g) || !m.names(w, pic, g, pledged):
		return
	case m.strength(w, pic, g, counts) < m.gangs[g].min && !m.without("the count of members, to commit"):
		return
	case r.state == forming && m.names(w, pic, g, held) && !m.without("ready before a commit with holds"):
		return
	}
	t := *w
	if m.strength(w, &w.now, g, counts) < m.gangs[g].min {
		t.violation = tooFew
	}
	t.write(i, g, record{state: recordCommitted, attempt: r.attempt})
	m.emit(t, does("shard %d commits %c", uint8(i), m.gangs[g].name), step)
}

// abort is T9 abort, by any member at any time.
func (m *model) abort(w *world, g int, step stepFunc) {
	r := w.now.records[g]
	if w.left.timeouts > 0 && (r.live() || r.state == recordCommitted && m.without("a commit is final")) {
		t := *w
		t.left.timeouts--
		t.write(-1, g, record{state: aborted, attempt: r.attempt})
		m.emit(t, does("the attempt of %c is aborted", m.gangs[g].name), step)
	}
	if r.state == aborted && m.without("an abort is final") {
		t := *w
		t.write(-1, g, record{state: forming, attempt: r.attempt})
		m.emit(t, does("the attempt of %c goes on", m.gangs[g].name), step)
	}
}

// yield aborts an attempt that lacks room. A gang that is later than one in its way does so at once, and waits for that
// one's attempt to end; an earlier one waits with what it has. A gang with nothing to wait for gives up.
func (m *model) yield(w *world, i, g int, step stepFunc) {
	pic := &w.shards[i]
	if !pic.records[g].live() || !w.sameRecord(i, g) || !m.owns(w, i, g) || !m.lacks(w, pic, g) {
		return
	}
	first, last := m.inTheWay(w, pic, g)
	yields := first < g
	switch {
	case m.without("the later yields"):
		yields = false
	case m.without("the earlier does not yield"):
		yields = first < maxGangs
	case m.without("the order of gangs"):
		yields = last > g
	}
	gaveUp := first == maxGangs && m.current(w, i)
	if !yields && !gaveUp {
		return
	}
	t := *w
	t.parked[g] = yields && first < g
	if yields && first > g && !m.without("the earlier does not yield") {
		t.violation = gaveWay
	}
	t.write(i, g, record{state: aborted, attempt: pic.records[g].attempt})
	text := "shard %d: %c gives up, it has no room"
	if yields {
		text = "shard %d: %c yields"
	}
	m.emit(t, does(text, uint8(i), m.gangs[g].name), step)
}

// lacks reports whether there is no place for a member, or a victim cannot be claimed any more.
func (m *model) lacks(w *world, pic *picture, g int) bool {
	missing := m.missing(w, pic, g)
	if missing != 0 && m.strength(w, pic, g, waits) >= m.gangs[g].min {
		missing = 0 // the rest can come later
	}
	for p := range m.pods {
		if missing>>p&1 == 1 && !m.hasPlace(w, pic, p) {
			return true
		}
	}
	for v := range m.pods {
		if o := m.claimant(pic, v); o != 0 && o != plan(1+g) && m.sharesUnit(pic, v, plan(1+g)) {
			return true
		}
	}
	return false
}

// sharesUnit reports whether a plan claims a pod of the unit of v.
func (m *model) sharesUnit(pic *picture, v int, o plan) bool {
	for u := range m.pods {
		if m.pods[v].unit != 0 && m.pods[u].unit == m.pods[v].unit && m.claimant(pic, u) == o {
			return true
		}
	}
	return false
}

// inTheWay returns the first and the last other gang with places that it may still lose, maxGangs and -1 for none.
func (m *model) inTheWay(w *world, pic *picture, g int) (first, last int) {
	first, last = maxGangs, -1
	for other := range m.gangs {
		if other != g && pic.records[other].live() && m.names(w, pic, other, pledged, held) {
			first, last = min(first, other), other
		}
	}
	return first, last
}

// drop is T9 drop: the record of a gang that no document names.
func (m *model) drop(w *world, i, g int, step stepFunc) {
	pic := &w.shards[i]
	r := pic.records[g]
	if w.left.drops == 0 || r.state == absent || r.live() || !w.sameRecord(i, g) ||
		m.anyEntry(w, pic, g) {
		return
	}
	t := *w
	t.left.drops--
	t.write(i, g, record{})
	m.emit(t, does("shard %d drops the record of %c", uint8(i), m.gangs[g].name), step)
}

// anyEntry reports whether a document names the gang. What is about bound pods and those that are gone does not count:
// package reserve is about when such entries leave.
func (m *model) anyEntry(w *world, pic *picture, g int) (found bool) {
	for n := range m.capacity {
		for p := range m.pods {
			e := pic.docs[n].entries[p]
			member := int(m.pods[p].gang) == g+1 && w.pods[p].pending() && (e.state == held || e.state == pledged)
			found = found || member || !w.pods[p].gone && e.by == plan(1+g)
		}
	}
	return found
}
