package replica

// carryOver copies what an earlier view has learned at later revisions than that of this view, which comes from a list.
// A list may be older than the member's own transactions: it is read when a watch was compacted, and folded in
// after answers that arrived in between. Without these values the member would forget a mark that it has made, and
// believe that an eviction it has sent was never begun.
//
// Any value of a later revision was in the store at that revision, whether the member's own transaction has put it
// or a lost compare has shown it. It may have changed or been deleted since: the watch continues after the list's
// revision, and shows that. For a value that was learned at the list's revision or before, the list is
// authoritative: if it lacks the key, the key is gone.
func (v *View) carryOver(was *View) {
	v.names.carryOver(&was.names, v.revision)
	v.budgets.carryOver(&was.budgets, v.revision)
	var set changeSet // a Reset reports that everything may have changed
	for d := range was.docs.all() {
		if d.Revision > v.revision {
			r := v.docs.revise(was.docs.stored(d.NodeUID))
			v.setDoc(&r, &set)
		}
	}
	v.exclusives.carryOver(&was.exclusives, v.revision)
	v.plans.carryOver(&was.plans, v.revision)
	v.roster.carryOver(&was.roster, v.revision)
	v.terms.carryOver(&was.terms)
	if was.generation.Revision > v.revision {
		v.generation = was.generation
		v.docs.recomputeHighest()
	}
}
