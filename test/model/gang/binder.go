package gang

// bindable notes for each pod the nodes to which a binder may bind it. A binder reads the gang's record and the
// documents as of one revision, and binds a pod whose reservation is committed there. The revision may be old, so a
// node that was allowed once stays noted.
func (m *model) bindable(w *world) {
	for p := range m.pods {
		if !w.pods[p].pending() || m.pods[p].runs != 0 {
			continue
		}
		for n := range m.capacity {
			e := w.now.docs[n].entries[p]
			is := m.judge(&w.now, n, p)
			if e.state == none || e.version != w.pods[p].version {
				is = void
			}
			if is == firm || is == counts && m.without("the binder's look at the record") {
				w.pods[p].asked |= 1 << n
			}
			m.bindableAhead(w, n, p, e)
		}
	}
}

// bindableAhead is for the ablation in which a binder combines a record with documents that are older.
func (m *model) bindableAhead(w *world, n, p int, e entry) {
	g := int(m.pods[p].gang) - 1
	if !m.without("a picture past the record, to bind") || g < 0 {
		return
	}
	if e.state == pledged {
		w.pods[p].pledged[n] |= 1 << e.attempt
	}
	r := w.now.records[g]
	if r.state == recordCommitted && w.pods[p].pledged[n]>>r.attempt&1 == 1 {
		w.pods[p].asked |= 1 << n
	}
}

// bind sends binds. One that is decided on an earlier version of the pod fails, and is not modeled.
func (m *model) bind(w *world, p int, step stepFunc) {
	if !w.pods[p].pending() {
		return
	}
	for n := range m.capacity {
		foreign := m.pods[p].foreign && n == 0
		if w.pods[p].asked>>n&1 == 0 && !foreign {
			continue
		}
		t := *w
		t.pods[p] = pod{node: uint8(n + 1)}
		if !foreign && m.judge(&w.now, n, p) != firm {
			t.violation = unreserved
		}
		m.emit(t, does("%c is bound to node %c", m.pods[p].name, node(n)), step)
	}
}

// tidy changes entries whose attempt has ended: those of a committed one become reservations of their own, those of
// any other are dropped. It compares document and record.
func (m *model) tidy(w *world, n, p int, step stepFunc) {
	e := w.now.docs[n].entries[p]
	g := int(m.pods[p].gang) - 1
	if e.state == claimed {
		g = e.by.gang()
	}
	if g < 0 || w.pods[p].gone || e.state != pledged && e.state != held && e.state != claimed ||
		e.state != claimed && !w.pods[p].pending() {
		return
	}
	m.dropBlindly(w, n, p, step)
	t := *w
	t.now.docs[n].revision++
	switch is := m.attemptOf(&w.now, n, g, e.attempt); {
	case is == void:
		t.now.docs[n].entries[p] = entry{}
		m.emit(t, does("what is left of %c's attempt is dropped for %c on node %c",
			m.gangs[g].name, m.pods[p].name, node(n)), step)
	case is == firm && e.state == pledged && w.left.attempts[g]+w.left.fences+w.left.drops > 0:
		t.now.docs[n].entries[p] = entry{state: committed, version: e.version}
		m.emit(t, does("%c's pledge on node %c is resolved", m.pods[p].name, node(n)), step)
	}
}

// dropBlindly drops what a shard takes for void, without the compare of the record.
func (m *model) dropBlindly(w *world, n, p int, step stepFunc) {
	for i := range shards {
		if m.without("the compare of the record, to drop a pledge") && w.sameDoc(i, n) && m.pods[p].gang != 0 &&
			m.judge(&w.shards[i], n, p) == void {
			t := *w
			t.now.docs[n].revision++
			t.now.docs[n].entries[p] = entry{}
			t.learnDoc(i, n)
			m.emit(t, does("shard %d drops %c's pledge on node %c", uint8(i), m.pods[p].name, node(n)), step)
		}
	}
}

// fence is T6, the change of the pod, and T7.
func (m *model) fence(w *world, n, p int, step stepFunc) {
	e := w.now.docs[n].entries[p]
	is := m.judge(&w.now, n, p)
	may := e.state == committed || e.state == pledged &&
		(is == firm && m.without("resolved before a fence") || is == counts && m.without("no fence of a pledge"))
	if w.left.fences == 0 || !may || !w.pods[p].pending() || m.pods[p].gang == 0 {
		return
	}
	t := *w
	t.left.fences--
	t.now.docs[n].entries[p] = entry{}
	t.now.docs[n].revision++
	t.pods[p] = pod{version: w.pods[p].version + 1}
	m.emit(t, does("a fence takes %c's place on node %c back", m.pods[p].name, node(n)), step)
}

// mark is T2 mark: the claims on a unit may be carried out from now on. It compares the record.
func (m *model) mark(w *world, v int, step stepFunc) {
	o := m.claimant(&w.now, v)
	if o == 0 || w.pods[v].gone || w.now.docs[m.pods[v].runs-1].entries[v].state != claimed {
		return
	}
	t := *w
	if g := o.gang(); g >= 0 {
		if w.now.records[g].state == forming && !m.without("ready before marks") {
			return
		}
		if m.strength(w, &w.now, g, waits) < m.gangs[g].min {
			t.violation = prematurely
		}
	}
	for u := range m.pods {
		if w.pods[u].gone || u != v && (m.pods[v].unit == 0 || m.pods[u].unit != m.pods[v].unit) {
			continue
		}
		n := int(m.pods[u].runs) - 1
		switch e := &t.now.docs[n].entries[u]; {
		case e.state == marked:
		case m.claimant(&w.now, u) != o, u != v && m.without("marks of whole units"):
			t.violation = split
		default:
			e.state = marked
			t.now.docs[n].revision++
		}
	}
	m.emit(t, does("a binder marks %c and its unit", m.pods[v].name), step)
}

// vanish is the eviction of a victim. A claim that is marked stays, so the eviction may come at any time.
func (m *model) vanish(w *world, v int, step stepFunc) {
	if m.pods[v].runs == 0 || w.pods[v].gone || w.now.docs[m.pods[v].runs-1].entries[v].state != marked {
		return
	}
	t := *w
	t.pods[v].gone = true
	m.emit(t, does("%c is evicted and gone", m.pods[v].name), step)
}
