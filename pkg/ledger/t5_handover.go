package ledger

// PodFacts is what Finish asks of a member's view of the API.
type PodFacts interface {
	// PodFact says what the applied facts show of a pod: whether it is known, whether it
	// is bound (to any node), and if so a resourceVersion at which it is.
	PodFact(podUID string) (boundRV uint64, bound, known bool)
	// PodProgress is the applied progress of pods; 0 while it is undefined.
	PodProgress() uint64
}

// Finish is T5 (hand-over): it drops the reservations the API itself now stands for, and
// raises the document's high-water to the facts that show it, so that no member can use the
// node before it has applied those facts. It returns the document and whether it changed.
// Carry the result out with PlaceBatch, as a rider, or with Replace.
//
// Dropped are reservations of pods that are
//   - bound: high-water becomes at least the resourceVersion of that fact;
//   - deleted: high-water becomes at least the applied progress. Deleted means that the
//     view does not know the UID although it has applied everything up to PodRV; before
//     that, the pod may simply not have arrived yet.
//
// A crash before the transaction leaves entries that every member ignores already, after it
// a smaller document. Claims and pins are not touched: they end with their plan.
func Finish(d NodeDoc, facts PodFacts) (NodeDoc, bool) {
	progress := facts.PodProgress()
	if progress == 0 {
		return d, false
	}
	kept := make([]Entry, 0, len(d.Entries))
	var hw uint64
	for _, e := range d.Entries {
		rv, done := finished(e, facts, progress)
		if !done {
			kept = append(kept, e)
			continue
		}
		hw = max(hw, rv)
	}
	if len(kept) == len(d.Entries) {
		return d, false
	}
	d = d.copy()
	d.Entries = kept
	d.raise(KindPod, hw)
	return d, true
}

// finished is the resourceVersion that a document without e must have as its high-water.
func finished(e Entry, facts PodFacts, progress uint64) (rv uint64, done bool) {
	if e.Role != RoleReservation {
		return 0, false
	}
	boundRV, bound, known := facts.PodFact(e.PodUID)
	switch {
	case known && bound:
		return boundRV, true
	case !known && e.PodRV > 0 && progress >= e.PodRV:
		return progress, true
	}
	return 0, false
}
