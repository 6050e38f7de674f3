package decide

import "github.com/berth-scheduler/berth/pkg/ledger"

// takeOver makes this binder the one that sends the evictions.
func (r *removal) takeOver(c *Core) {
	d, ok := c.ledger.Doc(r.nodeUID)
	if !ok {
		return
	}
	next, err := ledger.TakeEviction(d, r.claim.PodUID, r.plan, c.id)
	r.amend(c, ledger.Change{Docs: []ledger.NodeDoc{next}}, err, "evict-take")
}

// giveBack takes the mark back. If anything was sent, it may have taken from budgets. So the budgets' documents
// record the version that the facts about them must reach for that to show.
func (r *removal) giveBack(c *Core) {
	r.returning = true
	if r.sent && r.asked < len(r.claim.Budgets) {
		b := c.ledger.Budget(r.claim.Budgets[r.asked])
		c.emit(ReadBudget{Op: r.begin(c, asking), Namespace: b.Namespace, Name: b.Name})
		return
	}
	d, ok := c.ledger.Doc(r.nodeUID)
	if !ok {
		return
	}
	next, err := ledger.FailEviction(d, r.claim.PodUID, r.plan)
	change := ledger.Change{Docs: []ledger.NodeDoc{next}}
	failure := ledger.Failure{BudgetRV: r.budgetRV}
	for _, uid := range r.claim.Budgets {
		if failure.BudgetRV > 0 {
			change.Budgets = append(change.Budgets, ledger.CoverBudget(c.ledger.Budget(uid), failure))
		}
	}
	r.amend(c, change, err, "evict-failed")
}

func (r *removal) budgetRead(c *Core, a Answered) {
	switch a.Result {
	case Done:
		r.budgetRV = max(r.budgetRV, a.ResourceVersion)
		r.asked++
		r.advance(c)
	case Gone:
		r.asked++ // nothing can be taken from it any more
		r.advance(c)
	default:
		c.pace(&r.pacing)
	}
}

func (r *removal) amend(c *Core, change ledger.Change, err error, why string) {
	if err != nil {
		// The view is ahead of the state that the change was built on; the next try uses the current one.
		c.pace(&r.pacing)
		return
	}
	if op := c.amend(r, change, why); op != 0 {
		r.op, r.step = op, amending
	}
}

func (r *removal) amended(c *Core, in Amended) {
	// The view shows the outcome by now, and follow has seen it.
	switch {
	case r.left:
	case in.Result == TxnUnknown || in.Result == TxnRefused:
		c.pace(&r.pacing)
	default:
		r.advance(c)
	}
}
