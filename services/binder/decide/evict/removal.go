package evict

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/services/binder/decide/basis"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// removalStep is the purpose of a removal's effect in flight.
type removalStep uint8

const (
	// readingPod means that the pod is read: before anything that could spend from its budget, and after an eviction that
	// got no answer.
	readingPod removalStep = iota + 1
	// dryRunning is the dry run, which checks the budget without spending from it.
	dryRunning
	// writingCondition means that the pod gets the condition that explains why it is deleted.
	writingCondition
	// sending is the eviction itself.
	sending
	// moveOrder means that its budgets are read, because all evictions have failed.
	readingBudget
	// amending means that its claim is taken over, or given back.
	amending
	// confirming means that its claim is read from the ledger, because the view may be late.
	confirming
)

// removal is the binder's view of the claim on one victim, and of its evictions.
//
// The eviction subresource spends from the budget before it checks the preconditions, and what a failed call has
// spent stays spent for two minutes. So a pod that a budget covers is read and dry-run before each eviction.
//
// Order: (mark, see plan) → condition, if it is deleted → eviction → outcome in the log and event. A crash after the
// mark leaves the mark, and the binder that takes over first writes its own name into the claim (TakeEviction). From
// then on only it could know that all evictions have failed; and it cannot, because its predecessor's may be in
// flight. Then it reads the pod and continues. The claim stays until the pod has left, or until every eviction since
// the mark was sent by this binder and refused (FailEviction): an eviction without an answer counts as in flight for
// Limits.EvictionHang.
//
// Conversely, this binder may be the one that was replaced: if it is cut off from the ledger, its view shows a claim
// that another binder has since taken over and given back. So an eviction is begun only within Limits.EvictWithin of
// a request to the ledger whose answer showed the claim; if that was longer ago, the document is read. What the watch
// delivers does not count: after an interruption it may be arbitrarily old. The call ends at most Limits.Call after
// that, even if it has waited for a worker or the process was suspended.
//
// An order of the descheduler ends at its NotAfter, which its claim carries for binders that have not seen the order.
// After that nothing is sent, and the claim is given back once nothing can be in flight any more.
type removal struct {
	claim   ledger.Entry
	nodeUID string
	plan    string
	// since is when the claim was first seen in its present form. claimGone means that it has left the
	// ledger.
	since     time.Time
	claimGone bool

	op   effect.OpID
	step removalStep
	basis.Pacing
	attempts
}

// attempts is this binder's record of the evictions of one victim.
type attempts struct {
	// cleared means that since the last eviction the pod was read and, if one is required, a dry run succeeded.
	cleared bool
	// conditionWritten means that the condition was written, or cannot be.
	conditionWritten bool
	// sent means that evictions were sent, and reported that their success is in the log. podLeaving means that the
	// API server has reported the pod as leaving or gone: the facts will show it, and nothing is left to do.
	sent, reported, podLeaving bool
	// unansweredAt is when the last eviction that may still be in flight was answered or found; zero without one.
	unansweredAt time.Time
	// failures counts the refusals in a row. problem is the last one, or the last answer that left the outcome open.
	failures int
	problem  string
	// returning means that the claim is being given back; nothing is sent until it has been.
	returning bool
	// budgetRV is the highest resourceVersion of the budgets as read after the refusals, and budgetsRead how many of
	// them have been read.
	budgetRV    uint64
	budgetsRead int
	request     request
}

// newRemoval begins with a claim as found. If another binder was responsible for sending its evictions, it is not
// known what was sent; this binder has sent nothing without knowing of the claim.
func newRemoval(v *Evictor, nodeUID string, claim ledger.Entry) *removal {
	r := &removal{
		nodeUID: nodeUID, plan: claim.Plan, claim: claim, since: v.Now, Pacing: basis.Pacing{Retry: v.Limits.Retry},
	}
	if claim.State == ledger.Evicting && claim.Shard != v.ID {
		inherit(v, r)
	}
	return r
}

// follow adopts the present form of the claim.
func (r *removal) follow(v *Evictor, now ledger.Entry) {
	before := r.claim
	r.claim = now
	if before.State == now.State && before.Shard == now.Shard {
		return
	}
	known := r.attempts
	r.since = v.Now
	r.attempts = attempts{problem: known.problem}
	r.Pacing = basis.Pacing{Retry: v.Limits.Retry}
	switch {
	case now.State != ledger.Evicting:
		if before.Shard == v.ID && known.failures >= r.maxTries(v) {
			v.refused(r, known.problem)
		}
	case before.State != ledger.Evicting && now.State == ledger.Evicting && now.Shard == v.ID:
		r.cleared, r.request = known.cleared, known.request // this binder's own mark: nothing has been sent
	default:
		inherit(v, r)
	}
}

// inherit assumes that another binder has sent the eviction, and that it may still arrive.
func inherit(v *Evictor, r *removal) {
	r.sent, r.unansweredAt = true, v.Now
	r.request.made = true
}

func (r *removal) ref() events.PodRef {
	return events.PodRef{UID: r.claim.PodUID, Namespace: r.claim.Namespace, Name: r.claim.Name}
}

// responsible returns the pod whose partition's holder evicts the victim: the pod that has the place it is cleared for,
// or the victim itself if there is none.
func (r *removal) responsible(v *Evictor) (uid string, wanted bool) {
	ended := v.Ended(r.claim.NotAfter)
	if _, owner, ok := planOwner(v.Base, r.plan); ok {
		return owner.PodUID, !ended && (owner.Role != ledger.RoleMove || v.moveDue(r.plan, owner, r.claim))
	}
	// A refusal is reported after the claim has been given back: while the claim exists, its eviction is still wanted
	// by its requester.
	e, asked := v.orderOf(r)
	return r.claim.PodUID, !ended && ledger.IsEviction(r.plan) && (!asked || !e.done)
}

// needed reports whether the pod for which the victim is evicted still waits for its place, by the facts. If it does
// not, its shard gives the plan up; until then no pod is evicted for it.
func (r *removal) needed(v *Evictor) bool {
	_, owner, ok := planOwner(v.Base, r.plan)
	return !ok || owner.Role == ledger.RoleMove || mayStillPlace(v.Base, owner)
}

// maxTries returns how many refusals in a row are final. The requester of a single eviction has other pods to choose
// from; a plan has only this victim.
func (r *removal) maxTries(v *Evictor) int {
	if _, owner, ok := v.Ledger.Plans().Owner(r.plan); ledger.IsEviction(r.plan) || ok && owner.Role == ledger.RoleMove {
		return 1
	}
	return v.Limits.EvictionTries
}

// advance takes the next step, if nothing is in flight and it is time.
func (r *removal) advance(v *Evictor) {
	if r.op != 0 || r.claimGone || v.Facts.Cluster == nil || v.Now.Before(r.Due) {
		return
	}
	uid, wanted := r.responsible(v)
	if !v.MayAct(uid) {
		return
	}
	switch {
	case v.Fate(r.claim) != txns.Staying:
		r.reportGone(v)
	case r.claim.State != ledger.Evicting:
		if wanted && !r.podLeaving && !r.checksDone(v) && !declined(v, r) {
			r.prepare(v)
		}
	case r.claim.Shard != v.ID:
		if v.Now.Sub(r.since) > v.Limits.Idle {
			r.takeOver(v)
		}
	case r.requested(v):
		r.await(v)
	default:
		r.continueEvicting(v, wanted)
	}
}

// continueEvicting handles a victim whose evictions this binder has to send.
func (r *removal) continueEvicting(v *Evictor, wanted bool) {
	failed := !wanted || r.failures >= r.maxTries(v) || declined(v, r)
	switch {
	case r.podLeaving:
	case r.returning || failed && !r.underWay(v):
		r.giveBack(v)
	case r.request.over:
		// It is given back when nothing can be under way any more.
	case !wanted || !r.needed(v):
		// The plan was given up, or will be; an eviction that was sent may still arrive.
	case !r.checksDone(v):
		r.prepare(v)
	case !r.maySend(v):
		r.confirm(v)
	case r.ignoresBudgets(v) && !r.conditionWritten:
		r.writeCondition(v)
	case inProgress(v, r):
		beginWait(v, r, "another client has requested it")
	default:
		r.send(v)
	}
}

// underWay reports whether an eviction may still arrive.
func (r *removal) underWay(v *Evictor) bool {
	return !r.unansweredAt.IsZero() && v.Now.Sub(r.unansweredAt) <= v.Limits.EvictionHang
}

// covered reports whether a budget is checked for the pod.
func (r *removal) covered(v *Evictor) bool { return len(r.claim.Budgets) > 0 && !r.ignoresBudgets(v) }

// ignoresBudgets reports whether the plan's profile respects budgets only as a preference, so that the victim is
// deleted.
func (r *removal) ignoresBudgets(v *Evictor) bool {
	_, owner, ok := v.Ledger.Plans().Owner(r.plan)
	return ok && owner.Role == ledger.RoleReservation && !v.Enforces(owner.SchedulerName, basis.RuleBudgets)
}

// checksDone reports whether no check is needed before the eviction. An eviction that was sent is not repeated without
// a read of the pod.
func (r *removal) checksDone(v *Evictor) bool {
	return r.cleared || !r.covered(v) && !r.sent
}

// maySend reports whether this binder may evict for the claim, by what the ledger has shown recently.
func (r *removal) maySend(v *Evictor) bool {
	vouched, ok := v.documents.Vouched(r.nodeUID)
	return ok && !r.claimGone && r.claim.State == ledger.Evicting && r.claim.Shard == v.ID &&
		v.Now.Sub(vouched) <= v.Limits.EvictWithin
}

// moot reports whether an eviction that waits for a worker must not be begun any more.
func (r *removal) moot(v *Evictor) bool {
	uid, wanted := r.responsible(v)
	return !wanted || !r.needed(v) || !v.MayAct(uid) || !r.maySend(v)
}

// confirm reads the claim's document, unless a transaction is in flight whose answer shows it.
func (r *removal) confirm(v *Evictor) {
	if p, ok := v.plans[r.plan]; ok && p.op != 0 {
		return
	}
	if e, ok := v.orderOf(r); ok && e.op != 0 {
		return
	}
	v.Emit(effect.ReadDoc{Op: r.begin(v, confirming), NodeUID: r.nodeUID})
}

// confirmed continues if the view has the version that was read, and waits if the view is behind.
func (r *removal) confirmed(v *Evictor, in effect.DocRead) {
	known, ok := v.Ledger.Doc(r.nodeUID)
	if r.claimGone {
		return
	}
	if in.Problem != "" || in.Doc == nil || !ok || known.Revision < in.Doc.Revision {
		r.Pause(v.Now)
		return
	}
	r.advance(v)
}

// begin registers the removal's next effect, which the caller emits.
func (r *removal) begin(v *Evictor, s removalStep) effect.OpID {
	r.op, r.step = v.begin(r), s
	return r.op
}

// prepare reads the pod; the dry run follows if it is required.
func (r *removal) prepare(v *Evictor) {
	v.Emit(effect.ReadPod{Op: r.begin(v, readingPod), Pod: r.ref()})
}

// writeCondition writes the condition that explains to users why the pod is deleted, as kube-scheduler does before it
// deletes a victim (framework/preemption/executor.go). The eviction API writes its own condition, with the reason
// EvictionByEvictionAPI, over any other; so an eviction needs none of the binder's.
func (r *removal) writeCondition(v *Evictor) {
	r.conditionWritten = true
	by, _, ok := preemptor(v.Base, r.plan)
	victim, known, _ := v.Pod(r.claim.PodUID, r.claim.PodRV)
	if !ok || !known {
		r.advance(v)
		return
	}
	v.Emit(effect.PatchCondition{Op: r.begin(v, writingCondition), Pod: r.ref(), Condition: corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: preemptionReason,
		Message:            by.SchedulerName + ": preempting to accommodate a higher priority pod",
		ObservedGeneration: victim.Generation(), LastTransitionTime: metav1.NewTime(v.Now), LastProbeTime: metav1.Time{},
	}})
}

// send emits the eviction. It counts as sent from here on, although no worker may have begun it; see untaken.
func (r *removal) send(v *Evictor) {
	r.cleared, r.sent = false, true
	r.evict(v, sending)
}

// evict emits the eviction or its dry run, with the options of the order that requested it, if one did. Only the
// eviction has a NotAfter: a dry run changes nothing, however late it is.
func (r *removal) evict(v *Evictor, s removalStep) {
	out := effect.Evict{
		Op: r.begin(v, s), Pod: r.ref(), DryRun: s == dryRunning, Delete: r.ignoresBudgets(v), Strategy: strategyOf(v, r),
	}
	if s == sending {
		vouched, _ := v.documents.Vouched(r.nodeUID)
		out.NotAfter = vouched.Add(v.Limits.EvictWithin + v.Limits.Call)
	}
	out.Request = requestOnly(v, r)
	out.Reason, out.RequestedBy = accountFor(v, r)
	if p, _, ok := preemptor(v.Base, r.plan); ok {
		out.Preemptor = p.UID
	}
	if e, ok := v.orderOf(r); ok {
		out.GracePeriodSeconds = e.order.GracePeriodSeconds
		out.Strategy = e.order.Strategy
		out.TraceParent = e.order.TraceParent
	}
	v.Emit(out)
}

// strategyMove is the strategy of a move whose order is not known.
const strategyMove = "move"

// preemptionReason is the reason of the condition with which kube-scheduler deletes a victim.
const preemptionReason = corev1.PodReasonPreemptionByScheduler

// strategyOf returns the strategy of an eviction for which no requester is known.
func strategyOf(v *Evictor, r *removal) string {
	if _, owner, ok := v.Ledger.Plans().Owner(r.plan); ok && owner.Role == ledger.RoleMove {
		return strategyMove
	}
	return "preemption"
}

// answered hands an answer to the step that waits for it. If the claim has left the ledger meanwhile, one answer still
// matters: an eviction that was carried out is reported.
func (r *removal) answered(v *Evictor, in effect.Input) {
	s := r.step
	r.op, r.step = 0, 0
	switch in := in.(type) {
	case effect.Answered:
		if !r.claimGone {
			r.callAnswered(v, in, s)
			return
		}
		if s == sending && in.Result == effect.Done {
			r.reportDone(v)
		}
	case effect.Amended:
		r.amended(v, in)
	case effect.DocRead:
		r.confirmed(v, in)
	case effect.NotStarted:
		r.untaken(v)
	}
}

// untaken handles an eviction that was not begun. That it counts as sent only causes another read of the pod. The
// worker also checks the wall clock, by which the claim may have been vouched for too long ago where it is not by
// v.Now: only another read of the claim gives the next eviction time by both clocks.
func (r *removal) untaken(v *Evictor) {
	v.documents.Distrust(r.nodeUID)
	r.Pause(v.Now)
}

// callAnswered handles the answer to a call to the API server.
func (r *removal) callAnswered(v *Evictor, a effect.Answered, s removalStep) {
	switch s {
	case readingPod:
		r.podRead(v, a)
	case dryRunning:
		r.dryRunAnswered(v, a)
	case writingCondition:
		r.advance(v) // whatever the answer: a condition delays nothing
	case sending:
		r.evicted(v, a)
	case readingBudget:
		r.budgetRead(v, a)
	}
}

// podRead continues after the pod was read. One that is leaving needs no eviction. Whether this binder's eviction is
// the cause is decided later, by the facts (reportGone). Another binder may have become responsible in the meantime;
// then nothing follows.
func (r *removal) podRead(v *Evictor, a effect.Answered) {
	uid, wanted := r.responsible(v)
	switch {
	case a.Result == effect.Gone, a.Result == effect.Done && a.Pod.Deleting:
		r.podLeaving = true
	case a.Result != effect.Done:
		r.Pause(v.Now)
	case !wanted || !v.MayAct(uid):
	default:
		r.request.read = a.Pod
		stays(v, r)
	}
}

// stays continues with a pod that stays, as it was read. One whose eviction can only be requested has no dry run. If
// the request may have been made, it is not made again.
func stays(v *Evictor, r *removal) {
	switch {
	case r.requested(v) && marked(v, r):
		r.await(v)
	case r.covered(v) && !requestOnly(v, r):
		r.evict(v, dryRunning)
	default:
		r.cleared = true
		r.proceed(v)
	}
}

// dryRunAnswered continues after the dry run. A refusal counts as a failed eviction.
func (r *removal) dryRunAnswered(v *Evictor, a effect.Answered) {
	switch a.Result {
	case effect.Done:
		r.cleared = true
		r.proceed(v)
	case effect.Gone:
		r.podLeaving = true
	case effect.Unknown:
		r.problem = "dry run: " + a.Problem
		r.Pause(v.Now)
	default:
		r.failed(v, "dry run: "+a.Problem)
	}
}

// proceed continues with the victim, or with its plan, which waits for all victims.
func (r *removal) proceed(v *Evictor) {
	if p, ok := v.plans[r.plan]; ok && r.claim.State != ledger.Evicting {
		p.advance(v)
		return
	}
	r.advance(v)
}

// evicted handles the answer to the eviction. Unknown opens the time in which it may still arrive. Gone is reported
// when the facts show it (reportGone).
func (r *removal) evicted(v *Evictor, a effect.Answered) {
	switch {
	case a.Result == effect.Done:
		r.podLeaving = true
		r.reportDone(v)
	case a.Result == effect.Gone:
		r.podLeaving = true
	case a.Intercepted && requestOnly(v, r):
		beginWait(v, r, a.Problem)
	case a.Result == effect.Unknown:
		r.unansweredAt, r.problem = v.Now, a.Problem
		r.request.made = true
		r.Pause(v.Now)
	default:
		r.failed(v, a.Problem)
	}
}

// failed counts a refusal. Whether the last one is final depends on what is in flight.
func (r *removal) failed(v *Evictor, problem string) {
	r.failures, r.problem = r.failures+1, problem
	r.Pause(v.Now)
	if r.claim.State != ledger.Evicting && r.failures >= r.maxTries(v) {
		r.attempts, r.Retry = attempts{}, v.Limits.Retry
		v.refused(r, problem)
	}
}
