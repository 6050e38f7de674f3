package nominate

// happened appends the present state of a pod to the log.
func (w *world) happened(p int) {
	if w.len == maxLog {
		w.violation = logFull
		return
	}
	w.log[w.len] = fact{pod: uint8(p), podView: w.pods[p].podView}
	w.len++
	if w.pods[p].gone {
		w.pods[p].since = w.len
	}
}

// evict is the binder and the API server with one victim.
func (m *model) evict(w *world, v int, step stepFunc) {
	name, c := m.pods[v].name, w.claims[v]
	if c.by != 0 && c.by != orphan && !w.pods[v].asked && w.entries[c.by-1].state == held {
		t := *w
		t.claims[v].sent = !m.without("the mark before the eviction")
		t.pods[v].asked = true
		did := "the binder marks %s and sends its eviction"
		if !t.claims[v].sent {
			did = "the binder sends the eviction of %s without a mark"
		}
		step(m.does(did, name), t)
	}
	if w.pods[v].asked && !w.pods[v].terminating && !w.pods[v].gone {
		t := *w
		t.pods[v].terminating = true
		if c.by != orphan {
			t.pods[v].cause = c.by
		}
		if c.by == 0 && w.pods[v].early == 0 {
			t.violation = unclaimed
		}
		step(m.does("the API server evicts %s", name), t)
	}
	if w.pods[v].terminating && !w.pods[v].gone {
		m.vanish(w, v, "%s has ended", step)
	}
	// A claim on a pod that is gone ends with its plan.
	if w.pods[v].gone && c.by != 0 && (c.by == orphan || w.entries[c.by-1].state != held) {
		t := *w
		t.release(v)
		step(m.does("the claim on %s is dropped", name), t)
	}
}

// evictEarly sends evictions for a plan that is only decided.
func (m *model) evictEarly(w *world, c plan, step stepFunc) {
	t := *w
	for q := range m.pods {
		if c.victims>>q&1 == 1 {
			t.pods[q].asked, t.pods[q].early = true, uint8(c.pod+1)
		}
	}
	if t != *w {
		by := m.pods[c.pod]
		step(m.does("shard %d sends the evictions of %s for %s", by.shard, m.names(c.victims), by.name), t)
	}
}

func (m *model) vanish(w *world, p int, did string, step stepFunc) {
	t := *w
	t.pods[p].gone = true
	t.happened(p)
	step(m.does(did, m.pods[p].name), t)
}

// serve is any other change of a pod.
func (m *model) serve(w *world, p int, step stepFunc) {
	if w.pods[p].gone {
		return
	}
	if w.left.deletes > 0 {
		t := *w
		t.left.deletes--
		m.vanish(&t, p, "%s is deleted by its user", step)
	}
	to, did := w.entries[p].node+1, "%s is bound to node %s"
	if m.pods[p].foreign {
		did = "another scheduler binds %s to node %s"
		for to = 1; m.pods[p].on>>(to-1)&1 == 0; to++ {
		}
	}
	if w.pods[p].pending() && (m.pods[p].foreign || w.entries[p].state == committed) {
		t := *w
		t.pods[p].node = to
		for q := range m.pods {
			if m.pods[p].needs>>q&1 == 1 && w.pods[q].terminating {
				t.violation = alone
			}
		}
		t.happened(p)
		step(m.does(did, m.pods[p].name, node(int(to)-1)), t)
	}
}
