package decide

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
)

// RuleBudgets is what Enforces is asked to learn whether a profile respects disruption budgets
// when it preempts. Victims of one that does not are deleted, as kube-scheduler does.
const RuleBudgets = "DisruptionBudgets"

// removalStep is what a removal's effect under way is for.
type removalStep uint8

const (
	// seeing: the pod is read, before anything that could spend from its budget, and after an
	// eviction that got no answer.
	seeing removalStep = iota + 1
	// rehearsing: the dry run, which asks the budget without spending.
	rehearsing
	// labelling: the pod gets the condition that tells why it goes.
	labelling
	// sending: the eviction itself.
	sending
	// asking: its budgets are read, because all evictions have failed.
	asking
	// amending: its claim is taken over, or goes back.
	amending
	// confirming: its claim is read from the ledger, because the picture may be late.
	confirming
)

// removal is the claim on one victim in the binder's eyes, and its evictions.
//
// The eviction subresource spends from the budget before it looks at the preconditions, and
// what a failed call has spent stays spent for two minutes. So a pod that a budget covers is
// read and tried dry before each eviction.
//
// Order: (mark, see plan) → condition, if it is deleted → eviction → outcome in the log and
// event. A crash after the mark leaves it, and the binder that takes over first writes its own name into the claim
// (TakeEviction): from then on it is the only one that could know that all evictions have
// failed, and it cannot, because those of its predecessor may be on their way. Then it looks at
// the pod and goes on. The claim stays until the pod has left, or until every eviction since
// the mark was sent by this binder and refused (FailEviction): an eviction without answer
// counts as under way for Limits.EvictionHang.
//
// The other way round, this binder may be the one that was replaced: cut off from the ledger, its picture shows a
// claim that another has taken over and given back since. So an eviction is begun only within
// Limits.EvictWithin of a request to the ledger whose answer showed the claim, and the document is read if that was
// longer ago. What the watch shows does not count: after a break it may be of any time. The call ends
// Limits.Call after that at the latest, also where it has waited for a worker or the process stood still.
//
// An order of the descheduler's ends at its NotAfter, which its claim carries for binders that have not heard it.
// After that nothing is sent, and the claim goes back once nothing can be on its way any more.
type removal struct {
	claim   ledger.Entry
	nodeUID string
	plan    string
	// since is when the claim was first seen as it is; left: it has left the ledger.
	since time.Time
	left  bool

	op   OpID
	step removalStep
	pacing
	attempts
}

// attempts is what this binder knows of the evictions of one victim.
type attempts struct {
	// cleared: the pod was seen, and a dry run succeeded if there has to be one, since the
	// last eviction.
	cleared bool
	// labelled: the condition was written, or cannot be.
	labelled bool
	// sent: evictions were sent; told: their success is in the log. leaves: the API server has
	// said that the pod is leaving or gone. The facts will show it, and nothing is left to do.
	sent, told, leaves bool
	// open is when the last eviction was sent that may still be under way; zero without one.
	open time.Time
	// failures counts the refusals in a row, problem is the last one.
	failures int
	problem  string
	// returning: the claim goes back, and nothing is sent until it has.
	returning bool
	// budgetRV is the highest resourceVersion of the budgets as read after the refusals, asked
	// how many of them have been read.
	budgetRV uint64
	asked    int
}

// newRemoval begins with a claim as found. If another binder was to send its evictions, nobody
// can tell what was sent; this one has sent nothing without knowing of the claim.
func newRemoval(c *Core, nodeUID string, claim ledger.Entry) *removal {
	r := &removal{nodeUID: nodeUID, plan: claim.Plan, claim: claim, since: c.now, pacing: pacing{retry: c.limits.Retry}}
	if claim.State == ledger.Evicting && claim.Shard != c.id {
		r.sent, r.open = true, c.now
	}
	return r
}

// follow takes over what the claim is now.
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
		r.cleared = known.cleared // our own mark: nothing has been sent
	default:
		r.sent, r.open = true, c.now
	}
}

func (r *removal) ref() events.PodRef {
	return events.PodRef{UID: r.claim.PodUID, Namespace: r.claim.Namespace, Name: r.claim.Name}
}

// actsFor is the pod whose partition's holder evicts the victim: that of the place it is
// cleared for, and without one the victim itself.
func (r *removal) actsFor(c *Core) (uid string, wanted bool) {
	ended := c.ended(r.claim.NotAfter)
	if _, owner, ok := c.planOwner(r.plan); ok {
		return owner.PodUID, !ended && (owner.Role != ledger.RoleMove || c.wantsMove(r.plan, owner, r.claim))
	}
	// A refusal is told after the claim has gone back: as long as it stands, its eviction is
	// wanted, by whoever asked for it.
	e, asked := c.askedFor(r)
	return r.claim.PodUID, !ended && ledger.IsEviction(r.plan) && (!asked || !e.done)
}

// ended reports whether an order with that NotAfter has ended.
func (c *Core) ended(notAfter time.Time) bool { return !notAfter.IsZero() && !c.now.Before(notAfter) }

// needed reports whether the pod that the victim goes for still waits for its place, as far as the facts show. Its
// shard gives the plan up if it does not; no pod is evicted for it meanwhile.
func (r *removal) needed(c *Core) bool {
	_, owner, ok := c.planOwner(r.plan)
	return !ok || owner.Role == ledger.RoleMove || c.mayStillPlace(owner)
}

// tries is how many refusals in a row are the end. Whoever asks for a single eviction has
// others to choose from; a plan has this one.
func (r *removal) tries(c *Core) int {
	if _, owner, ok := c.ledger.PlanOwner(r.plan); ledger.IsEviction(r.plan) || ok && owner.Role == ledger.RoleMove {
		return 1
	}
	return c.limits.EvictionTries
}

// advance does the next thing, if nothing is under way and it is time.
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

// carryOn is for a victim whose evictions are ours to send.
func (r *removal) carryOn(c *Core, wanted bool) {
	failed := !wanted || r.failures >= r.tries(c)
	switch {
	case r.leaves:
	case r.returning || failed && !r.underWay(c):
		r.giveBack(c)
	case !wanted || !r.needed(c):
		// The plan was given up, or will be; what was sent may arrive.
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

// underWay says whether an eviction may still arrive.
func (r *removal) underWay(c *Core) bool {
	return !r.open.IsZero() && c.now.Sub(r.open) <= c.limits.EvictionHang
}

// covered: a budget is asked about the pod.
func (r *removal) covered(c *Core) bool { return len(r.claim.Budgets) > 0 && !r.deletes(c) }

// deletes says whether the plan's profile takes budgets as a wish.
func (r *removal) deletes(c *Core) bool {
	_, owner, ok := c.ledger.PlanOwner(r.plan)
	return ok && owner.Role == ledger.RoleReservation && !c.enforces(owner.SchedulerName, RuleBudgets)
}

// clear says whether nothing has to be asked before the eviction. One that was sent is not
// repeated without a look at the pod.
func (r *removal) clear(c *Core) bool {
	return r.cleared || !r.covered(c) && !r.sent
}

// maySend reports whether the claim is this binder's to evict for, by what the ledger has shown of late.
func (r *removal) maySend(c *Core) bool {
	d, ok := c.docs[r.nodeUID]
	return ok && !r.left && r.claim.State == ledger.Evicting && r.claim.Shard == c.id &&
		c.now.Sub(d.vouched) <= c.limits.EvictWithin
}

// moot reports whether an eviction that waits for a worker is not to be begun any more.
func (r *removal) moot(c *Core) bool {
	uid, wanted := r.actsFor(c)
	return !wanted || !r.needed(c) || !c.mayAct(uid) || !r.maySend(c)
}

// confirm reads the claim's document, unless a transaction is under way whose answer shows it.
func (r *removal) confirm(c *Core) {
	if p, ok := c.plans[r.plan]; ok && p.op != 0 {
		return
	}
	if e, ok := c.askedFor(r); ok && e.op != 0 {
		return
	}
	c.emit(ReadDoc{Op: r.begin(c, confirming), NodeUID: r.nodeUID})
}

// confirmed goes on if the picture has what was read, and waits for the watch if that is behind.
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

// label writes the condition that tells users why the pod goes, as kube-scheduler does before
// it deletes a victim (framework/preemption/executor.go). The eviction API writes its own, with
// the reason EvictionByEvictionAPI, over whatever is there: an eviction needs none of ours.
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

// purpose is the strategy of an eviction that nobody, as far as is known, has asked for.
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

// untaken is for an eviction that was not begun; that it counts as sent only makes for another look at the pod. The
// worker goes by the wall's clock as well, which may say that the claim was vouched for too long ago where c.now does
// not: only another read of the claim gives the next eviction time by both.
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
		r.advance(c) // whatever the answer: a condition holds nothing up
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

// proceed goes on with the victim, or with its plan, which waits for all of them.
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

// failed counts a refusal. Whether the last one is the end depends on what is under way.
func (r *removal) failed(c *Core, problem string) {
	r.failures, r.problem = r.failures+1, problem
	c.pace(&r.pacing)
	if r.claim.State != ledger.Evicting && r.failures >= r.tries(c) {
		r.attempts, r.retry = attempts{}, c.limits.Retry
		c.refused(r, problem)
	}
}

// tellDone tells of an eviction that was carried out, once.
func (r *removal) tellDone(c *Core) {
	if r.told {
		return
	}
	r.told = true
	r.conclude(c, events.DecisionEvicted, "")
	r.preempted(c)
}

// tellGone tells of a victim that is leaving after evictions of ours without a known end.
func (r *removal) tellGone(c *Core) {
	if r.claim.State == ledger.Evicting && r.claim.Shard == c.id && r.sent {
		r.tellDone(c)
	}
}
