package preempt

import (
	"slices"

	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/scheduler/decide/advice"
	"github.com/berth-scheduler/berth/services/scheduler/decide/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/decide/budgets"
	"github.com/berth-scheduler/berth/services/scheduler/decide/crossnode"
	"github.com/berth-scheduler/berth/services/scheduler/decide/failures"
	"github.com/berth-scheduler/berth/services/scheduler/decide/lifecycle"
	"github.com/berth-scheduler/berth/services/scheduler/decide/search"
	"github.com/berth-scheduler/berth/services/scheduler/decide/shard"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
	"github.com/berth-scheduler/berth/services/scheduler/decide/txn"
)

// Deps are the parts of a shard that preemption works with. All are required, and shared with the rest of the core.
// Where they call preemption, package decide has passed them a function or an interface (advice.Plans).
type Deps struct {
	Life       *lifecycle.Attempts
	Slot       *txn.Slot
	Rules      *crossnode.Rules
	Terms      *crossnode.Terms
	Search     *search.Searcher
	Consults   *advice.Consults
	Performing *advice.Plugins
}

// Preemption places pods for which others must be evicted, or a place is kept. It owns the attempts that fit
// nowhere, until they have a plan or end with their verdict, and combines the parts that make and complete plans.
// The zero value is of no use; see New. For one goroutine.
type Preemption struct {
	shard    *shard.State
	attempts *attempt.Queues
	effects  *step.Effects
	life     *lifecycle.Attempts
	slot     *txn.Slot
	rules    *crossnode.Rules
	terms    *crossnode.Terms

	// Holds are the places that are held for pods of the shard, Places those that are kept for the replacements of
	// moved pods.
	Holds  *Holds
	Places *Places

	reconciler *reconciler
	nominator  *nominator
	failures   *failures.Memory
	budgets    *budgets.Book

	// MayBeBound reports whether one of the pods that seem to wait may have been bound: gangs.Former.MayBeBound.
	MayBeBound func([]*state.Pod) bool

	// preemptionOrder is the number of the attempt that was lined up last; numbers break ties of priority. retried
	// is the index of the next waiting one to try again.
	preemptionOrder uint64
	retried         int
}

// New returns the preemption of a shard that holds no place. Holds, failures and budgets are shared by the parts:
// each is changed by its own methods only.
func New(d Deps) *Preemption {
	s := d.Life.Shard
	h := newHolds(s)
	h.failures = &failures.Memory{Shard: s, Changed: h.protect}
	h.budgets, h.performing = &budgets.Book{Shard: s}, d.Performing
	p := &Preemption{
		shard: s, attempts: d.Life.Attempts, effects: d.Life.Record.Effects, life: d.Life,
		slot: d.Slot, rules: d.Rules, terms: d.Terms, Holds: h, failures: h.failures, budgets: h.budgets,
	}
	p.Places = &Places{
		shard: s, attempts: d.Life.Attempts, record: d.Life.Record, life: d.Life, rules: d.Rules, terms: d.Terms,
		search: d.Search, holds: h,
	}
	p.reconciler = &reconciler{
		shard: s, attempts: d.Life.Attempts, record: d.Life.Record, effects: d.Life.Record.Effects, life: d.Life,
		slot: d.Slot, rules: d.Rules, terms: d.Terms, search: d.Search,
		consults: d.Consults, performing: d.Performing, holds: h, failures: h.failures, budgets: h.budgets,
	}
	p.nominator = &nominator{
		shard: s, attempts: d.Life.Attempts, record: d.Life.Record, effects: d.Life.Record.Effects, life: d.Life,
		slot: d.Slot, rules: d.Rules, terms: d.Terms, search: d.Search,
		consults: d.Consults, holds: h, failures: h.failures, budgets: h.budgets, places: p.Places,
	}
	return p
}

// ReleaseUnfit notes the kept places in which the pod of an attempt did not fit, once that pod is placed elsewhere:
// one of them will not be needed.
func (p *Preemption) ReleaseUnfit(a *attempt.Attempt) { p.reconciler.releaseUnfit(a) }

// HoldPlace implements advice.Plans: plugins have work left before the bind of a pod whose place is now held.
func (p *Preemption) HoldPlace(d *attempt.PluginBinding) { p.Holds.holdPlace(d) }

// Prepared implements advice.Plans: plugins have ended that work, well or badly. The hold becomes due.
func (p *Preemption) Prepared(d *attempt.PluginBinding) { p.Holds.prepared(d) }

// Vetted implements advice.Plans: extenders have answered whether a pod may have its held place.
func (p *Preemption) Vetted(plan string, advice step.Advice) { p.Holds.vetted(plan, advice) }

// Expire ends what lasts only for a while, and makes every hold due. It runs with the heartbeat, so that all of this
// is at most one heartbeat late; an attempt that fails in between is retried after its backoff. Budgets with claims
// are read again, as what they have left depends on the progress of the facts too.
func (p *Preemption) Expire() {
	p.reconciler.secondChecks = secondChecksPerBeat
	p.budgets.RereadClaims()
	p.failures.Expire()
	if !p.slot.Busy() && p.attempts.Count(attempt.Staged, attempt.Reserving) == 0 {
		p.life.ForgetReturned() // nothing is staged that could have counted them
	}
	p.retrySeekers()
	p.Holds.allDue()
}

// Propose sends the next change of a plan, if there is any, and returns true if it was sent. The slot must be free.
// Holds come first, in the order of their pods' UIDs: room that has become free, or is held for nothing, is worth
// more than the next plan. Releases of kept places follow, then the search for victims, which is the most expensive.
func (p *Preemption) Propose() bool {
	if p.shard.Draining || !p.shard.Usable() {
		return false
	}
	return p.reconciler.reconcile() || p.reconciler.releaseOne() || p.seek()
}

// Quiet reports whether no attempt should be staged: a promotion waits until no pod is staged that its rules would
// count. It holds until the next call of Propose.
func (p *Preemption) Quiet() bool { return p.reconciler.quiet }

// Drain makes plugins take back the work that this shard will not complete. The holds stay in the ledger for the
// next owner of their partitions.
func (p *Preemption) Drain() { p.reconciler.drain() }

// seeksPerStep bounds how many attempts one step considers for preemption: a decision from scratch takes
// milliseconds on a large cluster, and facts and answers wait during a step.
const seeksPerStep = 16

const (
	// maxUnbegun is how many plans of a shard may wait for binders to begin their evictions. An attempt that needs a
	// further plan waits with its offer: it is decided later, on the state at that time, while a plan that only
	// waits ages until it is given up. The bound is larger than the number of evictions that all binders send at
	// once, so that binders never wait for plans.
	maxUnbegun = 64
	// maxSeekers is how many attempts wait in that way; further ones are parked. retriesPerBeat is how many of them
	// one heartbeat tries again, at a cost of microseconds each.
	maxSeekers     = 2048
	retriesPerBeat = 64
)

// Reject concludes an attempt that fits nowhere, or makes it wait until the pods that it counted are settled. It
// implements advice.Plans.
func (p *Preemption) Reject(r attempt.Rejection) {
	if r.Withdrawn != p.life.Withdrawn || slices.ContainsFunc(r.Counted, p.shard.View.IsStaged) {
		r.Attempt.Verdict = &r
		p.attempts.Reject(r.Attempt)
		return
	}
	p.conclude(r)
}

// Settle concludes the rejected attempts whose counted pods have all been reserved. Attempts with a counted pod that
// was withdrawn are decided again, in their order and before all other pending ones: the room of that pod is free,
// and no event will report it. It is called at the end of every step.
func (p *Preemption) Settle() {
	var again []*attempt.Attempt
	for _, a := range p.attempts.TakeAll(attempt.Rejected) {
		switch r := *a.Verdict; {
		case r.Withdrawn != p.life.Withdrawn:
			a.Advice.Forget()
			again = append(again, a)
		case slices.ContainsFunc(r.Counted, p.shard.View.IsStaged):
			p.attempts.Reject(a)
		default:
			p.conclude(r)
		}
	}
	p.attempts.Prepend(attempt.Pending, again...)
}

// conclude ends an attempt that certainly fits nowhere. If its profile has preemption, it is lined up for that
// first. No victims are sought for a pod that would fit if the held pods were already there (it waits for those),
// nor for pods of profiles whose custom plugins choose the node: they are not asked who may be evicted. With too
// many seekers the pod is parked, and woken by the events of DefaultPreemption.
func (p *Preemption) conclude(r attempt.Rejection) {
	profile, ok := p.shard.Profiles[r.Attempt.Pod.SchedulerName]
	switch {
	case r.DependsOnHolds:
	case r.Together && r.Gang == nil:
		// Victims of single members would be evicted before it is known whether the gang can be placed.
	case !ok || !profile.Preempts() || p.shard.Draining || profile.Custom() && advice.IsConsulted(profile, r.Attempt.Pod):
	case p.attempts.Count(attempt.Seeking) < maxSeekers:
		p.LineUp(r)
		return
	default:
		r.WakeOn(names.DefaultPreemption)
	}
	if ok {
		keepNomination(p.shard, profile, &r)
	}
	p.life.Unplaceable(r)
}

// LineUp makes a seeker wait for its turn. An attempt that is lined up again keeps its first number, so that it does
// not fall behind attempts of the same priority that came later. It implements advice.Plans.
func (p *Preemption) LineUp(r attempt.Rejection) {
	if r.Attempt.PreemptionOrder == 0 {
		p.preemptionOrder++
		r.Attempt.PreemptionOrder = p.preemptionOrder
	}
	r.Attempt.Verdict = &r
	p.attempts.Seek(r.Attempt)
}

// retrySeekers decides some of the attempts that wait for plans again, in turns: they may fit now without a plan.
// This is done only while no further plan is allowed; otherwise the next search finds out anyway.
func (p *Preemption) retrySeekers() {
	waiting := p.attempts.Count(attempt.Seeking)
	if waiting == 0 || p.Pending() {
		return
	}
	if p.retried >= waiting {
		p.retried = 0
	}
	end := min(p.retried+retriesPerBeat, waiting)
	again := p.attempts.TakeSeekers(p.retried, end)
	p.retried = end
	for _, a := range slices.Backward(again) {
		p.life.Requeue(a)
	}
}

// Pending reports whether attempts wait for a search for victims, and another plan is allowed. The core asks for
// another step while it is true.
func (p *Preemption) Pending() bool {
	return p.attempts.Count(attempt.Seeking) > 0 && p.Holds.unbegun < maxUnbegun
}

// seek considers attempts that fit nowhere for preemption, most important first, until one has a plan; true if a
// transaction has been sent. An attempt that gets none has left the phase Seeking: it ended, was deferred, or is
// pending.
func (p *Preemption) seek() bool {
	if !p.Pending() {
		return false
	}
	for n := 0; n < seeksPerStep && p.attempts.Count(attempt.Seeking) > 0; n++ {
		for _, a := range p.attempts.TakeSeekers(0, 1) {
			if p.seekFor(*a.Verdict) {
				return true
			}
		}
	}
	return false
}

// seekFor tries to place one attempt at others' cost; true if a transaction has been sent. The order goes from the
// ways that evict no pod to the one that does:
//
//  1. The verdict must still be valid: the pod unchanged and unreserved, the partition this shard's, no node behind.
//     Otherwise the attempt is decided again.
//  2. A pod for which plans keep failing gets none for a while.
//  3. A place that is kept for a less important pod (no transaction: the pod is staged).
//  4. A place that is held for a less important pod (T4).
//  5. New victims (T2).
//
// Steps 3 and 4 are left out for pods with claims and for pods about which extenders or plugins decide: it is not
// checked, or not asked, whether they fit in the place of another pod.
func (p *Preemption) seekFor(r attempt.Rejection) bool {
	if r.Gang != nil {
		return p.seekForGang(r)
	}
	a := r.Attempt
	s := seeker{by: p.nominator, Rejection: r, pod: a.Pod, profile: p.shard.Profiles[a.Pod.SchedulerName]}
	pod, known := p.shard.View.Pod(a.Offer.Pod.UID)
	_, _, reserved := p.shard.Ledger.Entry(a.Offer.Pod.UID)
	_, held := p.shard.Holds(a.Offer.Partition)
	if !known || pod != a.Pod || reserved || !held || p.terms.MustWait(a) || p.shard.View.Settle() > 0 {
		p.life.Requeue(a)
		return false
	}
	var err error
	if s.concern, err = p.rules.ConcernOf(pod, s.profile); err != nil {
		p.life.Fail(a, err.Error())
		return false
	}
	if s.concern.Uncertain {
		p.life.Defer(a)
		return false
	}
	p.effects.Plan(step.PlanReport{Event: step.PlanSearched, Pod: a.Offer.Pod})
	if no := p.failures.RefusesPod(pod, p.shard.Now); no.Why != "" {
		p.nominator.refusePlan(s, no)
		return false
	}
	if s.volumes, err = p.shard.Claims.SupplyFor(pod, s.profile); err != nil {
		p.life.Fail(a, err.Error())
		return false
	}
	if !p.shard.Claims.Available(s.volumes) {
		p.life.Defer(a)
		return false
	}
	if !s.volumes.Any() && !advice.IsConsulted(s.profile, s.pod) {
		if p.Places.displaceKept(s.Attempt, s.profile, &s.concern) {
			return false
		}
		if tried, sent := p.nominator.displace(s); tried {
			return sent
		}
	}
	return p.nominator.seekVictims(s)
}
