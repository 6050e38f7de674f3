package evict

import (
	"fmt"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/services/binder/decide/basis"
)

// A move is a plan whose place is kept for a pod that does not exist yet (T12). The descheduler creates it and
// requests the eviction; the binder evicts its victim like that of any plan, once both are known. It ends in one of
// these ways:
//
//   - A shard gives the place to the replacement, in its T1. Nothing is left to do.
//   - The eviction is refused, or turns out to be pointless: the plan is aborted (T8).
//   - No pod takes the place: the replacement is not created (its owner was scaled down, or does
//     not create another), or was placed elsewhere. Limits.KeepPlace after the victim has left,
//     the plan is aborted.
//   - The eviction is never requested, because the descheduler died in between. The next leading
//     descheduler gives the place up; so does the binder, after Limits.KeepPlace.
//   - The victim does not leave: after Limits.Overdue, in addition to its grace period, the plan is
//     aborted. A claim whose eviction was sent stays until the victim is gone.

// moveOrder returns the decision to evict that belongs to a move, if this binder knows it.
func (v *Evictor) moveOrder(plan string, owner ledger.Entry) (*eviction, bool) {
	e, known := v.evictions[basis.Attempt{Pod: owner.PodUID, Token: owner.Token}]
	return e, known && e.plan() == plan
}

// moveRequested reports whether the eviction of a move has been requested, has had no outcome, and may still be begun.
func (v *Evictor) moveRequested(plan string, owner ledger.Entry) bool {
	e, known := v.moveOrder(plan, owner)
	return known && !e.done && !v.Ended(e.order.NotAfter)
}

// moveDue reports whether the victim of a move must still leave. A mark proves that the eviction was requested,
// even to a binder that has not seen the request.
func (v *Evictor) moveDue(plan string, owner, victim ledger.Entry) bool {
	if _, known := v.moveOrder(plan, owner); !known {
		return victim.State == ledger.Evicting
	}
	return v.moveRequested(plan, owner)
}

// endMove aborts a move that has failed or whose time has expired.
func (p *plan) endMove(v *Evictor, owner ledger.Entry) (ended bool) {
	why := p.moveEnded(v, owner)
	if why == "" {
		return false
	}
	abort := txns.Abort{Plan: p.id, Docs: v.Ledger.Plans().Docs(p.id)}
	if _, victim, ok := v.Ledger.Plans().Victim(owner.PodUID); ok && victim.Plan == p.id {
		for _, uid := range victim.Budgets {
			abort.Budgets = append(abort.Budgets, v.Ledger.Budgets().Of(uid))
		}
	}
	change, err := txns.AbortPlan(abort)
	if err != nil {
		v.Fault("end of move "+p.id, err)
		p.Pause(v.Now)
		return true
	}
	if e, known := v.moveOrder(p.id, owner); known {
		e.finish(v, events.DecisionEvictRefused, why)
	}
	p.op = v.amend(p, change, "move-abort")
	return true
}

// moveEnded returns the reason for giving up a move; empty while there is none.
func (p *plan) moveEnded(v *Evictor, owner ledger.Entry) string {
	claim, marked := owner, false
	if _, victim, ok := v.Ledger.Plans().Victim(owner.PodUID); ok && victim.Plan == p.id {
		claim, marked = victim, victim.State == ledger.Evicting
	}
	fate := v.Fate(claim)
	if fate == txns.Left && p.leftAt.IsZero() {
		p.leftAt = v.Now
	}
	e, asked := v.moveOrder(p.id, owner)
	held, _, _ := v.Ledger.Plans().Owner(p.id)
	switch {
	case asked && !marked && (e.failed || claim.Declined):
		return "its eviction was refused"
	case fate == txns.Left && v.Now.Sub(p.leftAt) > v.Limits.KeepPlace:
		return fmt.Sprintf("no pod took its place within %s", v.Limits.KeepPlace)
	case fate == txns.Staying && !asked && !marked && v.Now.Sub(p.since) > v.Limits.KeepPlace:
		return fmt.Sprintf("nobody asked for its eviction within %s", v.Limits.KeepPlace)
	case v.Now.Sub(p.since) > v.Limits.Overdue+v.LongestGrace(held):
		return "the pod did not leave in time"
	}
	return ""
}
