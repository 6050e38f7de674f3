package evict

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/ledger"
)

// These are the values of the annotation requested-by: who asks for an eviction. The first is upstream's
// (sigs.k8s.io/descheduler, deschedulerGlobalName), because tools look for it.
const (
	requestedByDescheduler = "sigs.k8s.io/descheduler"
	requestedByPreemption  = "berth.dev/preemption"
)

// account returns the reason of an eviction, and who requests it. An order's message has the form of upstream's reason
// already. A preemption has the reason that kube-scheduler gives in the condition DisruptionTarget, which the API
// server's own condition replaces.
func (r *removal) account(v *Evictor) (reason, requestedBy string) {
	if e, ok := v.orderOf(r); ok {
		return e.order.Message, requestedByDescheduler
	}
	if p, _, ok := preemptor(v.Base, r.plan); ok {
		return fmt.Sprintf("%s: %s: preempting to accommodate higher priority pod %s (%s)",
			preemptionReason, p.SchedulerName, p.Key(), p.UID), requestedByPreemption
	}
	if strategy := r.strategy(v); strategy == strategyMove || ledger.IsEviction(r.plan) {
		return "triggered by an order of the descheduler: " + r.plan, requestedByDescheduler
	}
	return preemptionReason + ": plan " + r.plan, requestedByPreemption
}

// strategyMove is the strategy of a move whose order is not known.
const strategyMove = "move"

// preemptionReason is the reason of the condition with which kube-scheduler deletes a victim.
const preemptionReason = corev1.PodReasonPreemptionByScheduler

// strategy returns the strategy of an eviction for which no requester is known.
func (r *removal) strategy(v *Evictor) string {
	if _, owner, ok := v.Ledger.Plans().Owner(r.plan); ok && owner.Role == ledger.RoleMove {
		return strategyMove
	}
	return "preemption"
}
