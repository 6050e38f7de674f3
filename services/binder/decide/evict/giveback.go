package evict

import (
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// A removal changes its claim in two ways: it takes it over from another binder, and it gives it back after all
// evictions have failed.

// takeOver makes this binder the one that sends the evictions.
func (r *removal) takeOver(v *Evictor) {
	d, ok := v.Ledger.Doc(r.nodeUID)
	if !ok {
		return
	}
	next, err := txns.TakeEviction(d, r.claim.PodUID, r.plan, v.ID)
	r.amend(v, txns.Change{Docs: []ledger.NodeDoc{next}}, err, "evict-take")
}

// giveBack takes the mark back. If anything was sent, it may have taken from budgets. So the budgets' documents
// record the version that the facts about them must reach for that to show.
func (r *removal) giveBack(v *Evictor) {
	r.returning = true
	if r.sent && r.budgetsRead < len(r.claim.Budgets) {
		b := v.Ledger.Budgets().Of(r.claim.Budgets[r.budgetsRead])
		v.Emit(effect.ReadBudget{Op: r.begin(v, readingBudget), Namespace: b.Namespace, Name: b.Name})
		return
	}
	d, ok := v.Ledger.Doc(r.nodeUID)
	if !ok {
		return
	}
	fail := txns.FailEviction
	if r.request.over {
		fail = txns.DeclineEviction
	}
	next, err := fail(d, r.claim.PodUID, r.plan)
	change := txns.Change{Docs: []ledger.NodeDoc{next}}
	failure := txns.Failure{BudgetRV: r.budgetRV}
	for _, uid := range r.claim.Budgets {
		if failure.BudgetRV > 0 {
			change.Budgets = append(change.Budgets, txns.CoverBudget(v.Ledger.Budgets().Of(uid), failure))
		}
	}
	r.amend(v, change, err, "evict-failed")
}

// budgetRead continues after one of the claim's budgets was read; giveBack reads the next one.
func (r *removal) budgetRead(v *Evictor, a effect.Answered) {
	switch a.Result {
	case effect.Done:
		r.budgetRV = max(r.budgetRV, a.ResourceVersion)
		r.budgetsRead++
		r.advance(v)
	case effect.Gone:
		r.budgetsRead++ // nothing can be taken from it any more
		r.advance(v)
	default:
		r.Pause(v.Now)
	}
}

// amend sends a transaction on the claim's document. err is the reason why there is no change.
func (r *removal) amend(v *Evictor, change txns.Change, err error, why string) {
	if err != nil {
		// The view is ahead of the state that the change was built on; the next try uses the current one.
		r.Pause(v.Now)
		return
	}
	if op := v.amend(r, change, why); op != 0 {
		r.op, r.step = op, amending
	}
}

// amended continues after a transaction on the claim.
func (r *removal) amended(v *Evictor, in effect.Amended) {
	// The view shows the outcome by now, and follow has seen it.
	switch {
	case r.claimGone:
	case in.Result == effect.TxnUnknown || in.Result == effect.TxnRefused:
		r.Pause(v.Now)
	default:
		r.advance(v)
	}
}
