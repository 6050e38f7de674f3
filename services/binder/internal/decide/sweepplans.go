package decide

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/berth-scheduler/berth/pkg/ledger"
)

// idleDoc is a budget's document or a plan's record that may contain something to sweep.
type idleDoc struct {
	revision int64
	// since is when this revision was first seen.
	since time.Time
	op    OpID
}

// swept returns the change for a node's document that no process seems to work on (T5, T8): entries that the facts
// confirm are handed over, claims of plans that were given up are removed, and so are overdue holds. Without a view
// of the whole ledger up to the document, only the first is done.
func (c *Core) swept(d *document) (ledger.Change, bool) {
	known, ok := c.ledger.Doc(d.doc.NodeUID)
	if !ok || known.Revision != d.doc.Revision || c.ledger.Revision() < known.Revision {
		next, changed := ledger.Finish(d.doc, claimFacts{c})
		return ledger.Change{Docs: []ledger.NodeDoc{next}}, changed
	}
	s, err := ledger.SweepDoc(ledger.Sweeping{
		Doc: known, Picture: c.ledger, Facts: claimFacts{c}, Overdue: c.now.Sub(d.since) > c.limits.Overdue+c.leaving(known),
	})
	if err != nil {
		c.fault("sweep of node "+d.doc.NodeUID, err)
		return ledger.Change{}, false
	}
	return s.Change, !s.Empty()
}

// leaving returns the longest time that holds of a document may take in addition to Overdue: the grace period of the
// pods that leave for them, or what plugins may take.
func (c *Core) leaving(d ledger.NodeDoc) time.Duration {
	var longest int64
	for _, hold := range d.Entries {
		if hold.Plan == "" || hold.Role == ledger.RoleVictim {
			continue
		}
		if ledger.IsPrepared(hold.Plan) {
			longest = max(longest, int64(ledger.PreparedFor/time.Second))
		}
		for _, r := range c.removalsOf(hold.Plan) {
			p, known, _ := c.pod(r.claim.PodUID, r.claim.PodRV)
			if !known || !p.Deleting {
				continue
			}
			if grace := p.Object().DeletionGracePeriodSeconds; grace != nil {
				longest = max(longest, *grace)
			}
		}
	}
	return time.Duration(longest) * time.Second
}

// sweepPromised settles the budgets, and drops the records of plans that no process works on. The binder that holds
// the partition of the budget, or of the plan's pod, does it; if two do, one loses a compare.
func (c *Core) sweepPromised() {
	if c.draining {
		return
	}
	present := map[string]bool{}
	budgets := slices.SortedFunc(c.ledger.Budgets(), func(a, b ledger.BudgetDoc) int {
		return strings.Compare(a.UID, b.UID)
	})
	for _, b := range budgets {
		if len(b.Claims) == 0 {
			continue
		}
		key := ledger.KeyBudget(b.UID)
		present[key] = true
		if d := c.idle(key, b.Revision); d != nil && c.mayAct(b.UID) {
			d.settle(c, b)
		}
	}
	records := slices.SortedFunc(c.ledger.Records(), func(a, b ledger.PlanRecord) int {
		return strings.Compare(a.ID, b.ID)
	})
	for _, r := range records {
		key := ledger.KeyPlan(r.ID)
		present[key] = true
		if d := c.idle(key, r.Revision); d != nil && c.mayAct(r.PodUID) {
			d.drop(c, r)
		}
	}
	maps.DeleteFunc(c.idles, func(key string, d *idleDoc) bool { return !present[key] && d.op == 0 })
}

// idle returns a document that has not changed for long and has nothing in flight; nil otherwise.
func (c *Core) idle(key string, revision int64) *idleDoc {
	d, ok := c.idles[key]
	if !ok {
		d = &idleDoc{}
		c.idles[key] = d
	}
	if d.revision != revision {
		d.revision, d.since = revision, c.now
	}
	if d.op != 0 || c.now.Sub(d.since) <= c.limits.Idle {
		return nil
	}
	return d
}

// settle drops the claims that the budget's status reflects by now (T10).
func (d *idleDoc) settle(c *Core, b ledger.BudgetDoc) {
	if next, changed := ledger.SettleBudget(b, claimFacts{c}); changed {
		d.op = c.tidy(d, ledger.Change{Budgets: []ledger.BudgetDoc{next}}, "budget-settle")
	}
}

// drop removes the record of a plan that has ended, and aborts that of a plan whose place is gone.
func (d *idleDoc) drop(c *Core, r ledger.PlanRecord) {
	over := r.State == ledger.PlanAborted || r.State == ledger.PlanDone
	if _, _, owned := c.ledger.PlanOwner(r.ID); !over && !owned && c.now.Sub(d.since) > c.limits.Overdue {
		if change, err := ledger.AbortPlan(ledger.Abort{Plan: r.ID, Record: &r}); err == nil {
			d.op = c.tidy(d, change, "plan-abort")
		}
		return
	}
	if !over || len(c.ledger.PlanDocs(r.ID)) > 0 || c.ledger.Revision() < r.Revision {
		return
	}
	if change, err := ledger.DropPlan(r, c.ledger); err == nil {
		d.op = c.tidy(d, change, "plan-drop")
	}
}

func (d *idleDoc) answered(c *Core, _ Input) {
	// Applied or not, the view shows the result; a transaction that is built again contains the same change or loses.
	d.op, d.since = 0, c.now
}
