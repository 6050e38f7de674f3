package preempt

import (
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/guard"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/engine"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/placement/preempt"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/scheduler/decide/advice"
	"github.com/berth-scheduler/berth/services/scheduler/decide/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/decide/claims"
	"github.com/berth-scheduler/berth/services/scheduler/decide/crossnode"
	"github.com/berth-scheduler/berth/services/scheduler/decide/lifecycle"
	"github.com/berth-scheduler/berth/services/scheduler/decide/record"
	"github.com/berth-scheduler/berth/services/scheduler/decide/search"
	"github.com/berth-scheduler/berth/services/scheduler/decide/shard"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
	"github.com/berth-scheduler/berth/services/scheduler/decide/txn"
)

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

// nominator looks for pods that can be evicted for a more important pod that fits nowhere, and holds the place for
// it (T2), or takes over the place that is held for a less important pod (T4).
type nominator struct {
	shard    *shard.State
	attempts *attempt.Queues
	record   *record.Recorder
	effects  *step.Effects
	life     *lifecycle.Attempts
	slot     *txn.Slot
	rules    *crossnode.Rules
	terms    *crossnode.Terms
	search   *search.Searcher

	consults *advice.Consults
	holds    *holds
	loops    *loops
	budgets  *budgetBook
	places   *places

	// sought counts the attempts that were lined up for a plan; retried is the index of the next waiting one to try
	// again.
	sought  uint64
	retried int
}

// seeker is an attempt that fits nowhere, with the state that the search for victims needs.
type seeker struct {
	by *nominator
	attempt.Rejection
	pod     *state.Pod
	profile *placement.Profile
	concern guard.Concern
	volumes claims.Supply
}

// retrySeekers retries some of the attempts that wait for plans, in turns: they may fit now.
func (nm *nominator) retrySeekers() {
	waiting := nm.attempts.Count(attempt.Seeking)
	if waiting == 0 || nm.pending() {
		return
	}
	if nm.retried >= waiting {
		nm.retried = 0
	}
	end := min(nm.retried+retriesPerBeat, waiting)
	again := nm.attempts.TakeSeekers(nm.retried, end)
	nm.retried = end
	for _, a := range slices.Backward(again) {
		nm.life.Again(a)
	}
}

// pending reports whether attempts wait for a search for victims, and another plan is allowed.
func (nm *nominator) pending() bool {
	return nm.attempts.Count(attempt.Seeking) > 0 && nm.holds.unbegun < maxUnbegun
}

// seek considers attempts that fit nowhere for preemption, in their order, until one has a plan; true if a
// transaction has been sent.
func (nm *nominator) seek() bool {
	if !nm.pending() {
		return false
	}
	for n := 0; n < seeksPerStep && nm.attempts.Count(attempt.Seeking) > 0; n++ {
		for _, a := range nm.attempts.TakeSeekers(0, 1) {
			if nm.seekFor(*a.Verdict) {
				return true
			}
		}
	}
	return false
}

func (nm *nominator) seekFor(r attempt.Rejection) bool {
	a := r.Attempt
	s := seeker{by: nm, Rejection: r, pod: a.Pod, profile: nm.shard.Profiles[a.Pod.SchedulerName]}
	pod, known := nm.shard.View.Pod(a.Offer.Pod.UID)
	_, _, reserved := nm.shard.Ledger.Entry(a.Offer.Pod.UID)
	_, held := nm.shard.Holds(a.Offer.Partition)
	if !known || pod != a.Pod || reserved || !held || nm.terms.MustWait(a) || nm.shard.View.Settle() > 0 {
		nm.life.Again(a)
		return false
	}
	var err error
	if s.concern, err = nm.rules.ConcernOf(pod, s.profile); err != nil {
		nm.life.Fail(a, err.Error())
		return false
	}
	if s.concern.Uncertain {
		nm.life.Defer(a)
		return false
	}
	nm.effects.Plan(step.PlanReport{What: step.PlanAsked, Pod: a.Offer.Pod})
	if no := nm.loops.refusesPod(pod, nm.shard.Now); no.why != "" {
		nm.refusePlan(s, no)
		return false
	}
	if s.volumes, err = nm.shard.Claims.Of(pod, s.profile); err != nil {
		nm.life.Fail(a, err.Error())
		return false
	}
	if !nm.shard.Claims.Free(s.volumes) {
		nm.life.Defer(a)
		return false
	}
	if !s.volumes.Any() && !advice.IsConsulted(s.profile, s.pod) {
		if nm.places.displaceKept(s) {
			return false
		}
		if tried, sent := nm.displace(s); tried {
			return sent
		}
	}
	return nm.seekVictims(s)
}

// seekVictims searches for victims, and nominates the pod if that finds a plan.
func (nm *nominator) seekVictims(s seeker) bool {
	a := s.Attempt
	plan, ok := nm.advisedPlan(s, engine.PreemptQuery{Pod: s.pod, Seed: s.Decision.Seed, Budgets: nm.budgets.now()})
	if !ok {
		return false
	}
	var fits *preempt.FitsError
	switch {
	case errors.As(plan.Err, &fits):
		nm.life.Again(a)
	case plan.Err != nil:
		nm.life.Fail(a, plan.Err.Error())
	case plan.Node == nil && plan.Kept && nm.budgets.unknown:
		// What is left of a budget is not known yet, and no event will show when it is known.
		nm.life.Defer(a)
	case plan.Node == nil:
		nm.inVain(s, plan)
	case nm.planRestsOnHolds(s, plan):
		s.Awaits(names.PodTopologySpread)
		nm.life.Unplaceable(s.Rejection)
	default:
		return nm.nominate(s, plan)
	}
	return false
}

// planRestsOnHolds is search.Searcher.RestsOnHolds without the victims of a plan.
func (nm *nominator) planRestsOnHolds(s seeker, plan preempt.Result) bool {
	gone := make(map[string]bool, len(plan.Victims))
	for _, v := range plan.Victims {
		gone[v.Pod.UID] = true
	}
	in := placement.Input{Pod: s.pod, Nodes: nm.shard.View.Nodes(), Objects: s.volumes.Lookups(nm.shard.View.Snapshot())}
	return nm.search.RestsOnHolds(in, s.profile, &s.concern, plan.Node, gone)
}

// preempt makes the engine search for victims.
func (nm *nominator) preempt(s seeker, q engine.PreemptQuery) preempt.Result {
	return nm.victimsFor(s, func() preempt.Result { return nm.shard.Engine.Preempt(s.profile, q) })
}

// victimsFor runs a search of the engine for victims, and measures its time.
func (nm *nominator) victimsFor(s seeker, look func() preempt.Result) preempt.Result {
	defer nm.shard.LookUp(s.volumes)()
	if nm.shard.Laps == nil {
		return look()
	}
	nm.shard.Laps.Begin(s.pod.SchedulerName)
	plan := look()
	code := rule.Success
	if plan.Node == nil {
		code = rule.Unschedulable
	}
	nm.shard.Laps.Lap(engine.PointPostFilter, "", code)
	return plan
}

// inVain ends an attempt that preemption does not help, with upstream's message and with what Berth has to add.
func (nm *nominator) inVain(s seeker, plan preempt.Result) {
	r := s.Rejection
	if r.Attempt.Counsel.Victims.Answered {
		r.Awaits(placement.Extenders)
	}
	if plan.Message != "" {
		r.Decision.Message += " " + plan.Message
	}
	for _, sentence := range plan.Advice {
		r.Decision.Message += " " + sentence
	}
	if plan.Kept || !isNever(s.pod) && nm.holds.keepsBelow(s.pod.Priority) {
		r.Awaits(names.DefaultPreemption)
		r.Decision.RetryAfter = nm.loops.spareEnds(s.pod.Priority)
	}
	nm.life.Unplaceable(r)
}

// refusePlan ends an attempt whose plan is refused, before or after the search for one.
func (nm *nominator) refusePlan(s seeker, no refusal) {
	r := s.Rejection
	r.Decision.Message += " preemption: refused: " + no.why + "."
	r.Decision.RetryAfter = no.ends
	nm.effects.Plan(step.PlanReport{What: step.PlanRefused, Pod: s.Attempt.Offer.Pod, Detail: no.why})
	r.Awaits(names.DefaultPreemption)
	nm.life.Unplaceable(r)
}

// nominate builds and sends T2; false if nothing was sent.
func (nm *nominator) nominate(s seeker, plan preempt.Result) bool {
	a := s.Attempt
	if no := nm.loops.refusesVictims(s.pod, plan.Victims, nm.shard.Now); no.why != "" {
		nm.refusePlan(s, no)
		return false
	}
	b, ok := nm.newPlan(a, plan.Node)
	if !ok || nm.places.stoodIn(plan.Node.Node.UID) || !b.victims(plan.Victims) || !b.keep(plan.Keepers) {
		// A victim or keeper is only reserved by what is in flight, or has changed since.
		nm.life.Defer(a)
		return false
	}
	demanded, ready := nm.rules.Demands(&s.concern, plan.Node, crossnode.Following{
		First: len(plan.Keepers) == 0, Pins: make([]attempt.Pin, len(plan.Keepers)),
	})
	rooms, known := nm.budgets.rooms(plan.Budgets, s.profile.ExceedsBudgets())
	if !ready || !known {
		nm.life.Defer(a)
		return false
	}
	entry, held, ok := nm.supply(s, plan)
	if !ok {
		return false
	}
	if !nm.terms.Registered(a, demanded, a.Pick.Volumes) {
		a.Pick = attempt.Pick{}
		return false
	}
	n := b.nomination(plan.Node, entry)
	n.Budgets = rooms
	n.Guards = demanded.Guards
	n.Exclusives = held
	d := &nomination{seeker: s, node: plan.Node.Node, victims: len(plan.Victims), token: entry.Token}
	for _, v := range plan.Victims {
		if v.Reserved {
			d.yielding.reserved = append(d.yielding.reserved, v.Pod.UID)
		}
	}
	d.yielding.alone = len(d.yielding.reserved) == len(plan.Victims)
	return nm.sendNomination(d, n)
}

// supply returns the reservation that holds a place, with what the pod's claims get there once the victims are gone:
// no other pod may get that in between. The promotion picks again. It returns false if there is nothing to send for
// now.
func (nm *nominator) supply(
	s seeker, plan preempt.Result,
) (entry ledger.Entry, held []ledger.ExclusiveDoc, ok bool) {
	a := s.Attempt
	var gone []*state.Pod
	for _, v := range plan.Victims {
		gone = append(gone, v.Pod)
	}
	v, ready, err := nm.shard.Claims.Pick(s.volumes, s.profile, claims.Target{
		Pod: s.pod, Node: plan.Node.Node, Seed: s.Decision.Seed,
	}, gone...)
	if err == nil && ready {
		a.Pick.Volumes = v
		entry, err = a.Entry(nm.shard.ID)
	}
	if err != nil {
		nm.life.Fail(a, err.Error())
		return entry, nil, false
	}
	holder := ledger.Holder{PodUID: entry.PodUID, Token: entry.Token, NodeUID: plan.Node.Node.UID}
	docs, err := nm.shard.Claims.Take(v.Holdings(), holder, nil)
	if !ready || err != nil {
		a.Pick = attempt.Pick{}
		nm.life.Defer(a)
		return entry, nil, false
	}
	return entry, claims.Sorted(docs), true
}

// sendNomination sends a T2, as a whole or its first part.
func (nm *nominator) sendNomination(d *nomination, n txns.Nomination) bool {
	a := d.Attempt
	change, err := txns.Nominate(n)
	if err == nil {
		d.plan = n.Plan()
		nm.pickFor(a, d.node, &d.Decision)
		if err = nm.slot.Launch(d, change, a); err == nil {
			return true
		}
		nm.unpick(a)
	}
	if txn.IsTooLarge(err) {
		return nm.sendFirstPart(d, n)
	}
	return nm.unsent(a, err)
}

// unsent ends a try that could not be made into a transaction: either the state that it was decided on has changed
// and the attempt is deferred, or the attempt fails.
func (nm *nominator) unsent(a *attempt.Attempt, err error) bool {
	var claimed *txns.ClaimedError
	var refused *txns.RefusedError
	var budget *txns.BudgetError
	if errors.As(err, &budget) {
		nm.budgets.refused(budget.UID)
	}
	a.Losses++
	if a.Losses < attempt.MaxLosses && (errors.As(err, &claimed) || errors.As(err, &refused) || errors.As(err, &budget)) {
		nm.budgets.stale = true
		nm.life.Defer(a)
		return false
	}
	nm.life.Fail(a, err.Error())
	return false
}

// pickFor stages an attempt's pod on the node on which a place will be held for it.
func (nm *nominator) pickFor(a *attempt.Attempt, node *state.Node, d *events.Decision) {
	a.Pick = attempt.Pick{
		NodeUID: node.UID, NodeName: node.Name, Decided: nm.shard.Now, Total: len(nm.shard.View.Nodes()),
		Seed: d.Seed, Evidence: nm.record.Sought(a, d.Evidence, nm.loops.sparedPods()),
		FactSequence: nm.shard.Store.Position().Sequence,
		Volumes:      a.Pick.Volumes,
	}
	nm.shard.View.Stage(a.Pod, node.Name)
}

func (nm *nominator) unpick(a *attempt.Attempt) {
	nm.life.Unstage(a)
	a.Pick = attempt.Pick{}
}

// nomination is a T2 in flight.
type nomination struct {
	seeker
	node    *state.Node
	plan    string
	token   ledger.Token
	victims int
	// rest are the victims that are claimed later (of a plan with a record).
	rest     []txns.NodeEntry
	yielding yielding
}

func (n *nomination) Kind() string { return "T2" }

func (n *nomination) Done(revision int64) {
	nm := n.by
	a := n.Attempt
	d := n.Decision
	d.Kind = events.DecisionNominated
	d.Token = a.Offer.Token
	d.Attempt = a.Offer.Attempt
	d.TraceParent = a.Offer.TraceParent
	d.NodeUID = n.node.UID
	d.NodeName = n.node.Name
	d.LedgerRevision = revision
	d.FactSequence, d.Evidence = a.Pick.FactSequence, nm.record.Answered(a)
	nm.effects.Decide(d)
	report := a.Report(step.Unschedulable)
	report.Nodes, report.Plugins = int(d.NodesTotal), d.Plugins
	for _, v := range victimsOf(nm.shard.Ledger.Plans().Docs(n.plan), n.plan) {
		report.Victims = append(report.Victims, v.PodUID)
	}
	nm.effects.Report(report)
	nm.effects.Plan(step.PlanReport{What: step.PlanNominated, Pod: a.Offer.Pod, Node: n.node.Name, Victims: n.victims})
	nm.life.Drop(a)
	nm.holds.addHold(&hold{
		podUID: a.Pod.UID, nodeUID: n.node.UID, plan: n.plan, token: n.token,
		attempt: a.Offer.Attempt, traceParent: a.Offer.TraceParent, rest: n.rest, yielding: n.yielding,
	})
}

func (n *nomination) Undone(lost txns.Outcome) {
	nm := n.by
	nm.budgets.stale = true
	nm.lostDeed(n.Attempt, lost)
}

func (n *nomination) TooLarge(why string) {
	nm := n.by
	if n.Attempt.Doubtful {
		nm.life.GiveBack(n.Attempt)
		return
	}
	nm.life.Fail(n.Attempt, why)
}

// isNever reports whether a pod's preemption policy is Never.
func isNever(p *state.Pod) bool {
	policy := p.Template.Spec.PreemptionPolicy
	return policy != nil && *policy == corev1.PreemptNever
}

// sendFirstPart sends the first transaction of a plan that is too large for one: the place and the plan's record.
// The victims follow, see form.
func (nm *nominator) sendFirstPart(d *nomination, n txns.Nomination) bool {
	a := d.Attempt
	all := n.Victims
	n.Victims, n.Budgets = nil, nil
	var docs []ledger.NodeDoc
	for _, doc := range n.Docs {
		if doc.NodeUID == n.Hold.NodeUID || isAmong(n.Keepers, doc.NodeUID) {
			docs = append(docs, doc)
		}
	}
	n.Docs = docs
	change, err := txns.FormPlan(n, len(all))
	if err == nil {
		d.plan, d.rest = n.RecordedPlan(), all
		nm.pickFor(a, d.node, &d.Decision)
		if err = nm.slot.Launch(d, change, a); err == nil {
			return true
		}
		nm.unpick(a)
	}
	return nm.unsent(a, err)
}

func isAmong(list []txns.NodeEntry, nodeUID string) bool {
	for _, e := range list {
		if e.NodeUID == nodeUID {
			return true
		}
	}
	return false
}

// lostDeed puts an attempt back whose change of a plan was lost, or gives it back if it has lost too often.
func (nm *nominator) lostDeed(a *attempt.Attempt, lost txns.Outcome) {
	reason := step.LostNode
	switch {
	case len(lost.Partitions) > 0:
		reason = step.LostPartition
	case len(lost.Guards) > 0:
		reason = step.LostGuard
	case len(lost.Budgets) > 0 && len(lost.Docs) == 0:
		reason = step.LostBudget
	case len(lost.Exclusives) > 0 && len(lost.Docs) == 0:
		reason = step.LostVolume
	}
	nm.effects.Report(a.Lost(reason))
	nm.record.Lost(a, reason)
	a.Losses++
	if reason == step.LostPartition || a.Doubtful || a.Losses >= attempt.MaxLosses {
		nm.life.GiveBack(a)
		return
	}
	a.Wait.Revision = max(a.Wait.Revision, txn.LostAt(lost))
	nm.life.Again(a)
}
