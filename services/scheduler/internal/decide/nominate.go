package decide

import (
	"cmp"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/guard"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
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
}

// conclude ends an attempt that fits nowhere for certain: it is asked about preemption next, if
// its profile has that.
func (c *Core) conclude(r rejection, out *Output) {
	profile, ok := c.cfg.Profiles[r.attempt.pod.SchedulerName]
	switch {
	case !ok || !profile.Preempts() || c.draining || c.supplied(r.attempt.pod, profile) || profile.Extended(r.attempt.pod):
	case len(c.plans.seekers) < maxSeekers:
		c.lineUp(r)
		return
	default:
		r.awaitsPreemption()
	}
	c.unplaceable(r, out)
}

// lineUp has a seeker wait for its turn.
func (c *Core) lineUp(r rejection) {
	if r.attempt.sought == 0 {
		c.plans.sought++
		r.attempt.sought = c.plans.sought
	}
	at, _ := slices.BinarySearchFunc(c.plans.seekers, r, func(a, b rejection) int {
		return cmp.Or(
			cmp.Compare(b.attempt.pod.Priority, a.attempt.pod.Priority),
			cmp.Compare(a.attempt.sought, b.attempt.sought),
		)
	})
	c.plans.seekers = slices.Insert(c.plans.seekers, at, r)
}

// retrySeekers has some of those that wait for plans tried again, in turns: they may fit by now.
func (c *Core) retrySeekers() {
	p := &c.plans
	if len(p.seekers) == 0 || c.maySeek() {
		return
	}
	if p.retried >= len(p.seekers) {
		p.retried = 0
	}
	end := min(p.retried+retriesPerBeat, len(p.seekers))
	again := slices.Clone(p.seekers[p.retried:end])
	p.seekers = slices.Delete(p.seekers, p.retried, end)
	p.retried = end
	for _, r := range slices.Backward(again) {
		c.again(r.attempt)
	}
}

// maySeek says whether there is somebody to look for room for, and room for the plan.
func (c *Core) maySeek() bool {
	return len(c.plans.seekers) > 0 && c.plans.unbegun < maxUnbegun
}

// seek asks about preemption for those who fit nowhere, in their order, until one has a plan;
// true if that is on its way.
func (c *Core) seek(out *Output) bool {
	if !c.maySeek() {
		return false
	}
	for n := 0; n < seeksPerStep && len(c.plans.seekers) > 0; n++ {
		r := c.plans.seekers[0]
		c.plans.seekers = c.plans.seekers[1:]
		if c.seekFor(r, out) {
			return true
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
		c.deferred = append(c.deferred, a)
		return false
	}
	c.report(PlanReport{What: PlanAsked, Pod: a.offer.Pod})
	if no := c.plans.loops.refusesPod(pod, c.now); no.why != "" {
		c.refusePlan(s, no, out)
		return false
	}
	if c.oust(s, out) {
		return false
	}
	if tried, sent := c.displace(s, out); tried {
		return sent
	}
	plan := c.preempt(s, placement.PreemptQuery{Pod: pod, Seed: r.decision.Seed, Budgets: c.budgetsNow()})
	var fits *placement.FitsError
	switch {
	case errors.As(plan.Err, &fits):
		c.again(a)
	case plan.Err != nil:
		c.fail(a, plan.Err.Error(), out)
	case plan.Node == nil && plan.Kept && c.plans.budgets.unknown:
		// What is left of a budget cannot be told yet, and nobody will say when it can.
		c.deferred = append(c.deferred, a)
	case plan.Node == nil:
		c.inVain(s, plan, out)
	default:
		return c.nominate(s, plan, out)
	}
	return false
}

// preempt asks the engine who could go for a pod.
func (c *Core) preempt(s seeker, q placement.PreemptQuery) placement.Preemption {
	if c.cfg.Laps == nil {
		return c.engine.Preempt(s.profile, q)
	}
	c.cfg.Laps.Begin(s.pod.SchedulerName)
	plan := c.engine.Preempt(s.profile, q)
	code := placement.Success
	if plan.Node == nil {
		code = placement.Unschedulable
	}
	c.cfg.Laps.Lap(placement.PointPostFilter, "", code)
	return plan
}

// inVain ends an attempt that preemption does not help, with upstream's sentence and with what
// there is to say beyond it.
func (c *Core) inVain(s seeker, plan placement.Preemption, out *Output) {
	r := s.rejection
	if plan.Message != "" {
		r.decision.Message += " " + plan.Message
	}
	for _, sentence := range plan.Advice {
		r.decision.Message += " " + sentence
	}
	if plan.Kept || !isNever(s.pod) && c.keepsBelow(s.pod.Priority) {
		r.awaitsPreemption()
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
	r.awaitsPreemption()
	c.unplaceable(r, out)
}

// nominate builds and sends T2; false if there is nothing to send (now).
func (c *Core) nominate(s seeker, plan placement.Preemption, out *Output) bool {
	a := s.attempt
	if no := c.plans.loops.refusesVictims(s.pod, plan.Victims, c.now); no.why != "" {
		c.refusePlan(s, no, out)
		return false
	}
	b, ok := c.newPlan(a, plan.Node)
	if !ok || !b.victims(plan.Victims) || !b.keep(plan.Keepers) {
		// Somebody among them is only reserved by what is in flight, or has moved since.
		c.deferred = append(c.deferred, a)
		return false
	}
	guards, ready := c.demands(&s.concern, plan.Node, len(plan.Keepers) == 0)
	if len(guards.missing) > 0 {
		if err := c.ask(a, guards.missing); err != nil {
			c.fail(a, err.Error(), out)
			return false
		}
	}
	rooms, known := c.rooms(plan.Budgets, s.profile.ExceedsBudgets())
	if !ready || !known {
		c.deferred = append(c.deferred, a)
		return false
	}
	entry, err := c.entryOf(a)
	if err != nil {
		c.fail(a, err.Error(), out)
		return false
	}
	n := b.nomination(plan.Node, entry)
	n.Budgets, n.Guards = rooms, guards.uses
	d := &nomination{seeker: s, node: plan.Node.Node, victims: len(plan.Victims), token: entry.Token}
	return c.sendNomination(d, n, out)
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
	a.losses++
	if a.losses < MaxLosses && (errors.As(err, &claimed) || errors.As(err, &refused) || errors.As(err, &budget)) {
		c.plans.budgets.stale = true
		c.deferred = append(c.deferred, a)
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
	rest []ledger.NodeEntry
}

func (n *nomination) kind() string { return "T2" }

func (n *nomination) done(c *Core, revision int64, out *Output) {
	a := n.attempt
	d := n.decision
	d.Kind = events.DecisionNominated
	d.Token, d.Attempt, d.TraceParent = a.offer.Token, a.offer.Attempt, a.offer.TraceParent
	d.NodeUID, d.NodeName, d.LedgerRevision = n.node.UID, n.node.Name, revision
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
		attempt: a.offer.Attempt, traceParent: a.offer.TraceParent, rest: n.rest,
	})
}

func (n *nomination) undone(c *Core, lost ledger.Lost, out *Output) {
	c.plans.budgets.stale = true
	c.lostDeed(n.attempt, lost, out)
}

// planBuild gathers what a T2 or T4 says and changes.
type planBuild struct {
	core    *Core
	mandate ledger.Mandate
	docs    map[string]ledger.NodeDoc
	order   []string
	claims  []ledger.NodeEntry
	keepers []ledger.NodeEntry
	yields  int
}

func (c *Core) newPlan(a *attempt, node *state.NodeInfo) (*planBuild, bool) {
	mandate, ok := c.mandate(a.offer.Partition)
	b := &planBuild{core: c, mandate: mandate, docs: map[string]ledger.NodeDoc{}}
	doc := ledger.Cover(b.open(node.Node), ledger.KindNode, node.Node.ResourceVersion)
	b.docs[node.Node.UID] = doc
	return b, ok
}

// open is a node's document with what has finished dropped.
func (b *planBuild) open(n *state.Node) ledger.NodeDoc { return b.openDoc(n.UID, n.Name) }

func (b *planBuild) openDoc(uid, name string) ledger.NodeDoc {
	if d, ok := b.docs[uid]; ok {
		return d
	}
	doc, ok := b.core.ledger.Doc(uid)
	if !ok {
		doc = ledger.NodeDoc{NodeUID: uid, NodeName: name}
	}
	doc, _ = ledger.Finish(doc, b.core.view)
	b.docs[uid], b.order = doc, append(b.order, uid)
	return doc
}

// victims claims the pods that have to go. Those that are only reserved are asked back from
// their binders; false if one is not even that yet.
func (b *planBuild) victims(victims []placement.Victim) bool {
	for _, v := range victims {
		doc := b.open(v.Node.Node)
		if v.Reserved {
			e, ok := doc.Find(v.Pod.UID)
			if !ok || e.State == ledger.Held {
				return false
			}
			if marked, changed, err := ledger.MarkWanted(doc, e.PodUID, e.Token); err == nil && changed {
				b.docs[doc.NodeUID] = marked
			}
			b.yields++
			continue
		}
		claim := ledger.Entry{
			PodUID: v.Pod.UID, Namespace: v.Pod.Namespace, Name: v.Pod.Name,
			PodRV: v.Pod.ResourceVersion, Priority: v.Pod.Priority,
		}
		for _, budget := range v.Budgets {
			claim.Budgets = append(claim.Budgets, budget.UID)
		}
		b.claims = append(b.claims, ledger.NodeEntry{NodeUID: doc.NodeUID, Entry: claim})
	}
	return true
}

// keep pins the pods that must not go; false if one is not bound yet.
func (b *planBuild) keep(keepers []placement.Keeper) bool {
	for _, k := range keepers {
		if k.Pod.NodeName == "" {
			return false
		}
		b.keepers = append(b.keepers, ledger.NodeEntry{NodeUID: b.open(k.Node.Node).NodeUID, Entry: ledger.Entry{
			PodUID: k.Pod.UID, Namespace: k.Pod.Namespace, Name: k.Pod.Name,
		}})
	}
	return true
}

func (b *planBuild) nomination(node *state.NodeInfo, entry ledger.Entry) ledger.Nomination {
	return ledger.Nomination{
		Mandate: b.mandate, Hold: ledger.NodeEntry{NodeUID: node.Node.UID, Entry: entry},
		Victims: b.claims, Yields: b.yields, Keepers: b.keepers, Docs: b.documents(), Facts: b.core.view,
	}
}

func (b *planBuild) documents() []ledger.NodeDoc {
	out := make([]ledger.NodeDoc, 0, len(b.order))
	for _, uid := range b.order {
		out = append(out, b.docs[uid])
	}
	return out
}

// demand is what a pod's rules about other nodes need on a node.
type demand struct {
	uses    []ledger.GuardUse
	missing []ledger.Term
}

// demands says what the pod needs on a node; false if that cannot be told yet. alone: there is
// nothing that its required affinity could rely on, and the rules have allowed that.
func (c *Core) demands(concern *guard.Concern, node *state.NodeInfo, alone bool) (demand, bool) {
	if concern.None() {
		return demand{}, true
	}
	blocked := c.uncounted(concern.Keys())
	first := alone && concern.Together()
	if blocked.has(node) || first && blocked.any {
		return demand{}, false
	}
	uses, missing := concern.At(guard.Choice{
		Labels: node.Node.Object.Labels, SharedHost: c.cross.hosts[hostOf(node.Node)] > 1, First: first,
	})
	if len(missing) > 0 {
		return demand{missing: missing}, false
	}
	for i := range uses {
		if !uses[i].Compare {
			continue
		}
		var counted bool
		if uses[i].Revision, counted = c.ledger.Guard(uses[i].Key); !counted {
			return demand{}, false
		}
	}
	return demand{uses: uses}, true
}

// isNever says whether a pod has asked not to have others go for it.
func isNever(p *state.Pod) bool {
	policy := p.Template.Spec.PreemptionPolicy
	return policy != nil && *policy == corev1.PreemptNever
}
