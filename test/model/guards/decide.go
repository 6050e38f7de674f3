package guards

// podView is a shard's view of one pod.
type podView struct {
	// there: it counts somewhere; zone is where.
	there bool
	zone  uint8
	// bound: the facts show it on that node. described: the facts have described the pod.
	bound, described bool
}

// see is how shard i counts pod p: by the facts, else by its entry.
func (m *model) see(w *world, i, p int) podView {
	s := &w.shards[i]
	entryAt := m.entry(w, i, p)
	zone := uint8(0)
	if at := w.ledger.last(w.ledger.len(), p, placed); at > 0 {
		zone = w.ledger.at(at - 1).zone
	}
	switch w.facts.lastOf(int(s.facts), p) {
	case deleted:
		return podView{}
	case bound:
		return podView{there: true, zone: zone, bound: true, described: true}
	case created:
		return podView{there: entryAt > 0, zone: zone, described: true}
	}
	return podView{there: entryAt > 0, zone: zone, described: !m.late}
}

// entry is the revision of the entry that shard i sees of pod p, 0 for none.
func (m *model) entry(w *world, i, p int) int {
	s := &w.shards[i]
	at := w.ledger.last(int(s.ledger), p, placed, handedOver)
	if at > 0 && w.ledger.at(at-1).what == placed {
		return at
	}
	if at == 0 && m.pods[p].shard == i {
		return w.ledger.last(int(s.own), p, placed) // by the answer, ahead of the watch
	}
	return 0
}

// lastOf is the last thing that happened to a pod.
func (h history) lastOf(upTo, p int) what {
	at := h.last(upTo, p, created, bound, deleted)
	if at == 0 {
		return 0
	}
	return h.at(at - 1).what
}

// complete reports whether shard i can have counted every pod in a zone that its view of the ledger covers: pods that
// were handed over must show in its facts, and reserved pods must have been described.
func (m *model) complete(w *world, i int, zone uint8) bool {
	s := &w.shards[i]
	for p := range m.pods {
		at := w.ledger.last(w.ledger.len(), p, placed)
		if at == 0 || w.ledger.at(at-1).zone != zone {
			continue
		}
		over := w.ledger.last(int(s.ledger), p, handedOver)
		if over > 0 && w.ledger.at(over-1).more > s.facts && !m.without("high-water of the domain") {
			return false
		}
		if seen := m.see(w, i, p); seen.there && !seen.described && !m.without("undescribed pods") {
			return false
		}
	}
	return true
}

// decide calls found for every zone where shard i may place pod p now.
func (m *model) decide(w *world, i, p int, found func(pick)) {
	s := &w.shards[i]
	if s.facts < w.ledger.retiredFacts(int(s.ledger)) && !m.without("facts of a retired term") {
		return
	}
	read := int(s.ledger)
	if m.without("waiting for the registration") && m.pods[p].carries != 0 {
		read = w.ledger.len()
	}
	for zone := uint8(0); zone < zones; zone++ {
		c := pick{pod: uint8(p + 1), zone: zone, facts: s.facts, registry: uint8(w.ledger.registry(read))}
		if !s.flight.none() {
			c.counted = s.flight.pod
		}
		if m.allowed(w, i, p, &c) && m.guard(w, i, p, &c) {
			found(c)
		}
	}
}

// allowed is the placement engine: the rules, by what shard i sees.
func (m *model) allowed(w *world, i, p int, c *pick) bool {
	for t, k := range m.terms {
		n := m.count(w, i, p, t, c.zone)
		carries := m.pods[p].carriesTerm(t)
		switch {
		case k == apart && n.here > 0:
			return false
		case k == even && carries && n.here+1-min(n.here, n.elsewhere) > 1: // carriers match themselves
			return false
		case k == together && carries && n.here+n.elsewhere > 0:
			if n.boundHere == 0 {
				return false
			}
		case k == together && carries:
			if !m.pods[p].matchesTerm(t) {
				return false
			}
			c.first = true
		}
	}
	return true
}

// counts are the pods that a term is about, by zone.
type counts struct{ here, boundHere, elsewhere int }

// count is shard i's count of the pods that term t selects, for a placement of pod p in a zone.
func (m *model) count(w *world, i, p, t int, zone uint8) counts {
	var n counts
	for q := range m.pods {
		concerns := m.pods[q].matchesTerm(t)
		if m.terms[t] == apart {
			concerns = m.repel(t, p, q)
		}
		seen := m.see(w, i, q)
		if flight := w.shards[i].flight; int(flight.pod) == q+1 && !seen.there {
			seen = podView{there: true, zone: flight.zone, described: true}
		}
		switch {
		case q == p || !concerns || !seen.there || !seen.described:
		case seen.zone != zone:
			n.elsewhere++
		default:
			n.here++
			n.boundHere += one(seen.bound)
		}
	}
	return n
}

// repel reports whether two pods may not share a zone by term t.
func (m *model) repel(t, p, q int) bool {
	a, b := m.pods[p], m.pods[q]
	return a.carriesTerm(t) && b.matchesTerm(t) || b.carriesTerm(t) && a.matchesTerm(t)
}

// guard fills in what the placement compares and puts; false when it must wait.
func (m *model) guard(w *world, i, p int, c *pick) bool {
	for t := range m.terms {
		in, usable := w.ledger.known(int(w.shards[i].ledger), t)
		if m.needsTerm(p, t, c) && !usable && !m.placesAnyway(w, t, in) {
			return false
		}
		u := m.useOf(p, t, in, c)
		if !m.countedFor(w, i, t, u, c.zone) || !m.base(w, i, t, m.ablate(t, u), c) {
			return false
		}
	}
	return true
}

// needsTerm reports whether the placement may happen only once a term is registered.
func (m *model) needsTerm(p, t int, c *pick) bool {
	return m.pods[p].carriesTerm(t) && (m.terms[t] != together || c.first)
}

// placesAnyway reports whether an ablation lets this shard use a term that it may not use yet.
func (m *model) placesAnyway(w *world, t int, in bool) bool {
	now, _ := w.ledger.known(w.ledger.len(), t)
	return m.without("registration of its own") && !now ||
		m.without("waiting for the registration") && now ||
		m.without("carriers wait while a term retires") && in
}

// useOf is the protocol: who compares and puts which guard of a term.
func (m *model) useOf(p, t int, in bool, c *pick) use {
	carries, matches := m.pods[p].carriesTerm(t), m.pods[p].matchesTerm(t)
	switch k := m.terms[t]; {
	case k == together && carries && c.first:
		return compareM | putM
	case k != together && carries:
		return compareC | compareM | putC
	case !matches || !in:
		return 0
	case k == apart:
		return compareC | putM
	default:
		return putM
	}
}

// ablate takes away what an ablation takes away from one use.
func (m *model) ablate(t int, u use) use {
	k, carrier := m.terms[t], u&putC != 0
	for _, cut := range []struct {
		what string
		bits use
		when bool
	}{
		{"compare of the matchers' guard", compareM, k != together},
		{"compare of the carriers' guard by matchers", compareC, !carrier},
		{"compare of the carriers' guard by carriers", compareC, carrier},
		{"put of the matchers' guard", putM, k == apart},
		{"put of the carriers' guard", putC, true},
		{"compare by the first of its kind", compareM, k == together},
		{"put by those that affinity selects", putM, k == together},
		{"put by those that spread selects", putM, k == even},
	} {
		if m.without(cut.what) && cut.when {
			u &^= cut.bits
		}
	}
	return u
}

// countedFor reports whether shard i has counted everything that a compare will vouch for.
func (m *model) countedFor(w *world, i, t int, u use, zone uint8) bool {
	if u&(compareC|compareM) == 0 {
		return true
	}
	for z := uint8(0); z < zones; z++ {
		if (z == zone || m.terms[t] == together) && !m.complete(w, i, z) {
			return false
		}
	}
	return true
}

// base takes the guards' revisions as read; false when they are not known.
func (m *model) base(w *world, i, t int, u use, c *pick) bool {
	c.use |= uint8(u) << (useBits * t)
	ok := true
	if u&compareC != 0 {
		c.guardC[t], ok = m.guardAsRead(w, i, t, c.zone, putC)
	}
	if ok && u&compareM != 0 {
		c.guardM[t], ok = m.guardAsRead(w, i, t, c.zone, putM)
	}
	return ok
}

// guardAsRead is the guard revision up to which shard i has counted: that of its watch or, if its own last placement
// followed on that one, the placement's. If its own placement put the guard without comparing it, the revision is
// unknown until the watch has reached it.
func (m *model) guardAsRead(w *world, i, t int, zone uint8, put use) (uint8, bool) {
	s := &w.shards[i]
	read := w.ledger.guard(&m.scenario, int(max(s.ledger, m.guardsRead(s))), t, zone, put)
	if s.own <= s.ledger || int(s.own) <= read {
		return uint8(read), true
	}
	r := w.ledger.at(int(s.own) - 1)
	if (r.zone != zone && m.terms[t] != together) || r.use(t)&put == 0 {
		return uint8(read), true
	}
	compared := r.use(t)&compareOf(put) != 0
	if !compared && m.without("waiting for an own put that compared nothing") {
		return s.own, true
	}
	if !compared || w.ledger.guard(&m.scenario, int(s.own)-1, t, zone, put) != read {
		return 0, false
	}
	return s.own, true
}

func (m *model) guardsRead(s *shard) uint8 {
	if m.without("guards from the watch alone") {
		return s.ahead
	}
	return 0
}

func compareOf(put use) use {
	if put == putC {
		return compareC
	}
	return compareM
}
