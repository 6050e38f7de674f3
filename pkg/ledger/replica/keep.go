package replica

import "github.com/berth-scheduler/berth/pkg/ledger"

// keep copies what an earlier view has learned at later revisions than that of this view, which comes from a list.
// A list may be older than the member's own transactions: it is read when a watch was compacted, and folded in
// after answers that arrived in between. Without these values the member would forget a mark that it has made, and
// believe that an eviction it has sent was never begun.
//
// Any value of a later revision was in the store at that revision, whether the member's own transaction has put it
// or a lost compare has shown it. It may have changed or been deleted since: the watch continues after the list's
// revision, and shows that. For a value that was learned at the list's revision or before, the list is
// authoritative: if it lacks the key, the key is gone.
func (v *View) carryOver(was *View) {
	var set changeSet // a Reset reports that everything may have changed
	for uid, ahead := range was.names.ahead {
		if ahead > v.revision {
			v.names.ahead[uid] = ahead
		}
	}
	for uid, ahead := range was.claims.ahead {
		if ahead > v.revision {
			v.claims.ahead[uid] = ahead
		}
	}
	for _, d := range was.docs {
		if d.Revision > v.revision {
			v.setDoc(d, &set)
		}
	}
	laterThan(v, v.names.incarnations, was.names.incarnations, ledger.Incarnation.ReadAt)
	laterThan(v, v.claims.budgets, was.claims.budgets, ledger.BudgetDoc.ReadAt)
	laterThan(v, v.claims.exclusives, was.claims.exclusives, ledger.ExclusiveDoc.ReadAt)
	laterThan(v, v.claims.records, was.claims.records, ledger.PlanRecord.ReadAt)
	laterThan(v, v.wanted, was.wanted, func(o ownership) int64 { return o.modified })
	laterThan(v, v.members, was.members, func(m membership) int64 { return m.modified })
	for id, guards := range was.terms.guards {
		for key, g := range guards {
			if g.own > v.revision {
				v.terms.setGuard(id, key, guardView{read: v.terms.guards[id][key].read, own: g.own, follows: g.follows})
			}
		}
	}
	if was.generation.Revision > v.revision {
		v.generation = was.generation
		v.forgetHighest()
	}
}

// laterThan copies the values whose revisions are later than the view's.
func laterThan[K comparable, T any](v *View, into, from map[K]T, revision func(T) int64) {
	for key, value := range from {
		if revision(value) > v.revision {
			into[key] = value
		}
	}
}
