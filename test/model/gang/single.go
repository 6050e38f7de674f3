package gang

// place is T1 of a pod that belongs to no gang.
func (m *model) place(w *world, i, p int, step stepFunc) {
	pic := &w.shards[i]
	wants := m.pods[p]
	if wants.gang != 0 || wants.foreign || wants.shard != i || !w.pods[p].pending() || m.placed(pic, p) != void {
		return
	}
	for n := range m.capacity {
		if !w.sameDoc(i, n) {
			continue
		}
		if !m.full(w, pic, n, p) && !m.fullLater(w, pic, n, p, 0) {
			t := *w
			t.reserve(i, n, p, committed)
			m.emit(t, does("shard %d reserves node %c for %c", uint8(i), node(n), m.pods[p].name), step)
		}
		for q := range m.pods {
			if m.pods[q].gang != 0 && m.pods[q].priority < m.pods[p].priority && w.pods[q].pending() {
				m.displace(w, displacement{i, p, q, n}, step)
			}
		}
	}
}

// displacement is a shard's decision to give a pod the place of a member on a node.
type displacement struct{ shard, pod, member, node int }

// displace is T4 on a pledge of a gang: a more important pod takes the place of a member. Of a place that waits for
// victims it takes the claims along, with the units to which they belong, so it waits until all of those are claimed. A
// place that needs the same victims then waits for a plan that is not its own. The gang is no longer ready, if it was.
func (m *model) displace(w *world, d displacement, step stepFunc) {
	i, n := d.shard, d.node
	pic := w.shards[i]
	g := int(m.pods[d.member].gang) - 1
	is, r := m.judge(&pic, n, d.member), pic.records[g]
	switch {
	case is != waits && is != counts, !w.sameRecord(i, g) && !m.without("the record in a displacement"):
		return
	case is == waits && r.state == forming && !m.without("ready before a hold is displaced"):
		return
	}
	as := committed
	pic.docs[n].entries[d.member] = entry{}
	var victims uint8
	if is == waits {
		as = held
		victims = m.victimsAt(w, &pic, plan(1+g), n)
		if !m.sameVictims(w, i, victims) {
			return
		}
		pic.pass(m, victims, m.planOf(d.pod))
	}
	if m.fullLater(w, &pic, n, d.pod, 0) || as == committed && m.full(w, &pic, n, d.pod) {
		return
	}
	t := *w
	t.now.docs[n].entries[d.member] = entry{}
	t.now.pass(m, victims, m.planOf(d.pod))
	for v := range m.pods {
		if to := int(m.pods[v].runs) - 1; victims>>v&1 == 1 && to != n {
			t.now.docs[to].revision++
			t.learnDoc(i, to)
		}
	}
	t.reserve(i, n, d.pod, as)
	if r.live() && !m.without("the record in a displacement") {
		if !m.without("no longer ready after a displacement") {
			r.state = forming
		}
		t.write(i, g, r)
	}
	m.emit(t, does("%c displaces %c on node %c", m.pods[d.pod].name, m.pods[d.member].name, node(n)), step)
}

// victimsAt are the victims of a plan that run on a node and, with them, the others of their units.
func (m *model) victimsAt(w *world, pic *picture, o plan, n int) (victims uint8) {
	for v := range m.pods {
		if !w.pods[v].on(n) || m.claimant(pic, v) != o {
			continue
		}
		victims |= 1 << v
		for u := range m.pods {
			if m.pods[v].unit != 0 && m.pods[u].unit == m.pods[v].unit && m.claimant(pic, u) == o &&
				!m.without("claims that move with their unit") {
				victims |= 1 << u
			}
		}
	}
	return victims
}

// sameVictims are the compares of the documents that have claims.
func (m *model) sameVictims(w *world, i int, victims uint8) bool {
	for v := range m.pods {
		if victims>>v&1 == 1 && !w.sameDoc(i, int(m.pods[v].runs)-1) {
			return false
		}
	}
	return true
}

// pass gives claims to another plan.
func (pic *picture) pass(m *model, victims uint8, to plan) {
	for v := range m.pods {
		if victims>>v&1 == 1 {
			e := &pic.docs[m.pods[v].runs-1].entries[v]
			e.by, e.attempt = to, 0
		}
	}
}
