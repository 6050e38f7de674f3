package reserve

// kind of a record of the log.
type kind uint8

const (
	fact kind = iota
	// opens and closes bracket what a new leader writes after its list of all pods.
	opens
	closes
)

// record is one message of the log.
type record struct {
	kind kind
	pod  uint8
	podView
	// progress is the resourceVersion such that all facts up to it are at or before this record; 0 for no progress.
	progress uint8
}

// factLog is the log: the queue writes it, the shards read it, and what its server had
// acknowledged may be gone after a failure.
type factLog struct {
	// before is each pod's state according to the records that all shards have read.
	before  [maxPods]podView
	records [maxLog]record
	len     uint8
	// down: no queue writes it.
	down bool
}

// statesAt is each pod's state according to the first n records.
func (l *factLog) statesAt(n uint8) [maxPods]podView {
	states := l.before
	for _, r := range l.records[:n] {
		if r.kind == fact {
			states[r.pod] = r.podView
		}
	}
	return states
}

// write appends a record.
func (m *model) write(w *world, r record) {
	if w.log.len == maxLog {
		w.violation = logFull
		return
	}
	if r.kind == fact && m.without("progress beside the facts") {
		r.progress = r.rv
	}
	w.log.records[w.log.len] = r
	w.log.len++
}

// newVersion is a new version of a pod: the API server has it, and the queue writes it down if
// there is one. (That the queue is behind is no different from its readers being behind.)
func (m *model) newVersion(w *world, p int) {
	w.rev++
	w.pods[p].rv = w.rev
	w.pods[p].asked = 0
	if !w.log.down {
		m.write(w, record{kind: fact, pod: uint8(p), podView: w.pods[p].podView, progress: w.rev})
	}
}

// fail stops the log's leader, with any number of records lost.
func (m *model) fail(w *world, step stepFunc) {
	if w.left.outages == 0 || w.log.down {
		return
	}
	for keep := range w.log.len + 1 {
		t := *w
		t.left.outages--
		t.log.down = !m.without("the writer's notice of a lost tail")
		clear(t.log.records[keep:])
		t.log.len = keep
		for i := range m.shards() {
			t.shards[i].beyond = t.shards[i].beyond || t.shards[i].at > keep
		}
		step(does("the log's leader stops, and of the log's %d records %d are kept", w.log.len, keep), t)
	}
}

// lead lets a new leader list the pods and append, in any order, their differences from the log; and then a record
// that this is complete.
func (m *model) lead(w *world, step stepFunc) {
	if !w.log.down {
		return
	}
	states := w.log.statesAt(w.log.len)
	var differ []uint8
	for p := range m.owner {
		if states[p] != w.pods[p].podView {
			differ = append(differ, uint8(p))
		}
	}
	for _, order := range orders(differ) {
		t := *w
		t.log.down = false
		m.write(&t, record{kind: opens})
		for _, p := range order {
			m.write(&t, record{kind: fact, pod: p, podView: w.pods[p].podView})
		}
		m.write(&t, record{kind: closes, progress: w.rev})
		switch len(order) {
		case 0:
			step(does("a new leader lists the pods and writes nothing"), t)
		case 1:
			step(does("a new leader lists the pods and writes p%d", order[0]), t)
		case 2:
			step(does("a new leader lists the pods and writes p%d, p%d", order...), t)
		default:
			step(does("a new leader lists the pods and writes p%d, p%d, p%d", order...), t)
		}
	}
}

// orders are all orders of a few things.
func orders(of []uint8) [][]uint8 {
	if len(of) == 0 {
		return [][]uint8{nil}
	}
	var out [][]uint8
	for i, first := range of {
		rest := append(append([]uint8(nil), of[:i]...), of[i+1:]...)
		for _, o := range orders(rest) {
			out = append(out, append([]uint8{first}, o...))
		}
	}
	return out
}

// read lets a shard read one record.
func (m *model) read(w *world, i int, step stepFunc) {
	t := *w
	s := &t.shards[i]
	if s.beyond && !m.without("the reader's notice of a lost tail") && !m.without("the writer's notice of a lost tail") {
		if !w.log.down {
			s.restart(&w.log)
			s.blind = !m.without("no progress while a leader writes")
			step(does("shard %d notices that records it has read are lost, and reads the log anew", uint8(i)), t)
		}
		return
	}
	for s.at < w.log.len && m.without("facts kept one by one") && w.log.superseded(s.at) {
		s.at++
	}
	if s.at >= w.log.len {
		return
	}
	r := w.log.records[s.at]
	s.at++
	m.apply(s, r)
	m.forget(&t)
	switch r.kind {
	case opens:
		step(does("shard %d reads that a new leader begins", uint8(i)), t)
	case closes:
		step(does("shard %d reads that the leader has written all", uint8(i)), t)
	default:
		step(does("shard %d reads p%d", uint8(i), r.pod), t)
	}
}

// restart takes a shard back to where the last leader began, without the records it has read since.
func (s *shard) restart(l *factLog) {
	at := l.len - 1
	for l.records[at].kind != opens {
		at--
	}
	s.cache, s.at, s.beyond = l.statesAt(at), at, false
}

// superseded reports whether a later record is about the same pod.
func (l *factLog) superseded(at uint8) bool {
	r := l.records[at]
	for _, later := range l.records[at+1 : l.len] {
		if r.kind == fact && later.kind == fact && later.pod == r.pod {
			return true
		}
	}
	return false
}

// apply is a record in a shard's state.
func (m *model) apply(s *shard, r record) {
	brackets := !m.without("progress beside the facts") && !m.without("no progress while a leader writes")
	switch {
	case r.kind == fact:
		s.cache[r.pod] = r.podView
	case r.kind == opens && brackets:
		s.blind = true
	case r.kind == closes && brackets:
		s.blind = false
	}
	s.progress = max(s.progress, r.progress)
}

// forget drops the records that no shard can read any more.
func (m *model) forget(w *world) {
	if w.left.outages > 0 || w.log.down {
		return
	}
	read := w.log.len
	for i := range m.shards() {
		if w.shards[i].beyond {
			return
		}
		read = min(read, w.shards[i].at)
	}
	if read == 0 {
		return
	}
	w.log.before = w.log.statesAt(read)
	n := copy(w.log.records[:], w.log.records[read:w.log.len])
	clear(w.log.records[n:])
	w.log.len -= read
	for i := range m.shards() {
		w.shards[i].at -= read
	}
}
