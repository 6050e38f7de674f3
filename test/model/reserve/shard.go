package reserve

// decide lets shard i place its pods: count what its view shows on a node, and reserve.
func (m *model) decide(w *world, i int, step stepFunc) {
	s := &w.shards[i]
	for p, owner := range m.owner {
		if owner != i || !s.cache[p].pending() || w.pods[p].pick != 0 || w.reserved(m.nodes, p) || w.left.placements == 0 {
			continue
		}
		for n := range m.nodes {
			if !m.usable(w, i, n) || m.used(w, i, n) >= m.capacity {
				continue
			}
			t := *w
			t.left.placements--
			t.pods[p].pickRV = s.cache[p].rv
			if m.apart {
				t.pods[p].pick = uint8(n + 1)
				m.hint(&t, p, n)
				step(does("shard %d decides on node %c for p%d", uint8(i), name(n), uint8(p)), t)
				continue
			}
			if m.commit(&t, i, p, n) {
				step(does("shard %d reserves node %c for p%d", uint8(i), name(n), uint8(p)), t)
			}
		}
	}
}

// reserved reports whether the ledger has an entry of the pod. Its shard knows: it has made it.
func (w *world) reserved(nodes, p int) bool {
	for n := range nodes {
		if w.docs[n].entries[p].state != none {
			return true
		}
	}
	return false
}

// usable reports whether the facts have come as far as the document demands.
func (m *model) usable(w *world, i, n int) bool {
	s, hw := &w.shards[i], w.docs[n].hw
	if m.without("compare of the document") {
		hw = s.docs[n].hw
	}
	return m.without("the high-water") || !s.blind && s.progress >= hw
}

// used is the counting rule: the pods that the facts show there, and those with an entry
// there that the facts show neither bound nor gone. A shard counts what it has decided too.
func (m *model) used(w *world, i, n int) int {
	count := 0
	for q, owner := range m.owner {
		seen := w.shards[i].cache[q]
		entry := w.docs[n].entries[q].state != none
		if m.without("compare of the document") {
			entry = w.shards[i].docs[n].entries>>q&1 == 1
		}
		picked := owner == i && int(w.pods[q].pick) == n+1
		if seen.on(n) || seen.pending() && (entry || picked) {
			count++
		}
	}
	return count
}

// commit is T1 (place batch) as it reaches the ledger; false when a compare fails.
func (m *model) commit(w *world, i, p, n int) bool {
	d := &w.docs[n]
	if m.without("compare of the document") {
		// The compare shows that no key has been created since the shard has read the node's.
		for q := range m.owner {
			if d.entries[q].state != none && w.shards[i].docs[n].entries>>q&1 == 0 {
				return false
			}
		}
	}
	d.entries[p] = entry{state: committed}
	w.pods[p].pick = 0
	w.moved(m, n, i)
	w.pods[p].placed |= 1 << n
	m.hint(w, p, n)
	w.pods[p].pickRV = 0
	return true
}

// hint lets the bind be sent with the resourceVersion of the decision. Any binder that has learned of the entry may
// do so at any time, whatever has happened to the entry since.
func (m *model) hint(w *world, p, n int) {
	pod := &w.pods[p]
	early := pod.pick != 0
	if pod.pickRV == pod.rv && pod.pending() && (!early || m.without("the binder's own watch, with early hints")) {
		pod.asked |= 1 << n
	}
}

// moved notes that a document has changed, by shard i or (-1) by a binder: decisions of others on it lose their
// compare.
func (w *world) moved(m *model, n, i int) {
	if m.without("commit on the revision decided on") {
		return
	}
	for p, owner := range m.owner {
		if owner != i && int(w.pods[p].pick) == n+1 {
			w.pods[p].pick, w.pods[p].pickRV = 0, 0
		}
	}
}

// land commits a decision that was made earlier, or loses it.
func (m *model) land(w *world, p int, step stepFunc) {
	if w.pods[p].pick == 0 {
		return
	}
	n, i := int(w.pods[p].pick)-1, m.owner[p]
	t := *w
	if m.commit(&t, i, p, n) {
		step(does("shard %d reserves node %c for p%d", uint8(i), name(n), uint8(p)), t)
	}
	t = *w
	t.pods[p].pick, t.pods[p].pickRV = 0, 0
	step(does("shard %d drops its decision about p%d", uint8(i), uint8(p)), t)
}

// readDocs lets shard i read documents, for the ablation in which it may be behind.
func (m *model) readDocs(w *world, i int, step stepFunc) {
	if !m.without("compare of the document") {
		return
	}
	for n := range m.nodes {
		t := *w
		now := read{hw: w.docs[n].hw}
		for q := range m.owner {
			if w.docs[n].entries[q].state != none {
				now.entries |= 1 << q
			}
		}
		if t.shards[i].docs[n] = now; now != w.shards[i].docs[n] {
			step(does("shard %d reads the entries of node %c", uint8(i), name(n)), t)
		}
	}
}
