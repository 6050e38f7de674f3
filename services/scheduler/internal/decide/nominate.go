package decide

import (
	"errors"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/guard"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/engine"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/placement/preempt"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/scheduler/internal/claims"
)

// seeksPerStep bounds the attempts that one step asks about preemption: a decision from scratch
// takes milliseconds on a large cluster.
const seeksPerStep = 16

const (
	// maxUnbegun is how many plans of a shard may wait for binders to begin with their evictions.
	// Whoever wants a plan beyond that waits with its offer: decided later it is decided on what is
	// there then, and a plan that only waits ages until it is given up. It is more than the evictions
	// that all binders send at once, so that they never wait for plans.
	maxUnbegun = 64
	// maxSeekers is how many wait so; more are parked. retriesPerBeat is how many of them a heartbeat
	// has tried again, which costs microseconds each.
	maxSeekers     = 2048
	retriesPerBeat = 64
)

// seeker is an attempt that fits nowhere, with what is needed to look for room.
type seeker struct {
	rejection
	pod     *state.Pod
	profile *placement.Profile
	concern guard.Concern
	volumes claims.Supply
}

// conclude ends an attempt that fits nowhere for certain: it is asked about preemption next, if
// its profile has that.
func (c *Core) conclude(r rejection, out *Output) {
	profile, ok := c.cfg.Profiles[r.attempt.pod.SchedulerName]
	switch {
	case r.onHold:
	case !ok || !profile.Preempts() || c.draining || profile.Custom() && isConsulted(profile, r.attempt.pod):
	case c.attempts.count(seeking) < maxSeekers:
		c.lineUp(r)
		return
	default:
		r.awaits(names.DefaultPreemption)
	}
	c.unplaceable(r, out)
}

// lineUp has a seeker wait for its turn.
func (c *Core) lineUp(r rejection) {
	if r.attempt.sought == 0 {
		c.plans.sought++
		r.attempt.sought = c.plans.sought
	}
	r.attempt.verdict = &r
	c.attempts.seek(r.attempt)
}

// retrySeekers has some of those that wait for plans tried again, in turns: they may fit by now.
func (c *Core) retrySeekers() {
	p := &c.plans
	waiting := c.attempts.count(seeking)
	if waiting == 0 || c.maySeek() {
		return
	}
	if p.retried >= waiting {
		p.retried = 0
	}
	end := min(p.retried+retriesPerBeat, waiting)
	again := c.attempts.takeSeekers(p.retried, end)
	p.retried = end
	for _, a := range slices.Backward(again) {
		c.again(a)
	}
}

// maySeek says whether there is somebody to look for room for, and room for the plan.
func (c *Core) maySeek() bool {
	return c.attempts.count(seeking) > 0 && c.plans.unbegun < maxUnbegun
}

// seek asks about preemption for those who fit nowhere, in their order, until one has a plan;
// true if that is on its way.
func (c *Core) seek(out *Output) bool {
	if !c.maySeek() {
		return false
	}
	for n := 0; n < seeksPerStep && c.attempts.count(seeking) > 0; n++ {
		for _, a := range c.attempts.takeSeekers(0, 1) {
			if c.seekFor(*a.verdict, out) {
				return true
			}
		}
	}
	return false
}

func (c *Core) seekFor(r rejection, out *Output) bool {
	a := r.attempt
	s := seeker{rejection: r, pod: a.pod, profile: c.cfg.Profiles[a.pod.SchedulerName]}
	pod, known := c.view.Pod(a.offer.Pod.UID)
	_, _, reserved := c.ledger.Entry(a.offer.Pod.UID)
	_, held := c.holds(a.offer.Partition)
	if !known || pod != a.pod || reserved || !held || c.mustWait(a) || c.view.Settle() > 0 {
		c.again(a)
		return false
	}
	var err error
	if s.concern, err = c.concernOf(pod, s.profile); err != nil {
		c.fail(a, err.Error(), out)
		return false
	}
	if s.concern.Uncertain {
		c.attempts.append(deferred, a)
		return false
	}
	c.report(PlanReport{What: PlanAsked, Pod: a.offer.Pod})
	if no := c.plans.loops.refusesPod(pod, c.now); no.why != "" {
		c.refusePlan(s, no, out)
		return false
	}
	if s.volumes, err = c.claims.Of(pod, s.profile); err != nil {
		c.fail(a, err.Error(), out)
		return false
	}
	if !c.claims.Free(s.volumes) {
		c.attempts.append(deferred, a)
		return false
	}
	if !s.volumes.Any() && !isConsulted(s.profile, s.pod) {
		if c.oust(s, out) {
			return false
		}
		if tried, sent := c.displace(s, out); tried {
			return sent
		}
	}
	return c.seekVictims(s, out)
}

// seekVictims asks for whom others would have to go, and has it so.
func (c *Core) seekVictims(s seeker, out *Output) bool {
	a := s.attempt
	plan, ok := c.advisedPlan(s, engine.PreemptQuery{Pod: s.pod, Seed: s.decision.Seed, Budgets: c.budgetsNow()}, out)
	if !ok {
		return false
	}
	var fits *preempt.FitsError
	switch {
	case errors.As(plan.Err, &fits):
		c.again(a)
	case plan.Err != nil:
		c.fail(a, plan.Err.Error(), out)
	case plan.Node == nil && plan.Kept && c.plans.budgets.unknown:
		// What is left of a budget cannot be told yet, and nobody will say when it can.
		c.attempts.append(deferred, a)
	case plan.Node == nil:
		c.inVain(s, plan, out)
	case c.planRestsOnHolds(s, plan):
		s.awaits(names.PodTopologySpread)
		c.unplaceable(s.rejection, out)
	default:
		return c.nominate(s, plan, out)
	}
	return false
}

// planRestsOnHolds is restsOnHolds with the victims gone.
func (c *Core) planRestsOnHolds(s seeker, plan preempt.Result) bool {
	gone := make(map[string]bool, len(plan.Victims))
	for _, v := range plan.Victims {
		gone[v.Pod.UID] = true
	}
	in := placement.Input{Pod: s.pod, Nodes: c.view.Nodes(), Objects: s.volumes.Lookups(c.view.Snapshot())}
	return c.restsOnHolds(in, s.profile, &s.concern, plan.Node, gone)
}

// preempt asks the engine who could go for a pod.
func (c *Core) preempt(s seeker, q engine.PreemptQuery) preempt.Result {
	return c.search(s, func() preempt.Result { return c.engine.Preempt(s.profile, q) })
}

// search has the engine look for victims, and takes the time.
func (c *Core) search(s seeker, look func() preempt.Result) preempt.Result {
	defer c.lookUp(s.volumes)()
	if c.cfg.Laps == nil {
		return look()
	}
	c.cfg.Laps.Begin(s.pod.SchedulerName)
	plan := look()
	code := rule.Success
	if plan.Node == nil {
		code = rule.Unschedulable
	}
	c.cfg.Laps.Lap(engine.PointPostFilter, "", code)
	return plan
}

// inVain ends an attempt that preemption does not help, with upstream's sentence and with what
// there is to say beyond it.
func (c *Core) inVain(s seeker, plan preempt.Result, out *Output) {
	r := s.rejection
	if r.attempt.counsel.victims.answered {
		r.awaits(placement.Extenders)
	}
	if plan.Message != "" {
		r.decision.Message += " " + plan.Message
	}
	for _, sentence := range plan.Advice {
		r.decision.Message += " " + sentence
	}
	if plan.Kept || !isNever(s.pod) && c.keepsBelow(s.pod.Priority) {
		r.awaits(names.DefaultPreemption)
		r.decision.RetryAfter = c.spareEnds(s.pod.Priority)
	}
	c.unplaceable(r, out)
}

// refusePlan ends an attempt for which there is or could be a plan that is not made.
func (c *Core) refusePlan(s seeker, no refusal, out *Output) {
	r := s.rejection
	r.decision.Message += " preemption: refused: " + no.why + "."
	r.decision.RetryAfter = no.ends
	c.report(PlanReport{What: PlanRefused, Pod: s.attempt.offer.Pod, Detail: no.why})
	r.awaits(names.DefaultPreemption)
	c.unplaceable(r, out)
}

// nominate builds and sends T2; false if there is nothing to send (now).
func (c *Core) nominate(s seeker, plan preempt.Result, out *Output) bool {
	a := s.attempt
	if no := c.plans.loops.refusesVictims(s.pod, plan.Victims, c.now); no.why != "" {
		c.refusePlan(s, no, out)
		return false
	}
	b, ok := c.newPlan(a, plan.Node)
	if !ok || c.stoodIn(plan.Node.Node.UID) || !b.victims(plan.Victims) || !b.keep(plan.Keepers) {
		// Somebody among them is only reserved by what is in flight, or has moved since.
		c.attempts.append(deferred, a)
		return false
	}
	demanded, ready := c.demands(&s.concern, plan.Node, following{
		first: len(plan.Keepers) == 0, pins: make([]pin, len(plan.Keepers)),
	})
	rooms, known := c.rooms(plan.Budgets, s.profile.ExceedsBudgets())
	if !ready || !known {
		c.attempts.append(deferred, a)
		return false
	}
	entry, held, ok := c.supply(s, plan, out)
	if !ok {
		return false
	}
	if !c.registered(a, demanded, a.pick.volumes, out) {
		a.pick = pick{}
		return false
	}
	n := b.nomination(plan.Node, entry)
	n.Budgets = rooms
	n.Guards = demanded.guards
	n.Exclusives = held
	d := &nomination{seeker: s, node: plan.Node.Node, victims: len(plan.Victims), token: entry.Token}
	for _, v := range plan.Victims {
		if v.Reserved {
			d.yielding.reserved = append(d.yielding.reserved, v.Pod.UID)
		}
	}
	d.yielding.alone = len(d.yielding.reserved) == len(plan.Victims)
	return c.sendNomination(d, n, out)
}

// supply is the reservation that holds a place, with what the pod's claims get there when the victims
// have gone: nobody else may have it in between. It is picked anew then. False if there is nothing to
// send (now).
func (c *Core) supply(
	s seeker, plan preempt.Result, out *Output,
) (entry ledger.Entry, held []ledger.ExclusiveDoc, ok bool) {
	a := s.attempt
	var gone []*state.Pod
	for _, v := range plan.Victims {
		gone = append(gone, v.Pod)
	}
	v, ready, err := c.claims.Pick(s.volumes, s.profile, claims.Target{
		Pod: s.pod, Node: plan.Node.Node, Seed: s.decision.Seed,
	}, gone...)
	if err == nil && ready {
		a.pick.volumes = v
		entry, err = c.entryOf(a)
	}
	if err != nil {
		c.fail(a, err.Error(), out)
		return entry, nil, false
	}
	holder := ledger.Holder{PodUID: entry.PodUID, Token: entry.Token, NodeUID: plan.Node.Node.UID}
	docs, err := c.claims.Take(v.Holdings(), holder, nil)
	if !ready || err != nil {
		a.pick = pick{}
		c.attempts.append(deferred, a)
		return entry, nil, false
	}
	return entry, sortedDocs(docs), true
}

// sortedDocs are documents by their keys.
func sortedDocs(docs map[string]ledger.ExclusiveDoc) (list []ledger.ExclusiveDoc) {
	for _, key := range slices.Sorted(maps.Keys(docs)) {
		list = append(list, docs[key])
	}
	return list
}

// sendNomination sends a T2, whole or its first part.
func (c *Core) sendNomination(d *nomination, n ledger.Nomination, out *Output) bool {
	a := d.attempt
	change, err := ledger.Nominate(n)
	if err == nil {
		d.plan = n.Plan()
		c.pickFor(a, d.node, &d.decision)
		if err = c.launch(d, change, out, a); err == nil {
			return true
		}
		c.unpick(a)
	}
	if isTooLarge(err) {
		return c.sendFirstPart(d, n, out)
	}
	return c.unsent(a, err, out)
}

// unsent ends a try that could not be made into a transaction: what it was decided on has
// moved, or it never will be.
func (c *Core) unsent(a *attempt, err error, out *Output) bool {
	var claimed *ledger.ClaimedError
	var refused *ledger.RefusedError
	var budget *ledger.BudgetError
	if errors.As(err, &budget) {
		c.plans.budgets.refused(budget.UID)
	}
	a.losses++
	if a.losses < MaxLosses && (errors.As(err, &claimed) || errors.As(err, &refused) || errors.As(err, &budget)) {
		c.plans.budgets.stale = true
		c.attempts.append(deferred, a)
		return false
	}
	c.fail(a, err.Error(), out)
	return false
}

// pickFor stages an attempt's pod where a place is to be held for it.
func (c *Core) pickFor(a *attempt, node *state.Node, d *events.Decision) {
	a.pick = pick{
		nodeUID: node.UID, nodeName: node.Name, decided: c.now, total: len(c.view.Nodes()),
		seed: d.Seed, evidence: c.sought(a, d.Evidence), factSequence: c.store.Position().Sequence,
		volumes: a.pick.volumes,
	}
	c.view.Stage(a.pod, node.Name)
}

func (c *Core) unpick(a *attempt) {
	c.unstage(a)
	a.pick = pick{}
}

// nomination is a T2 in flight.
type nomination struct {
	seeker
	node    *state.Node
	plan    string
	token   ledger.Token
	victims int
	// rest are the victims that are claimed later (a plan with a record).
	rest     []ledger.NodeEntry
	yielding yielding
}

func (n *nomination) kind() string { return "T2" }

func (n *nomination) done(c *Core, revision int64, out *Output) {
	a := n.attempt
	d := n.decision
	d.Kind = events.DecisionNominated
	d.Token = a.offer.Token
	d.Attempt = a.offer.Attempt
	d.TraceParent = a.offer.TraceParent
	d.NodeUID = n.node.UID
	d.NodeName = n.node.Name
	d.LedgerRevision = revision
	d.FactSequence, d.Evidence = a.pick.factSequence, c.answered(a)
	out.Decisions = append(out.Decisions, d)
	report := a.report(Unschedulable)
	report.Nodes, report.Plugins = int(d.NodesTotal), d.Plugins
	for _, v := range victimsOf(c.ledger.PlanDocs(n.plan), n.plan) {
		report.Victims = append(report.Victims, v.PodUID)
	}
	out.Attempts = append(out.Attempts, report)
	c.report(PlanReport{What: PlanNominated, Pod: a.offer.Pod, Node: n.node.Name, Victims: n.victims})
	c.drop(a)
	c.addHold(&hold{
		podUID: a.pod.UID, nodeUID: n.node.UID, plan: n.plan, token: n.token,
		attempt: a.offer.Attempt, traceParent: a.offer.TraceParent, rest: n.rest, yielding: n.yielding,
	})
}

func (n *nomination) undone(c *Core, lost ledger.Lost, out *Output) {
	c.plans.budgets.stale = true
	c.lostDeed(n.attempt, lost, out)
}

func (n *nomination) tooLarge(c *Core, why string, out *Output) {
	if n.attempt.doubtful {
		c.giveBack(n.attempt)
		return
	}
	c.fail(n.attempt, why, out)
}

// demands says what the pod needs on a node; false if that cannot be told yet. Of what it follows,
// first says that there is nothing that its required affinity could rely on, and the rules have allowed that.
func (c *Core) demands(concern *guard.Concern, node *state.NodeInfo, found following) (needs, bool) {
	if concern.None() {
		return needs{}, true
	}
	blocked := c.uncounted(concern.Keys())
	found.first = found.first && concern.Together()
	if blocked.has(node) || found.first && blocked.any {
		return needs{}, false
	}
	return c.needsAt(concern, node, found)
}

// isNever says whether a pod has asked not to have others go for it.
func isNever(p *state.Pod) bool {
	policy := p.Template.Spec.PreemptionPolicy
	return policy != nil && *policy == corev1.PreemptNever
}
