package guards

import "fmt"

// model is a scenario, with at most one part of the protocol taken away.
type model struct {
	scenario
	ablated string
}

func (m *model) without(what string) bool { return m.ablated == what }

func (m *model) start() world {
	var w world
	if !m.late {
		for p := range m.pods {
			w.facts = w.facts.and(record{what: created, subject: uint8(p)})
		}
		for i := range w.shards {
			w.shards[i].facts = uint8(w.facts.len())
		}
	}
	return w
}

// next is everything that can happen.
func (m *model) next(w world, step func(string, world)) {
	for i := range w.shards {
		if m.idle(i) {
			continue
		}
		m.read(&w, i, step)
		m.register(&w, i, step)
		m.decideNext(&w, i, step)
		m.land(&w, i, step)
		m.retireTerms(&w, i, step)
	}
	for p := range m.pods {
		m.serve(&w, p, step)
	}
}

// idle reports whether a shard has no pod to place.
func (m *model) idle(i int) bool {
	for _, p := range m.pods {
		if p.shard == i {
			return false
		}
	}
	return true
}

// read moves a shard's watches on.
func (m *model) read(w *world, i int, step func(string, world)) {
	if int(w.shards[i].ledger) < w.ledger.len() {
		t := *w
		t.shards[i].ledger++
		t.shards[i].settle()
		step(fmt.Sprintf("shard %d reads the ledger up to %d", i, t.shards[i].ledger), t)
	}
	if int(w.shards[i].facts) < w.facts.len() {
		t := *w
		t.shards[i].facts++
		step(fmt.Sprintf("shard %d reads a fact", i), t)
	}
}

// settle forgets what the watch has covered.
func (s *shard) settle() {
	if s.own <= s.ledger {
		s.own = 0
	}
	if s.ahead <= s.ledger {
		s.ahead = 0
	}
}

// register puts the terms that a shard's pods carry into the registry, each in a
// transaction of its own that compares the registry.
func (m *model) register(w *world, i int, step func(string, world)) {
	s := &w.shards[i]
	if w.ledger.registry(int(s.ledger)) != w.ledger.registry(w.ledger.len()) || m.without("registration of its own") {
		return
	}
	for t := range m.terms {
		_, usable := w.ledger.known(int(s.ledger), t)
		for p, spec := range m.pods {
			if spec.shard == i && spec.carriesTerm(t) && !usable && w.ledger.last(w.ledger.len(), p, placed) == 0 {
				n := *w
				n.ledger = w.ledger.and(record{what: registered, subject: uint8(t)})
				step(fmt.Sprintf("shard %d registers term %d", i, t), n)
				break
			}
		}
	}
}

// decideNext picks a zone for one more pod.
func (m *model) decideNext(w *world, i int, step func(string, world)) {
	s := &w.shards[i]
	if !s.next.none() {
		return
	}
	for p, spec := range m.pods {
		if spec.shard != i || int(s.flight.pod) == p+1 || m.entry(w, i, p) > 0 ||
			w.facts.lastOf(int(s.facts), p) != created || w.ledger.last(int(s.ledger), p, placed) > 0 {
			continue
		}
		m.decide(w, i, p, func(c pick) {
			n := *w
			if s.flight.none() {
				n.shards[i].flight = c
			} else {
				n.shards[i].next = c
			}
			step(fmt.Sprintf("shard %d decides pod %d for zone %d", i, p, c.zone), n)
		})
	}
}

// land is the moment at which a shard's transaction reaches the ledger.
func (m *model) land(w *world, i int, step func(string, world)) {
	c := w.shards[i].flight
	if c.none() {
		return
	}
	// The node's document may have moved, or the partition gone: that is not modelled, but
	// that it may happen is.
	m.refuse(*w, i, step)
	if !m.holds(w, c) {
		return
	}
	n := *w
	s := &n.shards[i]
	s.flight, s.next = s.next, pick{}
	if m.without("registration of its own") {
		n.ledger = m.inline(n.ledger, c)
	}
	n.broken = m.breaks(&n, c)
	n.ledger = n.ledger.and(record{what: placed, subject: c.pod - 1, zone: c.zone, more: c.use})
	s.own = uint8(n.ledger.len())
	s.follow(&m.scenario, c, m.without("waiting for an own put that compared nothing"))
	s.settle()
	step(fmt.Sprintf("shard %d: pod %d is placed in zone %d", i, c.pod-1, c.zone), n)
}

// refuse refuses the placement in flight.
func (m *model) refuse(w world, i int, step func(string, world)) {
	s := &w.shards[i]
	done := s.flight.pod
	s.flight, s.next = s.next, pick{}
	if s.flight.counted == done && m.relies(s.flight) {
		s.flight = pick{}
	}
	s.flight.counted = 0
	if m.without("guards from the watch alone") {
		s.ahead = uint8(w.ledger.len())
	}
	step(fmt.Sprintf("shard %d: pod %d is refused", i, done-1), w)
}

// holds reports whether everything a placement compares is unchanged.
func (m *model) holds(w *world, c pick) bool {
	end := w.ledger.len()
	if w.ledger.registry(end) != int(c.registry) && !m.without("compare of the registry") {
		return false
	}
	for t := range m.terms {
		u := c.useOf(t)
		if u&compareC != 0 && w.ledger.guard(&m.scenario, end, t, c.zone, putC) != int(c.guardC[t]) ||
			u&compareM != 0 && w.ledger.guard(&m.scenario, end, t, c.zone, putM) != int(c.guardM[t]) {
			return false
		}
	}
	return true
}

// relies reports whether a placement may be wrong without the pod in flight that it counted. Only spread is: a pod in
// another zone raises the limit for this one.
func (m *model) relies(c pick) bool {
	for t, k := range m.terms {
		if k == even && m.pods[c.pod-1].carriesTerm(t) && !m.without("retry of what counted a loser") {
			return true
		}
	}
	return false
}

// follow lets the waiting placement follow on the one that has just been made: it counted that placement, so it may
// compare the guards that it has put. If one of these was put without a compare, puts of other shards in between are
// not counted.
func (s *shard) follow(sc *scenario, done pick, careless bool) {
	after := &s.flight
	if after.none() {
		return
	}
	for t, k := range sc.terms {
		if after.zone != done.zone && k != together {
			continue
		}
		d, a := done.useOf(t), after.useOf(t)
		blind := d&putC != 0 && d&compareC == 0 && a&compareC != 0 ||
			d&putM != 0 && d&compareM == 0 && a&compareM != 0
		if blind && !careless {
			*after = pick{}
			return
		}
		if d&putC != 0 && (after.guardC[t] == done.guardC[t] || careless) {
			after.guardC[t] = s.own
		}
		if d&putM != 0 && (after.guardM[t] == done.guardM[t] || careless) {
			after.guardM[t] = s.own
		}
	}
	after.counted = 0
}

// inline registers terms in the very transaction that places their carrier.
func (m *model) inline(ledger history, c pick) history {
	for t := range m.terms {
		if in, _ := ledger.known(ledger.len(), t); !in && m.needsTerm(int(c.pod-1), t, &c) {
			ledger = ledger.and(record{what: registered, subject: uint8(t)})
		}
	}
	return ledger
}

// serve is a step of the API server or a binder on one pod.
func (m *model) serve(w *world, p int, step func(string, world)) {
	name := func(did string) string { return fmt.Sprintf("pod %d is %s", p, did) }
	fact := func(did what, form string) {
		n := *w
		n.facts = w.facts.and(record{what: did, subject: uint8(p)})
		step(name(form), n)
	}
	entry := w.ledger.last(w.ledger.len(), p, placed, handedOver)
	now := w.facts.lastOf(w.facts.len(), p)
	if now == 0 && m.late {
		fact(created, "created")
	}
	if entry == 0 {
		return
	}
	if now == created {
		fact(bound, "bound")
	}
	if w.facts.count(deleted) < m.deletes && (now == created || now == bound) {
		fact(deleted, "deleted")
	}
	if m.handOver && w.ledger.at(entry-1).what == placed && (now == bound || now == deleted) {
		n := *w
		n.ledger = w.ledger.and(record{what: handedOver, subject: uint8(p), more: uint8(w.facts.last(w.facts.len(), p, now))})
		step(name("handed over"), n)
	}
}

// count is how often something has happened.
func (h history) count(did what) int {
	n := 0
	for i := range h.len() {
		n += one(h.at(i).what == did)
	}
	return n
}

// breaks returns the rule that a placement breaks as it commits, among all pods placed before it. Pods whose deletion
// the shard had not read may still be counted where that helps.
func (m *model) breaks(w *world, c pick) string {
	p := int(c.pod - 1)
	for t, k := range m.terms {
		var here, elsewhere, counted, helped int
		for q := range m.pods {
			at := w.ledger.last(w.ledger.len(), q, placed)
			if q == p || at == 0 || !m.pods[q].matchesTerm(t) && (k != apart || !m.repel(t, p, q)) {
				continue
			}
			gone := w.facts.last(w.facts.len(), q, deleted)
			unread := gone == 0 || gone > int(c.facts)
			if w.ledger.at(at-1).zone == c.zone {
				here += one(gone == 0)
				helped += one(unread)
			} else {
				elsewhere += one(gone == 0)
				counted += one(unread)
			}
			if k == apart && gone == 0 && w.ledger.at(at-1).zone == c.zone && m.repel(t, p, q) {
				return fmt.Sprintf("pods %d and %d share zone %d", p, q, c.zone)
			}
		}
		switch carries := m.pods[p].carriesTerm(t); {
		case k == even && carries && here+1-min(helped, counted) > 1:
			return fmt.Sprintf("pod %d is one of %d in zone %d, the other has %d", p, here+1, c.zone, counted)
		case k == together && carries && c.first && here+elsewhere > 0:
			return fmt.Sprintf("pod %d is not the first of its kind", p)
		case k == together && carries && !c.first && helped == 0:
			return fmt.Sprintf("pod %d is alone in zone %d", p, c.zone)
		}
	}
	return ""
}

func one(is bool) int {
	if is {
		return 1
	}
	return 0
}
