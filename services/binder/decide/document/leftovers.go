package document

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// idleDoc is a budget's document or a plan's record that may contain something to sweep.
type idleDoc struct {
	revision int64
	// since is when this revision was first seen.
	since time.Time
	op    effect.OpID
}

// sweepOf returns the change for a node's document that no process seems to work on (T5, T8): entries that the facts
// confirm are handed over, claims of plans that were given up are removed, and so are overdue holds. Without a view
// of the whole ledger up to the document, only the first is done.
func (s *Sweeper) sweepOf(d *document) (txns.Change, bool) {
	doc, _ := s.store.Get(d.nodeUID)
	if d.ahead.Revision > 0 || s.Ledger.Revision() < doc.Revision {
		next, changed := txns.Finish(doc, s.Base)
		return txns.Change{Docs: []ledger.NodeDoc{next}}, changed
	}
	idle := s.Now.Sub(d.since)
	sweep, err := txns.SweepDoc(txns.Sweeping{
		Doc: doc, View: s.Ledger, Facts: s.Base,
		Overdue:  idle > s.Limits.Overdue+s.plans.LongestGrace(doc),
		Reported: idle > s.Limits.ReportWithin,
	})
	if err != nil {
		s.Fault("sweep of node "+d.nodeUID, err)
		return txns.Change{}, false
	}
	return sweep.Change, !sweep.Empty()
}

// sweepLeftovers settles the budgets, and drops the records of plans that no process works on. The binder that holds
// the partition of the budget, or of the plan's pod, does it; if two do, one loses a compare.
func (s *Sweeper) sweepLeftovers() {
	present := map[string]bool{}
	budgets := slices.SortedFunc(s.Ledger.Budgets().All(), func(a, b ledger.BudgetDoc) int {
		return strings.Compare(a.UID, b.UID)
	})
	for _, b := range budgets {
		if len(b.Claims) == 0 {
			continue
		}
		key := ledger.KeyBudget(b.UID)
		present[key] = true
		if d := s.idle(key, b.Revision); d != nil && s.MayAct(b.UID) {
			d.settle(s, b)
		}
	}
	records := slices.SortedFunc(s.Ledger.Plans().Records(), func(a, b ledger.PlanRecord) int {
		return strings.Compare(a.ID, b.ID)
	})
	for _, r := range records {
		key := ledger.KeyPlan(r.ID)
		present[key] = true
		if d := s.idle(key, r.Revision); d != nil && s.MayAct(r.PodUID) {
			d.drop(s, r)
		}
	}
	maps.DeleteFunc(s.idleDocs, func(key string, d *idleDoc) bool { return !present[key] && d.op == 0 })
}

// idle returns a document that has not changed for long and has nothing in flight; nil otherwise.
func (s *Sweeper) idle(key string, revision int64) *idleDoc {
	d, ok := s.idleDocs[key]
	if !ok {
		d = &idleDoc{}
		s.idleDocs[key] = d
	}
	if d.revision != revision {
		d.revision, d.since = revision, s.Now
	}
	if d.op != 0 || s.Now.Sub(d.since) <= s.Limits.Idle {
		return nil
	}
	return d
}

// settle drops the claims that the budget's status reflects by now (T10).
func (d *idleDoc) settle(s *Sweeper, b ledger.BudgetDoc) {
	if next, changed := txns.SettleBudget(b, s.Base); changed {
		d.op = s.tidy(d, txns.Change{Budgets: []ledger.BudgetDoc{next}}, "budget-settle")
	}
}

// drop removes the record of a plan that has ended, and aborts that of a plan whose place is gone.
func (d *idleDoc) drop(s *Sweeper, r ledger.PlanRecord) {
	over := r.State == ledger.PlanAborted || r.State == ledger.PlanDone
	if _, _, owned := s.Ledger.Plans().Owner(r.ID); !over && !owned && s.Now.Sub(d.since) > s.Limits.Overdue {
		if change, err := txns.AbortPlan(txns.Abort{Plan: r.ID, Record: &r}); err == nil {
			d.op = s.tidy(d, change, "plan-abort")
		}
		return
	}
	if !over || len(s.Ledger.Plans().Docs(r.ID)) > 0 || s.Ledger.Revision() < r.Revision {
		return
	}
	if change, err := txns.DropPlan(r, s.Ledger); err == nil {
		d.op = s.tidy(d, change, "plan-drop")
	}
}

func (d *idleDoc) answered(s *Sweeper, _ effect.Input) {
	// Applied or not, the view shows the result; a transaction that is built again contains the same change or loses.
	d.op, d.since = 0, s.Now
}
