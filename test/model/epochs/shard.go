package epochs

// holds reports whether a shard takes the partition for its own, and in which epoch. Its watch must have
// reached the epoch: every reservation of the owners before was committed earlier.
func (m *model) holds(s *shard, i int) (epoch uint8, ok bool) {
	behind := s.epoch > s.at && !m.without("the watch at the epoch")
	return s.epoch, int(s.owner) == i+1 && !behind && s.over != s.epoch
}

// decide picks a node for a pod by what the shard knows: a pod without a reservation, a node without one.
func (m *model) decide(w *world, i, p int, step stepFunc) {
	s := &w.shards[i]
	epoch, held := m.holds(s, i)
	if !held || w.left.placements == 0 || s.picks[p].node != 0 || int(s.flight.pod) == p+1 {
		return
	}
	if s.reserved(p) && !m.without("a look for a reservation at the decision") {
		return
	}
	for n := range nodes {
		if s.docs[n].entries != 0 || s.picked(n) {
			continue
		}
		t := *w
		t.left.placements--
		t.shards[i].picks[p] = pick{node: uint8(n + 1), basis: s.docs[n].revision, epoch: epoch}
		step(does("shard %d decides on node %c for p%d", uint8(i), name(n), uint8(p)), t)
	}
}

// picked reports whether a shard has given a node's room away already.
func (s *shard) picked(n int) bool {
	for _, p := range s.picks {
		if int(p.node) == n+1 {
			return true
		}
	}
	return s.flight.pod != 0 && int(s.flight.node) == n+1
}

// submit makes the transaction of a decision, whenever it is that the decision's turn comes; or drops it.
func (m *model) submit(w *world, i, p int, step stepFunc) {
	s := &w.shards[i]
	chosen := s.picks[p]
	if chosen.node == 0 || s.flight.pod != 0 {
		return
	}
	t := *w
	t.shards[i].picks[p] = pick{}
	epoch, held := m.holds(s, i)
	switch {
	case !held,
		epoch != chosen.epoch && !m.without("the epoch of the decision"),
		s.reserved(p) && !m.without("a look for a reservation before the commit"),
		s.docs[chosen.node-1].revision != chosen.basis:
		step(does("shard %d drops its decision about p%d", uint8(i), uint8(p)), t)
		return
	}
	t.shards[i].flight = flight{pod: uint8(p + 1), pick: chosen, sent: epoch}
	step(does("shard %d sends its decision about p%d", uint8(i), uint8(p)), t)
}

// answer is a transaction that reaches the ledger, and an answer that reaches the shard or does not: then
// the identical transaction is sent again.
func (m *model) answer(w *world, i int, step stepFunc) {
	f := w.shards[i].flight
	if f.pod == 0 {
		return
	}
	p, n := f.pod-1, f.node-1
	current := w.now.owner == uint8(i+1) && w.now.epoch == f.sent || m.without("the epoch's compare")
	t := *w
	s := &t.shards[i]
	if current && w.now.docs[n].revision == f.basis {
		if !m.counting && (w.now.owner == 0 || w.now.epoch != f.epoch) {
			t.violation = overEpoch
		}
		t.write(event{node: n, entries: w.now.docs[n].entries | 1<<p})
		step(does("shard %d reserves node %c for p%d, and its answer is lost", uint8(i), name(int(n)), p), t)
		s.flight = flight{}
		s.docs[n] = t.now.docs[n]
		step(does("shard %d reserves node %c for p%d", uint8(i), name(int(n)), p), t)
		return
	}
	s.flight = flight{}
	if s.docs[n].revision < w.now.docs[n].revision {
		s.docs[n] = w.now.docs[n]
	}
	if !current {
		s.over = f.sent
	}
	if m.without("owners read from the watch alone") && w.now.owner != 0 && s.changed < w.now.changed {
		s.own(w.now.owner, w.now.changed)
	}
	step(does("shard %d's transaction about p%d is refused", uint8(i), p), t)
}
