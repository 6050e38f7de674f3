package gang

import "github.com/berth-scheduler/berth/test/model/explore"

// read lets a shard read the ledger, or learn of one document from the answer to a transaction. Records it reads from
// the watch alone, but for those that it has written itself: a record stands for everything before it, such as the
// displacement of a pledge.
func (m *model) read(w *world, i int, step stepFunc) {
	if m.current(w, i) {
		return
	}
	m.watch(w, i, step)
	if w.left.answers == 0 {
		return
	}
	for n := range m.capacity {
		if !w.sameDoc(i, n) {
			t := *w
			t.left.answers--
			t.learnDoc(i, n)
			m.emit(t, does("shard %d learns the document of node %c from an answer", uint8(i), node(n)), step)
		}
	}
	for g := range m.gangs {
		if !w.sameRecord(i, g) && m.without("reading records from the watch alone") {
			t := *w
			t.left.answers--
			t.shards[i].records[g] = w.now.records[g]
			m.emit(t, does("shard %d learns the record of %c from an answer", uint8(i), m.gangs[g].name), step)
		}
	}
}

// watch brings a shard the next picture.
func (m *model) watch(w *world, i int, step stepFunc) {
	t := *w
	switch {
	case !m.late:
		t.shards[i] = w.now
		m.emit(t, does("shard %d reads the ledger", uint8(i)), step)
	case !w.sent[i]:
		t.coming[i], t.sent[i] = w.now, true
		m.emit(t, does("the ledger as it is now is sent to shard %d", uint8(i)), step)
	default:
		t.shards[i], t.coming[i], t.sent[i] = w.coming[i].over(&w.shards[i]), picture{}, false
		m.emit(t, does("shard %d reads the ledger as it was sent", uint8(i)), step)
	}
}

// over returns a picture with those keys of the one before that are newer: what a shard has written itself, or learned
// of from an answer.
func (pic picture) over(before *picture) picture {
	for n := range pic.docs {
		if pic.docs[n].revision < before.docs[n].revision {
			pic.docs[n] = before.docs[n]
			pic.ahead |= 1 << n
		}
	}
	for g := range pic.records {
		if pic.records[g].revision < before.records[g].revision {
			pic.records[g] = before.records[g]
		}
	}
	return pic
}

// current reports whether a shard knows everything. A document that it has written is ahead of its watch until then.
func (m *model) current(w *world, i int) bool { return w.shards[i] == w.now }

// emit finishes a step. A shard all of whose keys are as they are now has read the ledger: that allows no less than
// not having read it. So has one that has nothing to decide about.
func (m *model) emit(t world, by explore.Step, step stepFunc) {
	m.bindable(&t)
	for i := range t.shards {
		pic := t.shards[i]
		pic.ahead = 0
		if pic == t.now || m.idle(&t, i) {
			t.shards[i], t.coming[i], t.sent[i] = t.now, picture{}, false
		}
	}
	step(by, t)
}

// idle reports whether a shard has nothing to decide about: no gang of its own, or only such as are bound, and no pod
// without a gang.
func (m *model) idle(w *world, i int) bool {
	if m.without("the compare of the epoch") {
		return false
	}
	for p, s := range m.pods {
		if s.gang == 0 && s.shard == i && !s.foreign && w.pods[p].pending() && m.placed(&w.now, p) != firm {
			return false
		}
	}
	for g := range m.gangs {
		if m.owner(&w.now, g) != i {
			continue
		}
		if w.left.drops > 0 {
			return false
		}
		bound := true
		m.members(g, func(p int) { bound = bound && !w.pods[p].pending() })
		if !bound {
			return false
		}
	}
	return true
}
