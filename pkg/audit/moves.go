package audit

import (
	"maps"
	"slices"

	"github.com/berth-scheduler/berth/pkg/ledger"
)

// checkMoves checks the places that are kept for the replacements of moved pods (T12). Such a place is made
// together with the claim on the pod to be evicted (S9), under one plan, and never changes. When it is removed in a
// step in which the node gets a reservation, it was taken over, or displaced.
//
// Whether the pod that took it is the replacement cannot be determined: histories do not contain the owners of
// pods.
func (l *planLaws) checkMoves(before map[string]ledger.NodeDoc) {
	for _, uid := range slices.Sorted(maps.Keys(before)) {
		old, now := before[uid], l.state.docs[uid]
		for _, e := range now.Entries {
			if was, known := old.Owner(e.Plan); e.Role != ledger.RoleMove || known && was.Token == e.Token {
				continue
			}
			l.found.report.Moves++
			if !l.state.claimedBy(e.PodUID, e.Plan) {
				l.found.violate("S9", []string{entryObject(e), nodeObject(now.NodeName)},
					"plan %s keeps a place for its replacement but does not claim the pod", e.Plan)
			}
		}
		l.found.report.TakenOver += min(placeholdersRemoved(old, now), reservationsAdded(old, now))
	}
}

// placeholdersRemoved counts the placeholders of moves that a revision has removed from a document.
func placeholdersRemoved(old, now ledger.NodeDoc) (gone int) {
	for _, e := range old.Entries {
		if _, still := now.Owner(e.Plan); e.Role == ledger.RoleMove && !still {
			gone++
		}
	}
	return gone
}

// reservationsAdded counts the reservations that a revision has added to a document, new attempts at the same pod
// included.
func reservationsAdded(old, now ledger.NodeDoc) (n int) {
	for _, e := range reservations(now) {
		if was, known := old.Find(e.PodUID); !known || was.Token != e.Token {
			n++
		}
	}
	return n
}
