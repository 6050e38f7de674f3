package evict

import (
	"fmt"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// refused reports to the plan's shard that a victim cannot be evicted, and rests the plan: the shard drops the victim
// or the plan, or the plan is tried again. A move ends then.
func (v *Evictor) refused(r *removal, problem string) {
	r.conclude(v, events.DecisionEvictRefused, problem)
	if _, owner, ok := v.Ledger.Plans().Owner(r.plan); ok && owner.Role == ledger.RoleMove {
		if p, ok := v.plans[r.plan]; ok {
			p.advance(v)
		}
		return
	}
	r.Due = v.Now.Add(v.Limits.PlanPause)
	if p, ok := v.plans[r.plan]; ok {
		p.Due = r.Due
	}
}

// reportDone reports an eviction that was carried out, once.
func (r *removal) reportDone(v *Evictor) {
	if r.reported {
		return
	}
	r.reported = true
	r.conclude(v, events.DecisionEvicted, "")
	r.preempted(v)
}

// reportGone reports a victim that is leaving after evictions of this binder without a known outcome.
func (r *removal) reportGone(v *Evictor) {
	if r.claim.State == ledger.Evicting && r.claim.Shard == v.ID && r.sent {
		r.reportDone(v)
	}
}

// conclude publishes how a removal ended: through the eviction that requested it, or else under the plan's token.
func (r *removal) conclude(v *Evictor, kind events.DecisionKind, message string) {
	if e, ok := v.orderOf(r); ok {
		e.finish(v, kind, message)
		return
	}
	v.Publish(decisionAbout(v, r, kind, message))
}

// decisionAbout returns a decision about the victim: as an outcome of the order that requested its eviction, or else
// under the plan's token.
func decisionAbout(v *Evictor, r *removal, kind events.DecisionKind, message string) events.Decision {
	if e, ok := v.orderOf(r); ok {
		d := e.order
		d.Kind, d.Message = kind, message
		return d
	}
	d := events.Decision{Kind: kind, Pod: r.ref(), Token: PlanToken(r.plan), NodeUID: r.nodeUID, Message: message}
	if doc, owner, ok := v.Ledger.Plans().Owner(r.plan); ok {
		d.SchedulerName = owner.SchedulerName
		if doc.NodeUID == r.nodeUID {
			d.NodeName = doc.NodeName
		}
	}
	return d
}

// preempted emits the event for a victim, in kube-scheduler's words.
func (r *removal) preempted(v *Evictor) {
	p, doc, ok := preemptor(v.Base, r.plan)
	if !ok {
		return
	}
	v.Emit(effect.Report{
		Pod: r.ref(), SchedulerName: p.SchedulerName, Type: "Normal", Reason: "Preempted", Action: "Preempting",
		Note:    fmt.Sprintf("Preempted by pod %s on node %s", p.UID, doc.NodeName),
		Related: events.PodRef{UID: p.UID, Namespace: p.Namespace, Name: p.Name},
	})
}

// accountFor returns the reason of an eviction, and who requests it. An order's message has the form of upstream's
// reason already. A preemption has the reason that kube-scheduler gives in the condition DisruptionTarget, which the
// API server's own condition replaces.
func accountFor(v *Evictor, r *removal) (reason, requestedBy string) {
	if e, ok := v.orderOf(r); ok {
		return e.order.Message, requestedByDescheduler
	}
	if p, _, ok := preemptor(v.Base, r.plan); ok {
		return fmt.Sprintf("%s: %s: preempting to accommodate higher priority pod %s (%s)",
			preemptionReason, p.SchedulerName, p.Key(), p.UID), requestedByPreemption
	}
	if strategy := strategyOf(v, r); strategy == strategyMove || ledger.IsEviction(r.plan) {
		return "triggered by an order of the descheduler: " + r.plan, requestedByDescheduler
	}
	return preemptionReason + ": plan " + r.plan, requestedByPreemption
}
