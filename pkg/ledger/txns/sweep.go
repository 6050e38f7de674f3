package txns

import (
	"maps"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
)

// Sweeping is one inspection by a binder of a document that has not changed for long.
type Sweeping struct {
	Doc ledger.NodeDoc
	// Picture is the ledger as the binder knows it. It must be complete up to the document.
	View  *replica.View
	Facts ClaimFacts
	// Overdue: the document has not changed for longer than any member takes to carry a plan through. Its holds and
	// placeholders are then given up, whichever member made them.
	Overdue bool
	// Reported: the document has not changed for longer than a binder, or the binder that takes over from it, needs to
	// report the outcome of an eviction. Declined claims of plans that were given up are then dropped like others.
	Reported bool
}

// Swept is the result of SweepDoc. It covers claims only: reservations that are Committed or Fencing are bound or
// fenced by their own rules (MarkFencing), and appear here only if the facts already stand for them.
type Swept struct {
	// Change drops what can be dropped at once, with no effect on the API; there is nothing to drop if Empty.
	Change Change
	// Evict are the victims that are Evicting, still exist, and whose plan still wants them evicted. Their eviction
	// is due (again), after a look at the pod.
	Evict []ledger.Entry
	// Overdue are the plans that were given up, and whose owner must be notified.
	Overdue []string
}

// Empty reports whether there is nothing to carry out.
func (s Swept) Empty() bool { return len(s.Change.Docs)+len(s.Change.Budgets)+len(s.Change.Plans) == 0 }

// MaxSweptBudgets is how many budget documents one SweepDoc changes, so that the change fits into a transaction
// together with the node's document, the records of plans, and volumes and pools.
const MaxSweptBudgets = ledger.MaxTxnOps / 2

// SweepDoc decides about a document's holds and claims when no member seems to work on them:
//
//   - Entries that the facts stand for are handed over (Finish).
//   - A hold or placeholder is dropped when it is overdue, or when its plan's record is Aborted or missing. Its
//     claims on this node are dropped with it.
//   - A claim that is not Evicting is dropped, together with its budget claims, when no hold or placeholder of its
//     plan exists any more. Claims on more than MaxSweptBudgets budgets take several sweeps. One that is Declined stays
//     until its outcome is reported: it shows the next binder that nothing is to be requested again.
//   - A claim that is Evicting stays until its victim has left, or the eviction has failed.
//   - A pin loses the dependents for which no document has a reservation any more.
//
// A reservation that waits for its victims and whose victims are all gone is left to its partition's owner, until
// it is overdue.
//
// Carry it out like AbortPlan. It returns a *RefusedError when the view is older than the document.
func SweepDoc(s Sweeping) (Swept, error) {
	if s.View.Revision() < s.Doc.Revision {
		return Swept{}, &RefusedError{Step: "sweep", NodeUID: s.Doc.NodeUID,
			Reason: "the picture of the ledger is older than the document"}
	}
	d, changed := Finish(s.Doc, s.Facts)
	out := Swept{}
	gone := map[string]bool{} // plans that are given up here
	for _, e := range d.Entries {
		if e.OwnsPlan() && s.over(e) {
			gone[e.Plan] = true
			if e.Plan != "" {
				out.Overdue = append(out.Overdue, e.Plan)
			}
		}
	}
	var kept []ledger.Entry
	budgets, count := map[string]ledger.BudgetDoc{}, budgetCount{most: MaxSweptBudgets, weight: s.budgetWeight}
	var holds []ledger.Entry
	for _, e := range d.Entries {
		switch {
		case e.OwnsPlan() && gone[e.Plan] && s.over(e):
			holds = append(holds, e)
		case e.Role == ledger.RoleVictim && s.orphaned(e, gone) && count.takes(e):
			s.unclaim(budgets, e)
		default:
			kept = append(kept, e)
			if e.Role == ledger.RoleVictim && e.State == ledger.Evicting && s.due(e, gone) {
				out.Evict = append(out.Evict, e)
			}
		}
	}
	if len(kept) != len(d.Entries) {
		d = d.Clone()
		d.Entries, changed = kept, true
	}
	d, unpinned := s.unpin(d)
	if changed || unpinned {
		out.Change.Docs = []ledger.NodeDoc{d}
	}
	for _, uid := range slices.Sorted(maps.Keys(budgets)) {
		out.Change.Budgets = append(out.Change.Budgets, budgets[uid])
	}
	s.letGo(&out.Change, holds)
	return out, nil
}

// over reports whether a hold or placeholder must be given up.
func (s Sweeping) over(e ledger.Entry) bool {
	if s.Overdue {
		return true
	}
	if !ledger.IsRecorded(e.Plan) {
		return false
	}
	r, ok := s.View.Plans().Record(e.Plan)
	return !ok || r.State == ledger.PlanAborted
}

// orphaned reports whether a claim can be dropped: no eviction was sent, and no plan wants it.
func (s Sweeping) orphaned(e ledger.Entry, gone map[string]bool) bool {
	if e.State == ledger.Evicting || e.Declined && !s.Reported {
		return false
	}
	_, _, wanted := s.View.Plans().Owner(e.Plan)
	return !wanted || gone[e.Plan]
}

// due reports whether the eviction of a victim should still take place.
func (s Sweeping) due(e ledger.Entry, gone map[string]bool) bool {
	fate, _ := s.Facts.VictimFate(e.PodUID, e.PodRV)
	_, _, wanted := s.View.Plans().Owner(e.Plan)
	return fate == Staying && wanted && !gone[e.Plan]
}

func (s Sweeping) unclaim(budgets map[string]ledger.BudgetDoc, e ledger.Entry) {
	for _, uid := range e.Budgets {
		b, ok := budgets[uid]
		if !ok {
			b = s.View.Budgets().Of(uid)
		}
		budgets[uid], _ = UnclaimBudget(b, e.PodUID, Failure{}) // even if it has no such claim: see AbortPlan
	}
}

// unpin drops the dependents that have no reservation any more: they were displaced, or their plan was aborted by a
// member that did not know of the pin. A dependent whose reservation was handed over is bound, and the facts must
// be recent enough to show that.
func (s Sweeping) unpin(d ledger.NodeDoc) (ledger.NodeDoc, bool) {
	if s.Facts.PodProgress() < s.View.HighWater(ledger.KindPod) {
		return d, false
	}
	found := false
	for _, e := range d.Entries {
		for _, x := range e.Dependents {
			if _, _, reserved := s.View.Entry(x.PodUID); !reserved {
				var dropped bool
				d, dropped = dropDependent(d, x.PodUID)
				found = found || dropped
			}
		}
	}
	return d, found
}

func (s Sweeping) budgetWeight(uid string) int { return s.View.Budgets().Of(uid).Weight() }

// freedBytes is how much of a transaction is used at most for the volumes and pools that a sweep frees. The rest is
// freed by the next member that wants it (FinishHolders).
const freedBytes = ledger.MaxTxnBytes / 4

// letGo frees the volumes and pools of holds that are dropped, and aborts their records.
func (s Sweeping) letGo(c *Change, holds []ledger.Entry) {
	room := freedBytes
	for _, h := range holds {
		if r, ok := s.View.Plans().Record(h.Plan); ok && (r.State == ledger.PlanForming || r.State == ledger.PlanReady) {
			c.Plans = append(c.Plans, r.To(ledger.PlanAborted))
		}
		for x := range s.View.Exclusives().All() {
			i := slices.IndexFunc(c.Exclusives, func(known ledger.ExclusiveDoc) bool { return known.Key == x.Key })
			if i >= 0 {
				x = c.Exclusives[i]
			}
			freed, had := x.ReleaseHolder(h.Token)
			switch {
			case !had:
			case i >= 0:
				c.Exclusives[i] = freed
			case freed.Weight() <= room:
				room -= freed.Weight()
				c.Exclusives = append(c.Exclusives, freed)
			}
		}
	}
	slices.SortFunc(c.Exclusives, func(a, b ledger.ExclusiveDoc) int { return strings.Compare(a.Key, b.Key) })
}
