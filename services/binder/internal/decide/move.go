package decide

import (
	"fmt"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
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

// asking returns the decision to evict that belongs to a move, if this binder knows it.
func (c *Core) asking(plan string, owner ledger.Entry) (*eviction, bool) {
	e, known := c.evictions[attempt{owner.PodUID, owner.Token}]
	return e, known && e.plan() == plan
}

// askedToMove reports whether the eviction of a move has been requested, has had no outcome, and may still be begun.
func (c *Core) askedToMove(plan string, owner ledger.Entry) bool {
	e, known := c.asking(plan, owner)
	return known && !e.done && !c.ended(e.asked.NotAfter)
}

// wantsMove reports whether the victim of a move must still leave. A mark proves that the eviction was requested,
// even to a binder that has not seen the request.
func (c *Core) wantsMove(plan string, owner, victim ledger.Entry) bool {
	if _, known := c.asking(plan, owner); !known {
		return victim.State == ledger.Evicting
	}
	return c.askedToMove(plan, owner)
}

// endMove aborts a move that has failed or whose time has expired.
func (p *plan) endMove(c *Core, owner ledger.Entry) (ended bool) {
	why := p.moveOver(c, owner)
	if why == "" {
		return false
	}
	abort := ledger.Abort{Plan: p.id, Docs: c.ledger.PlanDocs(p.id)}
	if _, victim, ok := c.ledger.Victim(owner.PodUID); ok && victim.Plan == p.id {
		for _, uid := range victim.Budgets {
			abort.Budgets = append(abort.Budgets, c.ledger.Budget(uid))
		}
	}
	change, err := ledger.AbortPlan(abort)
	if err != nil {
		c.fault("end of move "+p.id, err)
		c.pace(&p.pacing)
		return true
	}
	if e, known := c.asking(p.id, owner); known {
		e.finish(c, events.DecisionEvictRefused, why)
	}
	p.op = c.amend(p, change, "move-abort")
	return true
}

// moveOver returns the reason for giving up a move; empty while there is none.
func (p *plan) moveOver(c *Core, owner ledger.Entry) string {
	claim, marked := owner, false
	if _, victim, ok := c.ledger.Victim(owner.PodUID); ok && victim.Plan == p.id {
		claim, marked = victim, victim.State == ledger.Evicting
	}
	fate := c.fate(claim)
	if fate == ledger.Left && p.left.IsZero() {
		p.left = c.now
	}
	e, asked := c.asking(p.id, owner)
	held, _, _ := c.ledger.PlanOwner(p.id)
	switch {
	case asked && e.failed && !marked:
		return "its eviction was refused"
	case fate == ledger.Left && c.now.Sub(p.left) > c.limits.KeepPlace:
		return fmt.Sprintf("no pod took its place within %s", c.limits.KeepPlace)
	case fate == ledger.Staying && !asked && !marked && c.now.Sub(p.since) > c.limits.KeepPlace:
		return fmt.Sprintf("nobody asked for its eviction within %s", c.limits.KeepPlace)
	case c.now.Sub(p.since) > c.limits.Overdue+c.leaving(held):
		return "the pod did not leave in time"
	}
	return ""
}

// returned emits an event for a pod that was placed back where the pod it replaces was moved away from.
func (c *Core) returned(d events.Decision) {
	if c.mayAct(d.Pod.UID) {
		c.emit(Report{
			Pod: d.Pod, SchedulerName: d.SchedulerName, Type: "Warning", Reason: "CameBack", Action: "Descheduling",
			Note: d.Message,
		})
	}
}
