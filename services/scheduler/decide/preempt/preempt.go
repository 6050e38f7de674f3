package preempt

import (
	"slices"

	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/services/scheduler/decide/advice"
	"github.com/berth-scheduler/berth/services/scheduler/decide/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/decide/crossnode"
	"github.com/berth-scheduler/berth/services/scheduler/decide/lifecycle"
	"github.com/berth-scheduler/berth/services/scheduler/decide/search"
	"github.com/berth-scheduler/berth/services/scheduler/decide/shard"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
	"github.com/berth-scheduler/berth/services/scheduler/decide/txn"
)

// Deps are the parts of a shard that preemption works with.
type Deps struct {
	Life       *lifecycle.Attempts
	Slot       *txn.Slot
	Rules      *crossnode.Rules
	Terms      *crossnode.Terms
	Search     *search.Searcher
	Consults   *advice.Consults
	Performing *advice.Plugins
}

// Preemption combines the parts that place pods for which others must be evicted, or a place is kept.
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
	failures   *failures
	budgets    *budgetBook

	// preemptionOrder counts the attempts that were lined up for a plan; retried is the index of the next waiting one to try
	// again.
	preemptionOrder uint64
	retried         int
}

// New returns the preemption of a shard that holds no place.
func New(d Deps) *Preemption {
	s := d.Life.Shard
	h := newHolds(s)
	h.failures = &failures{shard: s, changed: h.protect}
	h.budgets, h.performing = &budgetBook{shard: s}, d.Performing
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

// ReleaseUnfit notes the places kept for the pod of an attempt that it did not take.
func (p *Preemption) ReleaseUnfit(a *attempt.Attempt) { p.reconciler.releaseUnfit(a) }

// HoldPlace implements plans.
func (p *Preemption) HoldPlace(d *attempt.PluginBinding) { p.Holds.holdPlace(d) }

// Prepared implements plans.
func (p *Preemption) Prepared(d *attempt.PluginBinding) { p.Holds.prepared(d) }

// Vetted implements plans.
func (p *Preemption) Vetted(plan string, advice step.Advice) { p.Holds.vetted(plan, advice) }

// Expire ends what lasts only for a while, and makes every hold due. It runs with the heartbeat, so that this is at
// most one heartbeat late: an attempt in between is retried after its backoff.
func (p *Preemption) Expire() {
	p.reconciler.secondChecks = secondChecksPerBeat
	p.budgets.stale = p.budgets.stale || p.budgets.claims
	p.failures.expire()
	if !p.slot.Busy() && p.attempts.Count(attempt.Staged, attempt.Reserving) == 0 {
		p.life.ForgetReturned() // nothing is staged that could have counted them
	}
	p.retrySeekers()
	p.Holds.allDue()
}

// Propose sends the next change of a plan, if there is any, and returns true if it was sent. Holds come first: room
// that has become free, or is held for nothing, is worth more than the next plan.
func (p *Preemption) Propose() bool {
	if p.shard.Draining || !p.shard.Usable() {
		return false
	}
	return p.reconciler.reconcile() || p.reconciler.releaseOne() || p.seek()
}

// Quiet reports whether no attempt should be staged: a promotion waits until no pod is staged that its rules would
// count.
func (p *Preemption) Quiet() bool { return p.reconciler.quiet }

// Drain makes plugins take back the work that this shard will not complete.
func (p *Preemption) Drain() { p.reconciler.drain() }

// seeksPerStep bounds how many attempts one step considers for preemption: a decision from scratch takes
// milliseconds on a large cluster.
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

// Reject concludes an attempt, or makes it wait until the pods that it counted are settled.
func (p *Preemption) Reject(r attempt.Rejection) {
	if r.Withdrawn != p.life.Withdrawn || slices.ContainsFunc(r.Counted, p.shard.View.IsStaged) {
		r.Attempt.Verdict = &r
		p.attempts.Reject(r.Attempt)
		return
	}
	p.conclude(r)
}

// Settle concludes the attempts whose counted pods have all been reserved. Attempts with a counted pod that was
// withdrawn are decided again.
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
// first.
func (p *Preemption) conclude(r attempt.Rejection) {
	profile, ok := p.shard.Profiles[r.Attempt.Pod.SchedulerName]
	switch {
	case r.DependsOnHolds:
	case !ok || !profile.Preempts() || p.shard.Draining || profile.Custom() && advice.IsConsulted(profile, r.Attempt.Pod):
	case p.attempts.Count(attempt.Seeking) < maxSeekers:
		p.LineUp(r)
		return
	default:
		r.WakeOn(names.DefaultPreemption)
	}
	p.life.Unplaceable(r)
}

// LineUp makes a seeker wait for its turn.
func (p *Preemption) LineUp(r attempt.Rejection) {
	if r.Attempt.PreemptionOrder == 0 {
		p.preemptionOrder++
		r.Attempt.PreemptionOrder = p.preemptionOrder
	}
	r.Attempt.Verdict = &r
	p.attempts.Seek(r.Attempt)
}

// retrySeekers retries some of the attempts that wait for plans, in turns: they may fit now.
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

// Pending reports whether attempts wait for a search for victims, and another plan is allowed.
func (p *Preemption) Pending() bool {
	return p.attempts.Count(attempt.Seeking) > 0 && p.Holds.unbegun < maxUnbegun
}

// seek considers attempts that fit nowhere for preemption, in their order, until one has a plan; true if a
// transaction has been sent.
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

func (p *Preemption) seekFor(r attempt.Rejection) bool {
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
	p.effects.Plan(step.PlanReport{What: step.PlanAsked, Pod: a.Offer.Pod})
	if no := p.failures.refusesPod(pod, p.shard.Now); no.why != "" {
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
