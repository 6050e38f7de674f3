package audit

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/pkg/audit/recording"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/identity"
	"github.com/berth-scheduler/berth/pkg/ledger/roster"
)

// generations is the generation of the ledger at the current revision of the replay. A ledger that was lost or
// restored is closed, cleared, and opened again under the next number. Its promises end when it is cleared, whatever
// the facts show; binds that were sent for them may arrive until it is opened, and what they use counts like any other
// bind.
type generations struct {
	// number is that of the newest generation, 0 before the first. closed reports that it has not been opened yet.
	number uint64
	closed bool
	// cleared holds the placements that were cleared since the generation was closed.
	cleared []*placement
	// opened is the high-water mark of pods at which the last generation of this history was opened; 0 if none was.
	opened uint64

	evidence *evidence
	state    *ledgerState
	placed   *placements
	found    *findings
}

// decode returns the generation that a revision begins, closes or opens; false if the revision does not change it.
func (gs *generations) decode(events []recording.LedgerEvent) (g identity.Generation, ok bool) {
	i := slices.IndexFunc(events, func(ev recording.LedgerEvent) bool {
		return ev.Key == identity.KeyGeneration && !ev.Deleted
	})
	if i < 0 {
		return g, false
	}
	g, err := identity.DecodeGeneration(events[i].KV())
	if err != nil {
		gs.found.undecodable(events[i], err)
	}
	return g, err == nil
}

// apply applies the generation that a revision names and checks that numbers increase, and that only a closed
// generation is opened (S17). It reports whether the revision opens one. A generation of a new ledger begins open; a
// closed one may be followed by another closed one, under a higher number.
func (gs *generations) apply(events []recording.LedgerEvent) (opens bool) {
	g, ok := gs.decode(events)
	if !ok {
		return false
	}
	was := gs
	object := []string{ledgerObject(identity.KeyGeneration)}
	switch {
	case g.Number < was.number:
		gs.found.violate("S17", object, "went from generation %d back to %d", was.number, g.Number)
	case g.Open && !was.closed && was.number != 0:
		gs.found.violate("S17", object, "generation %d was opened while generation %d was open", g.Number, was.number)
	}
	opens = g.Open && was.closed
	if g.Number > was.number && !g.Open {
		gs.found.report.note("generation %d of the ledger is closed from revision %d on: %s",
			g.Number, gs.found.revision, g.Reason)
	}
	was.number, was.closed = g.Number, !g.Open
	return opens
}

// clear applies the deletions among the events of a closed generation and returns the other events: the deletions are
// not actions of the protocol, and end what they delete. Deletions of owners stay among the others: partitions change
// their owners in a closed generation, too.
func (gs *generations) clear(events []recording.LedgerEvent) (others []recording.LedgerEvent) {
	if !gs.closed {
		return events
	}
	for _, ev := range events {
		if !ev.Deleted || strings.HasPrefix(ev.Key, roster.PrefixOwn) {
			others = append(others, ev)
			continue
		}
		doc := gs.state.docs[strings.TrimPrefix(ev.Key, ledger.PrefixNode)]
		if strings.HasPrefix(ev.Key, ledger.PrefixNode) {
			gs.endPromises(doc)
		}
		gs.state.apply(ev)
	}
	return others
}

// endPromises ends what a document promises. Until the next generation is opened, binds for it may still arrive: its
// placements get the greatest high-water mark for now, so that no bind is later, and open replaces it.
func (gs *generations) endPromises(doc ledger.NodeDoc) {
	for _, e := range reservations(doc) {
		p := gs.placed.find(e.PodUID, e.Token)
		if p == nil || p.left != 0 {
			continue
		}
		p.left, p.leftAt = gs.found.revision, math.MaxUint64
		gs.cleared = append(gs.cleared, p)
		if p.pod == nil || p.pod.node != doc.NodeName || p.pod.token != e.Token {
			p.released = gs.found.revision
			gs.placed.deactivate(p)
		}
	}
}

// open handles the moment at which members continue: nothing is promised any more (S17), and no earlier bind arrives
// from then on (S2, I3). The floor that the same revision writes holds the versions that every member must have
// applied before it goes on, so it is the high-water mark of everything that was cleared. Pods that were bound for
// reservations of the lost ledger get a placement without one, since they use their nodes.
func (gs *generations) open() {
	rv := gs.state.floor[ledger.KindPod]
	gs.opened = rv
	for _, p := range gs.cleared {
		p.leftAt = rv
	}
	gs.cleared = nil
	for _, key := range slices.Sorted(maps.Keys(gs.state.stubs)) {
		if s := gs.state.stubs[key]; s.promises > 0 {
			gs.found.violate("S17", []string{ledgerObject(key)}, "has %d entries while generation %d is being opened",
				s.promises, gs.number)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(gs.state.records)) {
		gs.found.violate("S17", []string{ledgerObject(ledger.PrefixPlan + id)}, "exists while generation %d is being opened",
			gs.number)
	}
	for _, pod := range gs.evidence.pods {
		lost := pod.boundByBerth() && !pod.initially && pod.bound.happened() && pod.bound.rv <= rv
		if lost && gs.placed.find(pod.uid, pod.token) == nil {
			gs.placed.addBound(pod)
		}
	}
}

// fromLostLedger reports whether an event may originate from a ledger that was lost: it happened before the generation
// was opened, in a ledger that this history does not contain. It is false for every event if the history opens no
// generation.
func (gs *generations) fromLostLedger(at moment) bool { return at.rv <= gs.opened }
