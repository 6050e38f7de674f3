package nominate

// decide is T1 and T2 for one pod: reserve it where it fits now, or hold a place until its victims are gone. Every
// document that the decision has counted is compared, so the ledger's part of the decision is current; the facts are
// those that the shard has read.
func (m *model) decide(w *world, p int, step stepFunc) {
	i, see := m.pods[p].shard, m.seenBy(w, m.pods[p].shard)
	if m.pods[p].foreign || m.pods[p].runs != 0 || w.entries[p].state != none || !see(p).pending() {
		return
	}
	for n := range m.capacity {
		if m.pods[p].on>>n&1 == 0 || !m.usable(w, i, n) || !m.seesRequired(w, i, p) {
			continue
		}
		c := plan{pod: p, node: n, displaces: -1}
		if m.blockers(see, p) == 0 && m.fitsNow(w, see, n, p) && m.fitsLater(w, see, c) {
			t := *w
			t.entries[p] = entry{state: committed, node: uint8(n)}
			step(m.does("shard %d reserves node %s for %s", i, node(n), m.pods[p].name), t)
		}
		if w.left.plans == 0 || m.pods[p].needs != 0 {
			continue
		}
		m.plans(w, see, c, func(c plan) { m.nominate(w, c, step) })
		for k := range m.pods {
			m.displace(w, c, k, step)
		}
	}
}

// usable reports whether a shard's facts have come as far as a node's document demands.
func (m *model) usable(w *world, i, n int) bool {
	return w.shards[i].at >= w.hw[n] || m.without("the high-water when a claim goes")
}

// seesRequired reports whether a shard sees the pods that p needs, and none of them is a victim. Their documents are
// compared, and pin them (see pinned).
func (m *model) seesRequired(w *world, i, p int) bool {
	for q := range m.pods {
		seen := w.shards[i].cache[q]
		if m.pods[p].needs>>q&1 == 0 {
			continue
		}
		if seen.gone || seen.node == 0 || w.claims[q].by != 0 || !m.usable(w, i, int(seen.node)-1) {
			return false
		}
	}
	return true
}

// pinned reports whether a reservation relies on a pod. Once bound, it no longer does.
func (m *model) pinned(w *world, q int) bool {
	for p, spec := range m.pods {
		if spec.needs>>q&1 == 1 && w.entries[p].state == committed && w.pods[p].pending() {
			return !m.without("the pin on what a pod relies on")
		}
	}
	return false
}

// nominate is T2: the place and the claims on all victims, in one transaction.
func (m *model) nominate(w *world, c plan, step stepFunc) {
	i, name := m.pods[c.pod].shard, m.pods[c.pod].name
	if m.without("commit before eviction") {
		m.evictEarly(w, c, step)
	}
	t := *w
	t.left.plans--
	t.take(c)
	step(m.does("shard %d holds node %s for %s and claims %s", i, node(c.node), name, m.names(c.victims)), t)
}

// take writes a plan: the place, and a claim on each victim.
func (w *world) take(c plan) {
	w.entries[c.pod] = entry{state: held, node: uint8(c.node), victims: c.victims, waited: true}
	for q := range w.claims {
		if c.victims>>q&1 == 1 {
			w.claims[q] = claim{by: uint8(c.pod + 1)}
		}
	}
}

// displace is T4: a pod of higher priority takes over the place of plan k with all its victims, whether claimed,
// being evicted or gone. No further victims are claimed for it.
func (m *model) displace(w *world, c plan, k int, step stepFunc) {
	e := w.entries[k]
	stale := e.state == committed && e.waited && m.without("compare of the holder's document")
	if k == c.pod || e.state != held && !stale || int(e.node) != c.node || m.pods[k].priority >= m.pods[c.pod].priority {
		return
	}
	see := m.seenBy(w, m.pods[c.pod].shard)
	c.displaces, c.victims = k, e.victims
	if m.blockers(see, c.pod)&^e.victims != 0 || !m.fitsLater(w, see, c) {
		return
	}
	t := *w
	t.left.plans--
	if e.state == committed && w.pods[k].pending() {
		t.violation = unfenced
	}
	t.entries[k] = entry{}
	t.entries[c.pod] = entry{state: held, node: e.node, victims: e.victims, waited: true}
	if m.without("the plan that goes with its place") {
		if w.evictedFor(k) {
			t.violation = unused
		}
		t.drop(k, false)
		t.take(c)
	} else {
		t.pass(k, c.pod)
	}
	step(m.does("shard %d gives %s the place of %s on node %s with %s", m.pods[c.pod].shard, m.pods[c.pod].name,
		m.pods[k].name, node(c.node), m.names(c.victims)), t)
}

// pass hands the claims and the evictions for one pod's place on to another pod.
func (w *world) pass(from, to int) {
	for q := range w.pods {
		if int(w.pods[q].cause) == from+1 {
			w.pods[q].cause = uint8(to + 1)
		}
		if int(w.claims[q].by) == from+1 {
			w.claims[q].by = uint8(to + 1)
		}
	}
}

// evictedFor reports whether a pod has been evicted for a plan.
func (w *world) evictedFor(k int) bool {
	for q := range w.pods {
		if int(w.pods[q].cause) == k+1 {
			return true
		}
	}
	return false
}

// drop removes a plan's claims; claims whose eviction may have been sent stay, without a plan.
func (w *world) drop(k int, sentToo bool) {
	for q, c := range w.claims {
		if int(w.pods[q].cause) == k+1 {
			w.pods[q].cause = 0
		}
		switch {
		case int(c.by) != k+1:
		case c.sent && !sentToo:
			w.claims[q].by = orphan
		default:
			w.claims[q] = claim{}
		}
	}
}

// promote is T3, by any shard (the pod may have changed hands): the place becomes bindable.
// Only the document of that node is compared and put: claims elsewhere go later.
func (m *model) promote(w *world, p int, step stepFunc) {
	e := w.entries[p]
	if e.state != held {
		return
	}
	for i := range m.shards() {
		see := m.seenBy(w, i)
		left := m.blockers(see, p)
		for q := range m.pods {
			if e.victims>>q&1 == 1 && !see(q).gone {
				left |= 1 << q
			}
		}
		fits := m.fitsNow(w, see, int(e.node), p)
		if !see(p).pending() || left != 0 && !m.without("the view of all victims gone") ||
			!fits && !m.without("the test that it fits now") {
			continue
		}
		t := *w
		t.entries[p].state = committed
		for q := range m.pods {
			if int(t.pods[q].cause) == p+1 {
				t.pods[q].cause = 0
			}
		}
		if !fits && left == 0 {
			t.violation = blindly
		}
		for q := range m.pods {
			if int(w.claims[q].by) == p+1 && int(w.pods[q].node) == int(e.node)+1 {
				t.release(q)
			}
		}
		step(m.does("shard %d promotes %s", i, m.pods[p].name), t)
	}
}

// abort is T8, by any shard at any time.
func (m *model) abort(w *world, p int, step stepFunc) {
	if w.entries[p].state != held || w.left.aborts == 0 {
		return
	}
	t := *w
	t.left.aborts--
	t.entries[p] = entry{}
	t.drop(p, m.without("sent claims that stay"))
	step(m.does("the plan of %s is given up", m.pods[p].name), t)
}

// read lets a shard read a fact.
func (m *model) read(w *world, i int, step stepFunc) {
	if w.shards[i].at == w.len {
		return
	}
	t := *w
	f := w.log[w.shards[i].at]
	t.shards[i].at++
	t.shards[i].cache[f.pod] = f.podView
	t.forget(m.shards())
	did := "shard %d reads that %s is bound"
	if f.gone {
		did = "shard %d reads that %s is gone"
	}
	step(m.does(did, i, m.pods[f.pod].name), t)
}

// release drops the claim on a pod that is gone. A shard that uses its node from now on must know that.
func (w *world) release(v int) {
	n := w.pods[v].node - 1
	w.hw[n] = max(w.hw[n], w.pods[v].since)
	w.claims[v] = claim{}
}

// forget drops the facts that all have read.
func (w *world) forget(shards int) {
	read := w.len
	for i := range shards {
		read = min(read, w.shards[i].at)
	}
	n := copy(w.log[:], w.log[read:w.len])
	clear(w.log[n:])
	w.len -= read
	for n := range w.hw {
		w.hw[n] -= min(w.hw[n], read)
	}
	for p := range w.pods {
		w.pods[p].since -= min(w.pods[p].since, read)
	}
	for i := range shards {
		w.shards[i].at -= read
	}
}
