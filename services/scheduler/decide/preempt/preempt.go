package preempt

import (
	"github.com/berth-scheduler/berth/pkg/ledger/guard"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/scheduler/decide/advice"
	"github.com/berth-scheduler/berth/services/scheduler/decide/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/decide/crossnode"
	"github.com/berth-scheduler/berth/services/scheduler/decide/lifecycle"
	"github.com/berth-scheduler/berth/services/scheduler/decide/search"
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
	holds      *holds
	reconciler *reconciler
	nominator  *nominator
	places     *places
	loops      *loops
	budgets    *budgetBook
}

// New returns the preemption of a shard that holds no place.
func New(d Deps) *Preemption {
	s := d.Life.Shard
	h := newHolds(s)
	h.loops = &loops{shard: s, protect: h.protect}
	h.budgets, h.performing = &budgetBook{shard: s}, d.Performing
	p := &Preemption{holds: h, loops: h.loops, budgets: h.budgets}
	p.places = &places{
		shard: s, attempts: d.Life.Attempts, record: d.Life.Record, life: d.Life, rules: d.Rules, terms: d.Terms,
		search: d.Search, holds: h,
	}
	p.reconciler = &reconciler{
		shard: s, attempts: d.Life.Attempts, record: d.Life.Record, effects: d.Life.Record.Effects, life: d.Life,
		slot: d.Slot, rules: d.Rules, terms: d.Terms, search: d.Search,
		consults: d.Consults, performing: d.Performing, holds: h, loops: h.loops, budgets: h.budgets,
	}
	p.nominator = &nominator{
		shard: s, attempts: d.Life.Attempts, record: d.Life.Record, effects: d.Life.Record.Effects, life: d.Life,
		slot: d.Slot, rules: d.Rules, terms: d.Terms, search: d.Search,
		consults: d.Consults, holds: h, loops: h.loops, budgets: h.budgets, places: p.places,
	}
	return p
}

// Promised returns the UIDs of the nodes with held places, with the priority of the least important pod there.
func (p *Preemption) Promised() map[string]int32 { return p.holds.promised }

// Missed notes the places kept for the pod of an attempt that it did not take.
func (p *Preemption) Missed(a *attempt.Attempt) { p.reconciler.missed(a) }

// HoldPlace implements plans.
func (p *Preemption) HoldPlace(d *attempt.Deal) { p.holds.holdPlace(d) }

// Prepared implements plans.
func (p *Preemption) Prepared(d *attempt.Deal) { p.holds.prepared(d) }

// Vetted implements plans.
func (p *Preemption) Vetted(plan string, advice step.Advice) { p.holds.vetted(plan, advice) }

// LineUp implements plans.
func (p *Preemption) LineUp(r attempt.Rejection) { p.nominator.lineUp(r) }

// Reject implements plans.
func (p *Preemption) Reject(r attempt.Rejection) { p.nominator.reject(r) }

// Expire ends what lasts only for a while, and makes every hold due. It runs with the heartbeat, so that this is at
// most one heartbeat late: an attempt in between is retried after its backoff.
func (p *Preemption) Expire() {
	p.reconciler.looks = secondLooks
	p.budgets.stale = p.budgets.stale || p.budgets.claims
	p.loops.expire()
	n := p.nominator
	if !n.slot.Busy() && n.attempts.Count(attempt.Staged, attempt.Reserving) == 0 {
		n.life.ForgetReturned() // nothing is staged that could have counted them
	}
	n.retrySeekers()
	p.holds.allDue()
}

// Propose sends the next change of a plan, if there is any, and returns true if it was sent. Holds come first: room
// that has become free, or is held for nothing, is worth more than the next plan.
func (p *Preemption) Propose() bool {
	if s := p.holds.shard; s.Draining || !s.Usable() {
		return false
	}
	return p.reconciler.reconcile() || p.reconciler.releaseOne() || p.nominator.seek()
}

// FollowLedger applies changes of the ledger.
func (p *Preemption) FollowLedger(changes replica.Changes) { p.holds.followLedger(changes) }

// FollowFacts applies changes of facts.
func (p *Preemption) FollowFacts(changes state.Changes) { p.holds.followFacts(changes) }

// Reset makes everything due, after the facts were rebuilt.
func (p *Preemption) Reset() { p.holds.reset() }

// Held returns how many places are held for pods of this shard.
func (p *Preemption) Held() int { return len(p.holds.held) }

// Quiet reports whether no attempt should be staged: a promotion waits until no pod is staged that its rules would
// count.
func (p *Preemption) Quiet() bool { return p.reconciler.quiet }

// Pending reports whether attempts wait for a search for victims, and another plan is allowed.
func (p *Preemption) Pending() bool { return p.nominator.pending() }

// Drain makes plugins take back the work that this shard will not complete.
func (p *Preemption) Drain() { p.reconciler.drain() }

// Settle ends the attempts that fit nowhere whose counted pods have all been reserved. Attempts with a counted pod
// that was withdrawn are decided again.
func (p *Preemption) Settle() { p.nominator.settle() }

// PlaceKept stages an attempt on a place that is kept for its pod; false if there is none where it fits.
func (p *Preemption) PlaceKept(
	a *attempt.Attempt, profile *placement.Profile, concern *guard.Concern, avoided []string,
) (done bool) {
	return p.places.place(a, profile, concern, avoided)
}
