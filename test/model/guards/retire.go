package guards

import "fmt"

// retireTerms removes terms from the registry, in two transactions, each by any shard that has read far enough. After
// the first no carrier is placed by the term; pods that match it still guard themselves. The second comes when every
// carrier is bound or deleted, and records how far the facts must have been read to include them: from then on no
// shard guards the term, and no shard decides before it has read that far.
func (m *model) retireTerms(w *world, i int, step func(string, world)) {
	s := &w.shards[i]
	if w.ledger.registry(int(s.ledger)) != w.ledger.registry(w.ledger.len()) {
		return // the compare of the registry
	}
	for t := range m.terms {
		in, usable := w.ledger.known(int(s.ledger), t)
		did := record{subject: uint8(t)}
		switch {
		case m.times(w, t, retiring)+m.times(w, t, retired) >= 2*m.retire:
			continue
		case usable && !m.without("retiring in two steps"):
			did.what = retiring
		case in && (m.settled(w, i, t) || m.without("waiting for carriers")):
			did.what, did.more = retired, s.facts
		default:
			continue
		}
		n := *w
		n.ledger = w.ledger.and(did)
		step(fmt.Sprintf("shard %d: term %d %s", i, t, map[what]string{retiring: "retires", retired: "is gone"}[did.what]), n)
	}
}

// times is how often a thing has happened to a term.
func (m *model) times(w *world, t int, did what) int {
	n := 0
	for i := range w.ledger.len() {
		if r := w.ledger.at(i); r.what == did && int(r.subject) == t {
			n++
		}
	}
	return n
}

// settled reports whether shard i can be sure that no reservation of a carrier exists.
func (m *model) settled(w *world, i, t int) bool {
	s := &w.shards[i]
	for p, spec := range m.pods {
		at := w.ledger.last(int(s.ledger), p, placed, handedOver)
		if at == 0 {
			continue
		}
		if r := w.ledger.at(at - 1); r.what == handedOver {
			if r.more > s.facts {
				return false
			}
			continue
		}
		if seen := m.see(w, i, p); seen.there && (!seen.described || spec.carriesTerm(t) && !seen.bound) {
			return false
		}
	}
	return true
}

// retiredFacts is how far the facts must be read before a shard may decide at all.
func (h history) retiredFacts(upTo int) uint8 {
	need := uint8(0)
	for i := range upTo {
		if r := h.at(i); r.what == retired {
			need = max(need, r.more)
		}
	}
	return need
}
