package decide

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
)

// RuleBudgets is the rule name with which Enforces reports whether a profile respects disruption budgets when it
// preempts. Victims of a profile that does not are deleted, as in kube-scheduler.
const RuleBudgets = "DisruptionBudgets"

// removalStep is the purpose of a removal's effect in flight.
type removalStep uint8

const (
	// seeing means that the pod is read: before anything that could spend from its budget, and after an eviction that
	// got no answer.
	seeing removalStep = iota + 1
	// rehearsing is the dry run, which checks the budget without spending from it.
	rehearsing
	// labelling means that the pod gets the condition that explains why it is deleted.
	labelling
	// sending is the eviction itself.
	sending
	// asking means that its budgets are read, because all evictions have failed.
	asking
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
	// since is when the claim was first seen in its present form. left means that it has left the ledger.
	since time.Time
	left  bool

	op   OpID
	step removalStep
	pacing
	attempts
}

// attempts is what this binder knows about the evictions of one victim.
type attempts struct {
	// cleared means that since the last eviction the pod was read and, if one is required, a dry run succeeded.
	cleared bool
	// labelled means that the condition was written, or cannot be.
	labelled bool
	// sent means that evictions were sent, and told that their success is in the log. leaves means that the API
	// server has reported the pod as leaving or gone: the facts will show it, and nothing is left to do.
	sent, told, leaves bool
	// open is when the last eviction that may still be in flight was answered or found; zero without one.
	open time.Time
	// failures counts the refusals in a row, and problem is the last one.
	failures int
	problem  string
	// returning means that the claim is being given back; nothing is sent until it has been.
	returning bool
	// budgetRV is the highest resourceVersion of the budgets as read after the refusals, and asked how many of them
	// have been read.
	budgetRV uint64
	asked    int
}

// newRemoval begins with a claim as found. If another binder was responsible for sending its evictions, it is not
// known what was sent; this binder has sent nothing without knowing of the claim.
func newRemoval(c *Core, nodeUID string, claim ledger.Entry) *removal {
	r := &removal{nodeUID: nodeUID, plan: claim.Plan, claim: claim, since: c.now, pacing: pacing{retry: c.limits.Retry}}
	if claim.State == ledger.Evicting && claim.Shard != c.id {
		r.sent, r.open = true, c.now
	}
	return r
}

// follow adopts the present form of the claim.
func (r *removal) follow(c *Core, now ledger.Entry) {
	before := r.claim
	r.claim = now
	if before.State == now.State && before.Shard == now.Shard {
		return
	}
	known := r.attempts
	r.since = c.now
	r.attempts = attempts{}
	r.pacing = pacing{retry: c.limits.Retry}
	switch {
	case now.State != ledger.Evicting:
		if before.Shard == c.id && known.failures >= r.tries(c) {
			c.refused(r, known.problem)
		}
	case before.State != ledger.Evicting && now.State == ledger.Evicting && now.Shard == c.id:
		r.cleared = known.cleared // this binder's own mark: nothing has been sent
	default:
		r.sent, r.open = true, c.now
	}
}

func (r *removal) ref() events.PodRef {
	return events.PodRef{UID: r.claim.PodUID, Namespace: r.claim.Namespace, Name: r.claim.Name}
}

// actsFor returns the pod whose partition's holder evicts the victim: the pod that has the place it is cleared for,
// or the victim itself if there is none.
func (r *removal) actsFor(c *Core) (uid string, wanted bool) {
	ended := c.ended(r.claim.NotAfter)
	if _, owner, ok := c.planOwner(r.plan); ok {
		return owner.PodUID, !ended && (owner.Role != ledger.RoleMove || c.wantsMove(r.plan, owner, r.claim))
	}
	// A refusal is reported after the claim has been given back: while the claim exists, its eviction is still wanted
	// by its requester.
	e, asked := c.askedFor(r)
	return r.claim.PodUID, !ended && ledger.IsEviction(r.plan) && (!asked || !e.done)
}

// ended reports whether an order with the given NotAfter has ended.
func (c *Core) ended(notAfter time.Time) bool { return !notAfter.IsZero() && !c.now.Before(notAfter) }

// needed reports whether the pod for which the victim is evicted still waits for its place, by the facts. If it does
// not, its shard gives the plan up; until then no pod is evicted for it.
func (r *removal) needed(c *Core) bool {
	_, owner, ok := c.planOwner(r.plan)
	return !ok || owner.Role == ledger.RoleMove || c.mayStillPlace(owner)
}

// tries returns how many refusals in a row are final. The requester of a single eviction has other pods to choose
// from; a plan has only this victim.
func (r *removal) tries(c *Core) int {
	if _, owner, ok := c.ledger.PlanOwner(r.plan); ledger.IsEviction(r.plan) || ok && owner.Role == ledger.RoleMove {
		return 1
	}
	return c.limits.EvictionTries
}

// advance takes the next step, if nothing is in flight and it is time.
func (r *removal) advance(c *Core) {
	if r.op != 0 || r.left || c.facts.Cluster == nil || c.now.Before(r.due) {
		return
	}
	uid, wanted := r.actsFor(c)
	if !c.mayAct(uid) {
		return
	}
	switch {
	case c.fate(r.claim) != ledger.Staying:
		r.tellGone(c)
	case r.claim.State != ledger.Evicting:
		if wanted && !r.leaves && !r.clear(c) {
			r.rehearse(c)
		}
	case r.claim.Shard != c.id:
		if c.now.Sub(r.since) > c.limits.Idle {
			r.takeOver(c)
		}
	default:
		r.carryOn(c, wanted)
	}
}

// carryOn handles a victim whose evictions this binder has to send.
func (r *removal) carryOn(c *Core, wanted bool) {
	failed := !wanted || r.failures >= r.tries(c)
	switch {
	case r.leaves:
	case r.returning || failed && !r.underWay(c):
		r.giveBack(c)
	case !wanted || !r.needed(c):
		// The plan was given up, or will be; an eviction that was sent may still arrive.
	case !r.clear(c):
		r.rehearse(c)
	case !r.maySend(c):
		r.confirm(c)
	case r.deletes(c) && !r.labelled:
		r.label(c)
	default:
		r.send(c)
	}
}

// underWay reports whether an eviction may still arrive.
func (r *removal) underWay(c *Core) bool {
	return !r.open.IsZero() && c.now.Sub(r.open) <= c.limits.EvictionHang
}

// covered reports whether a budget is checked for the pod.
func (r *removal) covered(c *Core) bool { return len(r.claim.Budgets) > 0 && !r.deletes(c) }

// deletes reports whether the plan's profile respects budgets only as a preference, so that the victim is deleted.
func (r *removal) deletes(c *Core) bool {
	_, owner, ok := c.ledger.PlanOwner(r.plan)
	return ok && owner.Role == ledger.RoleReservation && !c.enforces(owner.SchedulerName, RuleBudgets)
}

// clear reports whether no check is needed before the eviction. An eviction that was sent is not repeated without a
// read of the pod.
func (r *removal) clear(c *Core) bool {
	return r.cleared || !r.covered(c) && !r.sent
}

// maySend reports whether this binder may evict for the claim, by what the ledger has shown recently.
func (r *removal) maySend(c *Core) bool {
	d, ok := c.docs[r.nodeUID]
	return ok && !r.left && r.claim.State == ledger.Evicting && r.claim.Shard == c.id &&
		c.now.Sub(d.vouched) <= c.limits.EvictWithin
}

// moot reports whether an eviction that waits for a worker must not be begun any more.
func (r *removal) moot(c *Core) bool {
	uid, wanted := r.actsFor(c)
	return !wanted || !r.needed(c) || !c.mayAct(uid) || !r.maySend(c)
}

// confirm reads the claim's document, unless a transaction is in flight whose answer shows it.
func (r *removal) confirm(c *Core) {
	if p, ok := c.plans[r.plan]; ok && p.op != 0 {
		return
	}
	if e, ok := c.askedFor(r); ok && e.op != 0 {
		return
	}
	c.emit(ReadDoc{Op: r.begin(c, confirming), NodeUID: r.nodeUID})
}

// confirmed continues if the view has the version that was read, and waits if the view is behind.
func (r *removal) confirmed(c *Core, in DocRead) {
	known, ok := c.ledger.Doc(r.nodeUID)
	if r.left {
		return
	}
	if in.Problem != "" || in.Doc == nil || !ok || known.Revision < in.Doc.Revision {
		c.pace(&r.pacing)
		return
	}
	r.advance(c)
}

func (r *removal) begin(c *Core, s removalStep) OpID {
	r.op, r.step = c.start(r), s
	return r.op
}

// rehearse reads the pod; the dry run follows.
func (r *removal) rehearse(c *Core) {
	c.emit(ReadPod{Op: r.begin(c, seeing), Pod: r.ref()})
}

// label writes the condition that explains to users why the pod is deleted, as kube-scheduler does before it deletes
// a victim (framework/preemption/executor.go). The eviction API writes its own condition, with the reason
// EvictionByEvictionAPI, over any other; so an eviction needs none of the binder's.
func (r *removal) label(c *Core) {
	r.labelled = true
	preemptor, _, ok := c.preemptor(r.plan)
	victim, known, _ := c.pod(r.claim.PodUID, r.claim.PodRV)
	if !ok || !known {
		r.advance(c)
		return
	}
	c.emit(PatchCondition{Op: r.begin(c, labelling), Pod: r.ref(), Condition: corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler,
		Message:            preemptor.SchedulerName + ": preempting to accommodate a higher priority pod",
		ObservedGeneration: victim.Generation(), LastTransitionTime: metav1.NewTime(c.now), LastProbeTime: metav1.Time{},
	}})
}

func (r *removal) send(c *Core) {
	r.cleared, r.sent = false, true
	r.evict(c, sending)
}

func (r *removal) evict(c *Core, s removalStep) {
	out := Evict{Op: r.begin(c, s), Pod: r.ref(), DryRun: s == rehearsing, Delete: r.deletes(c), Strategy: r.purpose(c)}
	if s == sending {
		out.NotAfter = c.docs[r.nodeUID].vouched.Add(c.limits.EvictWithin + c.limits.Call)
	}
	if p, _, ok := c.preemptor(r.plan); ok {
		out.For = p.UID
	}
	if e, ok := c.askedFor(r); ok {
		out.GracePeriodSeconds = e.asked.GracePeriodSeconds
		out.Strategy = e.asked.Strategy
		out.TraceParent = e.asked.TraceParent
	}
	c.emit(out)
}

// purpose returns the strategy of an eviction for which no requester is known.
func (r *removal) purpose(c *Core) string {
	if _, owner, ok := c.ledger.PlanOwner(r.plan); ok && owner.Role == ledger.RoleMove {
		return "move"
	}
	return "preemption"
}

func (r *removal) answered(c *Core, in Input) {
	s := r.step
	r.op, r.step = 0, 0
	switch in := in.(type) {
	case Answered:
		if !r.left {
			r.called(c, in, s)
			return
		}
		if s == sending && in.Result == Done {
			r.tellDone(c)
		}
	case Amended:
		r.amended(c, in)
	case DocRead:
		r.confirmed(c, in)
	case Untaken:
		r.untaken(c)
	}
}

// untaken handles an eviction that was not begun. That it counts as sent only causes another read of the pod. The
// worker also checks the wall clock, by which the claim may have been vouched for too long ago where it is not by
// c.now: only another read of the claim gives the next eviction time by both clocks.
func (r *removal) untaken(c *Core) {
	if d, ok := c.docs[r.nodeUID]; ok {
		d.vouched = time.Time{}
	}
	c.pace(&r.pacing)
}

func (r *removal) called(c *Core, a Answered, s removalStep) {
	switch s {
	case seeing:
		r.seen(c, a)
	case rehearsing:
		r.rehearsed(c, a)
	case labelling:
		r.advance(c) // whatever the answer: a condition delays nothing
	case sending:
		r.evicted(c, a)
	case asking:
		r.budgetRead(c, a)
	}
}

func (r *removal) seen(c *Core, a Answered) {
	uid, wanted := r.actsFor(c)
	switch {
	case a.Result == Gone, a.Result == Done && a.Pod.Deleting:
		r.leaves = true
	case a.Result != Done:
		c.pace(&r.pacing)
	case !wanted || !c.mayAct(uid):
	case r.covered(c):
		r.evict(c, rehearsing)
	default:
		r.cleared = true
		r.proceed(c)
	}
}

func (r *removal) rehearsed(c *Core, a Answered) {
	switch a.Result {
	case Done:
		r.cleared = true
		r.proceed(c)
	case Gone:
		r.leaves = true
	case Unknown:
		c.pace(&r.pacing)
	default:
		r.failed(c, "dry run: "+a.Problem)
	}
}

// proceed continues with the victim, or with its plan, which waits for all victims.
func (r *removal) proceed(c *Core) {
	if p, ok := c.plans[r.plan]; ok && r.claim.State != ledger.Evicting {
		p.advance(c)
		return
	}
	r.advance(c)
}

func (r *removal) evicted(c *Core, a Answered) {
	switch a.Result {
	case Done:
		r.leaves = true
		r.tellDone(c)
	case Gone:
		r.leaves = true
	case Unknown:
		r.open = c.now
		c.pace(&r.pacing)
	default:
		r.failed(c, a.Problem)
	}
}

// failed counts a refusal. Whether the last one is final depends on what is in flight.
func (r *removal) failed(c *Core, problem string) {
	r.failures, r.problem = r.failures+1, problem
	c.pace(&r.pacing)
	if r.claim.State != ledger.Evicting && r.failures >= r.tries(c) {
		r.attempts, r.retry = attempts{}, c.limits.Retry
		c.refused(r, problem)
	}
}

// tellDone reports an eviction that was carried out, once.
func (r *removal) tellDone(c *Core) {
	if r.told {
		return
	}
	r.told = true
	r.conclude(c, events.DecisionEvicted, "")
	r.preempted(c)
}

// tellGone reports a victim that is leaving after evictions of this binder without a known outcome.
func (r *removal) tellGone(c *Core) {
	if r.claim.State == ledger.Evicting && r.claim.Shard == c.id && r.sent {
		r.tellDone(c)
	}
}
