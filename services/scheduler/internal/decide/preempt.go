package decide

import (
	"github.com/berth-scheduler/berth/services/scheduler/internal/advice"
	"github.com/berth-scheduler/berth/services/scheduler/internal/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/internal/crossnode"
	"github.com/berth-scheduler/berth/services/scheduler/internal/lifecycle"
	"github.com/berth-scheduler/berth/services/scheduler/internal/search"
	"github.com/berth-scheduler/berth/services/scheduler/internal/step"
	"github.com/berth-scheduler/berth/services/scheduler/internal/txn"
)

// preemptDeps are the parts of a shard that preemption works with.
type preemptDeps struct {
	life       *lifecycle.Attempts
	slot       *txn.Slot
	rules      *crossnode.Rules
	terms      *crossnode.Terms
	search     *search.Searcher
	consults   *advice.Consults
	performing *advice.Plugins
}

// preemption has the parts that place pods where others have to go, or where a place is kept.
type preemption struct {
	holds      *holds
	reconciler *reconciler
	nominator  *nominator
	places     *places
	loops      *loops
	budgets    *budgetBook
}

func newPreemption(d preemptDeps) *preemption {
	s := d.life.Shard
	h := newHolds(s)
	h.loops, h.budgets, h.performing = &loops{shard: s, protect: h.protect}, &budgetBook{shard: s}, d.performing
	p := &preemption{holds: h, loops: h.loops, budgets: h.budgets}
	p.places = &places{
		shard: s, attempts: d.life.Attempts, record: d.life.Record, life: d.life, rules: d.rules, terms: d.terms,
		search: d.search, holds: h,
	}
	p.reconciler = &reconciler{
		shard: s, attempts: d.life.Attempts, record: d.life.Record, effects: d.life.Record.Effects, life: d.life,
		slot: d.slot, rules: d.rules, terms: d.terms, search: d.search,
		consults: d.consults, performing: d.performing, holds: h, loops: h.loops, budgets: h.budgets,
	}
	p.nominator = &nominator{
		shard: s, attempts: d.life.Attempts, record: d.life.Record, effects: d.life.Record.Effects, life: d.life,
		slot: d.slot, rules: d.rules, terms: d.terms, search: d.search,
		consults: d.consults, holds: h, loops: h.loops, budgets: h.budgets, places: p.places,
	}
	return p
}

// promised returns the nodes with places that are held, by UID.
func (p *preemption) promised() map[string]int32 { return p.holds.promised }

// missed notes the places kept for the pod of an attempt that it did not take.
func (p *preemption) missed(a *attempt.Attempt) { p.reconciler.missedPlaces(a) }

// HoldPlace implements plans.
func (p *preemption) HoldPlace(d *attempt.Deal) { p.holds.holdPlace(d) }

// Prepared implements plans.
func (p *preemption) Prepared(d *attempt.Deal) { p.holds.preparedHold(d) }

// Vetted implements plans.
func (p *preemption) Vetted(plan string, advice step.Advice) { p.holds.vetted(plan, advice) }

// LineUp implements plans.
func (p *preemption) LineUp(r attempt.Rejection) { p.nominator.lineUp(r) }

// Reject implements plans.
func (p *preemption) Reject(r attempt.Rejection) { p.nominator.rejectedFor(r) }

// expire ends what lasts only for a while, and makes every hold due. That is a heartbeat late
// at most: an attempt in between is told to try again at once, and so after its backoff.
func (p *preemption) expire() {
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
