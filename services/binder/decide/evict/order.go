package evict

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/binder/decide/basis"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// These are the values of the annotation requested-by: who asks for an eviction. The first is upstream's
// (sigs.k8s.io/descheduler, deschedulerGlobalName), because tools look for it.
const (
	requestedByDescheduler = "sigs.k8s.io/descheduler"
	requestedByPreemption  = "berth.dev/preemption"
)

// eviction is one decision to evict, handled once per (pod UID, token). It claims the pod, and the disruption that
// its eviction takes from budgets, in the ledger, unless a plan of that token has done so (a move). What follows is
// that claim's removal, which reports the outcome.
//
// Order: claim → read, dry run, eviction → outcome in the log. A crash before the claim leaves nothing: the decision
// stays in the log, other binders remember it until its outcome, and the binder that takes over the partition starts
// again. For a crash after the claim, see removal.
type eviction struct {
	key   basis.Attempt
	order events.Decision
	op    effect.OpID
	// done means that an outcome is in the log; the eviction is then kept, from since on, to detect redelivery.
	// failed means that by this outcome the pod stays.
	done, failed bool
	since        time.Time
	// void means that the ledger began a new generation while the claim was in flight.
	void bool
	basis.Pacing
}

// orderOf returns the eviction that requested a removal, if one did: a move's eviction has the token of its
// placeholder.
func (v *Evictor) orderOf(r *removal) (*eviction, bool) {
	token, err := ledger.ParseToken(PlanToken(r.plan))
	if err != nil {
		return nil, false
	}
	e, ok := v.evictions[basis.Attempt{Pod: r.claim.PodUID, Token: token}]
	return e, ok
}

// newGeneration is the reason for refusing evictions that were decided before this generation of the ledger.
const newGeneration = "the ledger begins anew"

// Order handles a decision to evict.
func (v *Evictor) Order(key basis.Attempt, d events.Decision) {
	if _, known := v.evictions[key]; known {
		return
	}
	if !v.Holds(key.Pod) && len(v.evictions) >= v.Limits.Foreign {
		v.dropped++
		return
	}
	e := &eviction{key: key, order: d, since: v.Now, Pacing: basis.Pacing{Retry: v.Limits.Retry}}
	v.evictions[key] = e
	e.advance(v)
}

// Settled records that an outcome is in the log, from any binder. A claim that is in flight is given back
// once it is in the ledger.
func (v *Evictor) Settled(key basis.Attempt, failed bool) {
	if e, ok := v.evictions[key]; ok && !e.done {
		e.done = true
		e.failed = failed
		e.since = v.Now
		v.advancePlan(e.plan())
	}
}

// moves reports whether a place is kept for the replacement: then the eviction belongs to a plan, and must not happen
// without it.
func (e *eviction) moves() bool { return e.order.LedgerRevision > 0 }

// plan returns the id of the plan of a move.
func (e *eviction) plan() string { return ledger.PlanID(e.key.Token, false) }

// advance takes the next step of an order, if it is time. The order of the cases is that of their authority: what the
// ledger's generation and the order's own end forbid; facts that are older than the decision, which prove nothing; a
// pod that has left or ended; and then the claim on the pod, if there is one. An order for another binder's partition
// waits here for its outcome, or for the partition.
func (e *eviction) advance(v *Evictor) {
	if e.waits(v) {
		return
	}
	p, known, _ := v.Pod(e.key.Pod, 0)
	_, claim, claimed := v.Ledger.Plans().Victim(e.key.Pod)
	ours := claimed && PlanToken(claim.Plan) == e.key.Token.String()
	switch {
	case e.order.FactEpoch != 0 && e.order.FactEpoch <= v.Ledger.Generation().FactsAfter:
		e.finish(v, events.DecisionEvictRefused, newGeneration)
	case v.Ended(e.order.NotAfter) && !(ours && claim.State == ledger.Evicting) && known && !p.Deleting:
		e.finish(v, events.DecisionEvictRefused, fmt.Sprintf("not carried out by %s, when the order ended: it is %s here%s",
			e.order.NotAfter.Format(time.RFC3339), v.Now.UTC().Format(time.RFC3339), e.obstacle(v)))
	case !known && (v.Facts.Sequence < e.order.FactSequence || !v.Facts.PodProgressKnown):
		// The decision used later facts than this binder has, or the facts are being republished.
	case !known || p.Deleting:
		e.podLeft(v, known)
	case p.Terminal && e.awaited(v):
		e.podLeft(v, known)
	case p.Terminal:
		e.remove(v)
	case e.moves():
		e.move(v, claim)
	case ours && claim.Declined && claim.State != ledger.Evicting:
		e.finish(v, events.DecisionEvictRefused, "its eviction was requested, and no controller has carried it out")
	case ours:
		// Its removal continues.
	case claimed:
		e.finish(v, events.DecisionEvictRefused, "the pod is a victim of plan "+claim.Plan)
	default:
		e.claim(v, p)
	}
}

// obstacle returns the last problem of the order's own claim, as the end of a message; empty if there is none.
func (e *eviction) obstacle(v *Evictor) string {
	r, ok := v.removals[e.key.Pod]
	if !ok || r.problem == "" || PlanToken(r.plan) != e.key.Token.String() {
		return ""
	}
	return "; last answer: " + r.problem
}

// waits reports whether the eviction cannot go on yet: a call is on its way, a pause has not ended, the pod belongs to
// another binder, or this binder's facts or ledger have not come as far as those of the decision.
func (e *eviction) waits(v *Evictor) bool {
	if e.done || e.op != 0 || v.Facts.Cluster == nil || v.Now.Before(e.Due) || !v.MayAct(e.key.Pod) {
		return true
	}
	return v.Ledger.Revision() == 0 || v.Ledger.Revision() < e.order.LedgerRevision
}

// awaited reports whether the pod's eviction was requested of another controller, which may end the pod instead of
// deleting it: KubeVirt does so after a migration.
func (e *eviction) awaited(v *Evictor) bool {
	r, ok := v.removals[e.key.Pod]
	return ok && (r.request.made || !r.request.since.IsZero())
}

// podLeft concludes an eviction whose pod is being deleted, has ended as requested, or is gone. If the eviction was
// sent from here, its answer decides whether it is the cause: the facts may be faster.
func (e *eviction) podLeft(v *Evictor, known bool) {
	r, ok := v.removals[e.key.Pod]
	switch {
	case ok && r.op != 0:
		e.Pause(v.Now) // the answer concludes it, or says nothing
	case ok && r.sent:
		e.finish(v, events.DecisionEvicted, "")
	case known:
		e.finish(v, events.DecisionEvicted, "the pod was being deleted already")
	default:
		e.finish(v, events.DecisionEvicted, "the pod was gone already")
	}
}

// remove evicts a pod that has ended. Such a pod takes no room and counts in no budget, so nothing is claimed for it:
// its claim would be dropped at once, like that of a pod that has left. If it is sent twice, the second call finds
// the pod gone.
func (e *eviction) remove(v *Evictor) {
	e.op = v.begin(e)
	v.Emit(effect.Evict{
		Op: e.op, Pod: e.order.Pod, GracePeriodSeconds: e.order.GracePeriodSeconds,
		Strategy: e.order.Strategy, TraceParent: e.order.TraceParent,
		Reason: e.order.Message, RequestedBy: requestedByDescheduler,
	})
}

// removed handles the answer to remove.
func (e *eviction) removed(v *Evictor, a effect.Answered) {
	switch a.Result {
	case effect.Done, effect.Gone:
		e.finish(v, events.DecisionEvicted, "")
	case effect.Unknown:
		e.Pause(v.Now)
	default:
		e.finish(v, events.DecisionEvictRefused, a.Problem)
	}
}

// move hands the eviction to the plan that keeps the place, or refuses it because another pod has the place, or none
// is kept any more.
func (e *eviction) move(v *Evictor, claim ledger.Entry) {
	_, _, kept := v.Ledger.Plans().Owner(e.plan())
	if claim.Plan != e.plan() || !kept && claim.State != ledger.Evicting {
		e.finish(v, events.DecisionEvictRefused, "no place is kept for its replacement any more")
		return
	}
	v.advancePlan(e.plan())
}

// claim claims a running pod. A pod that two budgets cover is not tried, because the API server always answers 500.
func (e *eviction) claim(v *Evictor, p *state.Pod) {
	rooms := v.Facts.Cluster.BudgetsOf(p, v.Ledger)
	n, onNode := v.Facts.Cluster.NodeByName(p.NodeName)
	switch {
	case len(rooms) > 1:
		e.finish(v, events.DecisionEvictRefused,
			"more than one disruption budget covers the pod, which the eviction API does not support")
		return
	case !onNode:
		e.finish(v, events.DecisionEvictRefused, fmt.Sprintf("the pod runs on no node that is known (%q)", p.NodeName))
		return
	}
	victim := ledger.Entry{
		PodUID: p.UID, Namespace: p.Namespace, Name: p.Name, Priority: p.Priority, PodRV: p.ResourceVersion,
		NotAfter: e.order.NotAfter,
	}
	for _, r := range rooms {
		victim.Budgets = append(victim.Budgets, r.Doc.UID)
	}
	doc := v.Ledger.Open(n.UID, n.Name, n.ResourceVersion)
	change, err := txns.ClaimEviction(txns.SoleEviction{
		Token: e.key.Token, Sender: v.ID, Doc: doc, Budgets: rooms, Facts: v.Base,
		Victim: txns.NodeEntry{NodeUID: n.UID, Entry: victim, Request: p.EvictsByRequest()},
	})
	var behind *txns.RefusedError
	switch {
	case errors.As(err, &behind):
		e.Pause(v.Now)
	case err != nil:
		e.finish(v, events.DecisionEvictRefused, err.Error())
	default:
		e.op = v.amend(e, change, "evict-claim")
	}
}

// answered handles the end of the claim, or of the eviction of a pod that has ended. A claim that was applied is in the
// view by now, and Follow has made its removal.
func (e *eviction) answered(v *Evictor, in effect.Input) {
	e.op = 0
	if e.void && !e.done {
		e.refuse(v)
		return
	}
	if a, ok := in.(effect.Answered); ok {
		e.removed(v, a)
		return
	}
	if a, ok := in.(effect.Amended); ok && a.Result != effect.Applied {
		if a.Result == effect.Lost {
			e.Retry = v.Limits.Retry // another claim succeeded: among many claims of one node that is no sign of trouble
		}
		e.Pause(v.Now) // and then evaluate the view again, which has what won
		return
	}
	if r, ok := v.removals[e.key.Pod]; ok {
		r.advance(v)
	}
}

// AdvanceOrders tries to advance the orders that wait.
func (v *Evictor) AdvanceOrders() {
	var waiting []basis.Attempt
	for k, e := range v.evictions {
		if !e.done && e.op == 0 {
			waiting = append(waiting, k)
		}
	}
	slices.SortFunc(waiting, basis.Attempt.Compare)
	for _, k := range waiting {
		v.evictions[k].advance(v)
	}
}

// Forget drops the orders whose outcome can no longer matter.
func (v *Evictor) Forget() {
	for k, e := range v.evictions {
		r, claimed := v.removals[k.Pod]
		going := claimed && PlanToken(r.plan) == k.Token.String() // its outcome has yet to be reported
		if e.op == 0 && !going && v.Now.Sub(e.since) > v.Limits.EvictionMemory {
			delete(v.evictions, k)
		}
	}
}

// refuse ends an eviction that was decided before this generation of the ledger; another binder's is forgotten.
func (e *eviction) refuse(v *Evictor) {
	if v.Holds(e.key.Pod) {
		e.finish(v, events.DecisionEvictRefused, newGeneration)
		return
	}
	delete(v.evictions, e.key)
}

// finish publishes the outcome, once.
func (e *eviction) finish(v *Evictor, kind events.DecisionKind, message string) {
	if e.done {
		return
	}
	e.done = true
	e.failed = kind == events.DecisionEvictRefused
	e.since = v.Now
	d := e.order
	d.Kind, d.Message = kind, message
	v.Publish(d)
	e.report(v, message)
}

// reporter is the component in whose name evictions of the descheduler are reported. It is upstream's, as is the rest
// of the event except for the end of its note, so that tools that look for upstream's events find Berth's.
const reporter = "sigs.k8s.io.descheduler"

// report emits an event for an eviction that was carried out or, if the policy asks for it, that failed. (Upstream
// pkg/descheduler/evictions EvictPod.) There is no event for a pod that left by itself.
func (e *eviction) report(v *Evictor, message string) {
	r := effect.Report{
		Pod: e.order.Pod, SchedulerName: reporter, Action: "Descheduled",
		Note: fmt.Sprintf("pod eviction from %s node by berth descheduler", e.order.NodeName),
	}
	switch {
	case e.failed && e.order.EventOnFailure:
		r.Type = "Warning"
		r.Reason = "EvictionFailed"
		r.Note += " failed: " + message
	case e.failed || message != "":
		return
	default:
		r.Type = "Normal"
		r.Reason = cmp.Or(e.order.Strategy, "NotSet")
		r.Note += ", " + e.order.Message
	}
	v.Emit(r)
}
