package names

// admission is a shard's verdict on the node that its facts show.
type admission uint8

const (
	admitted admission = iota
	unadmitted
	superseded
)

// admission looks at the ledger as the shard has read it.
func (m *model) admission(s *shard) admission {
	l, own := &s.read, s.read.docs[s.node]
	switch {
	case m.without("incarnations"):
		return admitted
	case s.ahead>>s.node&1 == 1:
		return superseded // for now
	case l.incarnation == s.node && own.exists && !own.superseded, l.incarnation == 0 && l.stored() == 0:
		return admitted
	case l.incarnation != 0 && l.incarnation >= s.node:
		return superseded
	}
	for uid := 1; uid < maxUIDs; uid++ {
		if uid != int(s.node) && l.docs[uid].exists && l.docs[uid].node > s.node {
			return superseded
		}
	}
	return unadmitted
}

// stored are the nodes with documents, as bits.
func (l *ledger) stored() (uids uint8) {
	for uid := 1; uid < maxUIDs; uid++ {
		uids |= bit(l.docs[uid].exists) << uid
	}
	return uids
}

// open is the document of the shard's node, as one to add to. A first one starts from the floor.
func (m *model) open(s *shard) doc {
	d := s.read.docs[s.node]
	if !d.exists {
		d = doc{node: s.node}
		if !m.without("the floor's high-waters") {
			d.pods = s.read.floorPods
		}
	}
	return d
}

// highWater is the resourceVersion that the shard's facts about pods must have reached: that of the document, and
// those of other documents of the name.
func (m *model) highWater(s *shard) uint8 {
	hw := m.open(s).pods
	blind := m.without("the high-waters of older documents") || m.without("high-waters handed on") ||
		m.without("incarnations")
	for uid := 1; uid < maxUIDs; uid++ {
		if s.read.docs[uid].exists && !blind {
			hw = max(hw, s.read.docs[uid].pods)
		}
	}
	return hw
}

// used counts by name: pods that the facts show bound, and entries of pods that they do not, in any
// document.
func (m *model) used(s *shard, w *world) int {
	n := 0
	for p := range m.owner {
		if w.seen(s, p) {
			n++
			continue
		}
		for uid := 1; uid < maxUIDs; uid++ {
			n += int(s.read.docs[uid].entries >> p & 1)
		}
	}
	return n
}

// seen reports whether a shard's facts show a pod bound.
func (w *world) seen(s *shard, p int) bool { return w.bound[p] != 0 && w.bound[p] <= s.progress }

// place is T1 of one pod: decided on what the shard knows, and compared with the present ledger.
func (m *model) place(w *world, i, p int, step stepFunc) {
	s := &w.shards[i]
	if m.owner[p] != i || w.left.placements == 0 || w.seen(s, p) || w.reserved(p) || m.admission(s) != admitted ||
		s.progress < m.highWater(s) || m.used(s, w) > 0 {
		return
	}
	d := m.open(s)
	keys := uint8(1) << s.node
	if !d.exists && !m.without("incarnations") {
		keys |= 1 << incarnationKey
	}
	compared := keys
	if !d.exists {
		compared |= 1 << floorKey
	}
	if m.without("the incarnation's compare") {
		compared &^= 1 << incarnationKey
	}
	if m.without("the floor's compare") {
		compared &^= 1 << floorKey
	}
	t := *w
	t.left.placements--
	if !m.holds(w, s, compared) {
		if m.lost(&t, i, compared); t.shards[i] != *s {
			step(does("shard %d tries to place p%d on node %d, and loses", uint8(i), uint8(p), s.node), t)
		}
		return
	}
	if !d.exists && !m.without("incarnations") {
		t.incarnation = s.node
	}
	d.exists, d.entries = true, d.entries|pod(p)
	t.docs[s.node] = d
	t.wrote(i, keys)
	step(does("shard %d places p%d in the document of node %d", uint8(i), uint8(p), s.node), t)
}

// reserved reports whether the ledger has an entry of a pod. Its shard knows: it has made it.
func (w *world) reserved(p int) bool {
	for uid := 1; uid < maxUIDs; uid++ {
		if w.docs[uid].entries&pod(p) != 0 {
			return true
		}
	}
	return false
}

// holds carries the compares of a transaction out.
func (m *model) holds(w *world, s *shard, keys uint8) bool {
	for key := range maxUIDs + 1 {
		if keys>>key&1 == 1 && !w.same(s, key) {
			return false
		}
	}
	return true
}

// admit is T15.
func (m *model) admit(w *world, i int, step stepFunc) {
	s := &w.shards[i]
	if m.admission(s) != unadmitted {
		return
	}
	t := *w
	keys, now := uint8(1)<<incarnationKey|1<<s.node, doc{exists: true, node: s.node}
	if own := s.read.docs[s.node]; own.exists {
		now = own
	}
	if !m.without("the floor that T15 starts from") {
		keys |= 1 << floorKey
		now.pods = max(now.pods, s.read.floorPods)
	}
	written := keys &^ (1 << floorKey)
	for uid := 1; uid < maxUIDs; uid++ {
		d := s.read.docs[uid]
		if !d.exists {
			continue
		}
		if !m.without("high-waters handed on") && !m.without("high-waters that T15 hands on") {
			now.pods, now.node = max(now.pods, d.pods), max(now.node, d.node)
		}
		if uid == int(s.node) || m.without("documents that T15 supersedes") {
			continue
		}
		keys, written = keys|1<<uid, written|1<<uid
		d.node, d.superseded = max(d.node, s.node), true
		t.docs[uid] = d
	}
	if !m.holds(w, s, keys) {
		t = *w
		if m.lost(&t, i, keys); t.shards[i] != *s {
			step(does("shard %d tries to admit node %d, and loses", uint8(i), s.node), t)
		}
		return
	}
	now.superseded = false
	t.docs[s.node], t.incarnation = now, s.node
	t.wrote(i, written)
	step(does("shard %d admits node %d", uint8(i), s.node), t)
}

// collect is T16 of one document, by any process that has read the ledger to its end.
func (m *model) collect(w *world, uid int, step stepFunc) {
	d := w.docs[uid]
	if !d.exists || d.entries != 0 || w.left.collections == 0 {
		return
	}
	t := *w
	t.left.collections--
	keys := uint8(1)<<uid | 1<<floorKey
	for i := range t.shards {
		t.shards[i].gone |= t.shards[i].read.stored() & (1 << uid)
	}
	t.docs[uid] = doc{}
	t.collected = true
	t.floorPods = max(w.floorPods, d.pods)
	if m.without("the floor that T16 raises") {
		t.floorPods = 0
	}
	successor := int(w.incarnation)
	switch {
	case successor == uid:
		t.incarnation = 0
		keys |= 1 << incarnationKey
	case successor != 0 && w.docs[successor].exists && !m.without("high-waters that T16 hands on") &&
		!m.without("high-waters handed on"):
		t.docs[successor].pods = max(w.docs[successor].pods, d.pods)
		t.docs[successor].node = max(w.docs[successor].node, d.node)
		keys |= 1 << successor
	}
	t.wrote(-1, keys)
	step(does("the document of node %d is collected", uint8(uid)), t)
}
