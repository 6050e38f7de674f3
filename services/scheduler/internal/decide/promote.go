package decide

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/guard"
	"github.com/berth-scheduler/berth/pkg/ledger/view"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/engine"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/scheduler/internal/claims"
)

const (
	// claimPatience is how long the devices of victims that have gone may stay theirs: Kubernetes'
	// controller for claims takes them back within seconds.
	claimPatience = 30 * time.Second
	// holdPatience is how long a plan may go without anything happening to it, besides the
	// grace period of its victims, before its place is given up: whoever should stop a pod or
	// say that it has stopped does not (a node that is gone, a finalizer).
	holdPatience = 3 * time.Minute
	// refusedPatience is how long after an eviction of it has failed a plan may stay without
	// another try: binders take twice as long before they try again, and there may be better
	// victims.
	refusedPatience = 15 * time.Second
	// unmarkedPatience is how long a plan may go without anything happening to it while none of
	// its evictions has been begun, though somebody has to be evicted: binders begin within
	// seconds, and when the eviction API lets them only look (a dry run that is refused) they try
	// again every 30 s. It is longer than a binder takes to be replaced.
	unmarkedPatience = refusedPatience + 45*time.Second
	// defaultGrace is the grace period of pods that name none.
	defaultGrace = 30 * time.Second
	// secondLookAfter is how long a place is held before it is asked whether the pod has come
	// to fit elsewhere without it, and secondLooks for how many holds a heartbeat asks that.
	secondLookAfter = 2 * time.Second
	secondLooks     = 64
)

// look is what a look at a hold comes to.
type look uint8

const (
	// lookLater: nothing to do until something moves.
	lookLater look = iota + 1
	// lookAgain: what is known is not enough; to be looked at with the next step.
	lookAgain
	// lookSent: a transaction is on its way.
	lookSent
)

// tend looks at the holds of which something has moved, until one needs a transaction; true if
// that is on its way.
func (c *Core) tend(out *Output) bool {
	p := &c.plans
	p.quiet = false
	for _, plan := range slices.Sorted(maps.Keys(p.orphans)) {
		delete(p.orphans, plan)
		if c.dropOrphan(plan, out) {
			return true
		}
	}
	if len(p.queue) == 0 {
		p.queue = slices.Sorted(maps.Keys(p.due))
	}
	for len(p.queue) > 0 {
		uid := p.queue[0]
		p.queue = p.queue[1:]
		h, ok := p.held[uid]
		if _, due := p.due[uid]; !due || !ok {
			delete(p.due, uid)
			continue
		}
		switch c.lookAt(h, out) {
		case lookSent:
			delete(p.due, uid)
			return true
		case lookLater:
			delete(p.due, uid)
		case lookAgain:
		}
	}
	return false
}

// standing is a hold with what is known of it.
type standing struct {
	*hold
	doc   ledger.NodeDoc
	entry ledger.Entry
	pod   *state.Pod
	// others are the other documents of its plan.
	others []ledger.NodeDoc
}

func (c *Core) lookAt(h *hold, out *Output) look {
	s := standing{hold: h}
	var ok bool
	if s.doc, s.entry, ok = c.ledger.Entry(h.podUID); !ok || s.entry.Token != h.token || s.entry.State != ledger.Held {
		return lookLater
	}
	for _, d := range c.ledger.PlanDocs(h.plan) {
		if d.NodeUID != s.doc.NodeUID {
			s.others = append(s.others, d)
		}
	}
	progress := c.view.PodProgress()
	s.pod, ok = c.view.Pod(h.podUID)
	switch {
	case !ok && progress < s.entry.PodRV:
		return lookAgain
	case !ok || s.pod.Deleting || s.pod.Terminal:
		return c.giveUp(s, end{reason: "the pod is gone", silent: true}, out)
	case s.pod.NodeName != "":
		return c.giveUp(s, end{reason: "somebody else has bound the pod", silent: true}, out)
	case s.doc.SupersededBy != "":
		return c.giveUp(s, end{reason: "another node has registered under the name of the node"}, out)
	}
	var l look
	switch {
	case ledger.IsRecorded(h.plan):
		l = c.form(s, out)
	case ledger.IsPrepared(h.plan):
		l = c.prepared(s, out)
	}
	if l != 0 {
		return l
	}
	if left, grace := c.victimsLeft(s); left && !ledger.IsPrepared(h.plan) {
		return c.await(s, grace, out)
	}
	c.plans.setBegun(s.hold, true)
	for _, d := range append(s.others, s.doc) {
		if progress < d.HighWater(ledger.KindPod) {
			return lookAgain
		}
	}
	return c.promote(s, out)
}

// victimsLeft says whether pods are still there that have to go, and the longest time that one
// of them is given to stop.
func (c *Core) victimsLeft(s standing) (left bool, grace time.Duration) {
	for _, v := range victimsOf(append(s.others, s.doc), s.plan) {
		if fate, _ := c.view.VictimFate(v.PodUID, v.PodRV); fate != ledger.Left {
			left, grace = true, max(grace, c.graceOf(v.PodUID))
		}
	}
	for i := range s.doc.Entries {
		left = left || c.yields(&s.doc.Entries[i], s.entry.Priority)
	}
	return left, grace
}

func (c *Core) graceOf(podUID string) time.Duration {
	pod, ok := c.view.Pod(podUID)
	if !ok || pod.Template == nil {
		return defaultGrace
	}
	seconds := pod.Template.Spec.TerminationGracePeriodSeconds
	if seconds == nil {
		return defaultGrace
	}
	return time.Duration(*seconds) * time.Second
}

// await looks whether a hold has waited too long, or for nothing.
func (c *Core) await(s standing, grace time.Duration, out *Output) look {
	idle := c.now.Sub(s.moved)
	marked := c.anyMarked(s)
	c.plans.setBegun(s.hold, marked || !c.anyToEvict(s))
	switch {
	case idle > holdPatience+grace:
		return c.giveUp(s, end{reason: "pods that have to go are still there", failed: true}, out)
	case !s.refused.IsZero() && !marked && c.now.Sub(s.refused) > refusedPatience:
		return c.giveUp(s, end{reason: "pods that have to go cannot be evicted", failed: true, spare: true}, out)
	case !s.begun && idle > unmarkedPatience:
		// Nobody has gone for it, so that it is no failure of the pod's.
		return c.giveUp(s, end{reason: "the eviction of pods that have to go is not begun", spare: true}, out)
	case !marked && c.now.Sub(s.since) > secondLookAfter && c.plans.looks > 0:
		c.plans.looks--
		if node := c.fitsElsewhere(s); node != "" {
			return c.giveUp(s, end{reason: "the pod fits on node " + node + " as it is"}, out)
		}
	}
	return lookLater
}

// anyMarked says whether an eviction for a plan may be under way.
func (c *Core) anyMarked(s standing) bool {
	return slices.ContainsFunc(victimsOf(append(s.others, s.doc), s.plan), func(v ledger.Entry) bool {
		return v.State == ledger.Evicting
	})
}

// anyToEvict says whether a victim of a plan stays until it is evicted.
func (c *Core) anyToEvict(s standing) bool {
	return slices.ContainsFunc(victimsOf(append(s.others, s.doc), s.plan), func(v ledger.Entry) bool {
		pod, known := c.view.Pod(v.PodUID)
		return known && !isLeaving(pod)
	})
}

// fitsElsewhere is a node that would take the pod of a hold without anybody having to go.
func (c *Core) fitsElsewhere(s standing) string {
	profile, ok := c.cfg.Profiles[s.pod.SchedulerName]
	if !ok || c.view.Settle() > 0 || profile.Extended(s.pod) {
		return "" // of what extenders would say, too, nothing is known
	}
	v, err := c.claims.Of(s.pod, profile)
	if err != nil {
		return ""
	}
	defer v.SetAside(s.pod)()
	defer c.lookUp(v)()
	concern, err := c.concernOf(s.pod, profile)
	r := c.query(profile, engine.Query{Pod: s.pod, Seed: Seed(s.pod.UID, s.attempt)})
	if err != nil || r.Err != nil || len(r.Feasible) == 0 {
		return ""
	}
	best := r.Feasible[0].Node
	in := placement.Input{Pod: s.pod, Nodes: c.view.Nodes(), Objects: v.Lookups(c.view.Snapshot())}
	if c.restsOnHolds(in, profile, &concern, best, nil) {
		return ""
	}
	return best.Node.Name
}

// promote sends T3 if the pod fits now that all who had to go have gone; else the place is
// given up.
func (c *Core) promote(s standing, out *Output) look {
	if s.vetting.unstorable != "" {
		return c.giveUp(s, end{reason: s.vetting.unstorable, failed: true}, out)
	}
	profile, ok := c.cfg.Profiles[s.pod.SchedulerName]
	if !ok {
		return c.giveUp(s, end{reason: "no profile of that name is configured"}, out)
	}
	node, ok := c.view.Ask(view.Now, s.doc.NodeUID, s.plan)
	if !ok {
		return c.giveUp(s, end{reason: "the node is gone"}, out)
	}
	concern, err := c.concernOf(s.pod, profile)
	if err != nil {
		return c.giveUp(s, end{reason: err.Error()}, out)
	}
	if concern.Uncertain || node.UndescribedPods() > 0 {
		return lookAgain
	}
	if concern.CountsBatch() && c.attempts.count(staged, reserving) > 0 {
		c.plans.quiet = true // until what is staged stands, or does not
		return lookAgain
	}
	guards, ready := c.rests(s.pod, node, &concern)
	switch {
	case ready:
	case c.now.Sub(s.moved) > holdPatience:
		return c.giveUp(s, end{reason: "what its rules about other pods need has not come to stand"}, out)
	default:
		return lookAgain
	}
	v, err := c.claims.Of(s.pod, profile)
	if err != nil {
		return c.giveUp(s, end{reason: err.Error()}, out)
	}
	defer v.SetAside(s.pod)()
	in := placement.Input{Pod: s.pod, Nodes: []*state.NodeInfo{node}, Objects: v.Lookups(c.view.Snapshot())}
	if !concern.None() || v.HasExclusive() {
		in.Nodes = c.nodesWith(node)
	}
	fits, why, err := profile.FitsWithout(in, node, nil)
	switch {
	case err != nil:
		return c.giveUp(s, end{reason: err.Error()}, out)
	case !fits:
		return c.lacksRoom(s, profile, in, obstacle{node, why}, out)
	}
	if l := c.besideOthers(s, profile, in, footing{node: node, concern: concern}, out); l != 0 {
		return l
	}
	if l := c.vet(s, profile, node.Node, out); l != 0 {
		return l
	}
	f := footing{node: node, concern: concern, guards: guards}
	switch f.volumes, f.exclusives, ready, err = c.resupply(s, profile, v, node.Node); {
	case err != nil:
		return c.giveUp(s, end{reason: err.Error(), failed: true}, out)
	case !ready:
		return lookAgain
	}
	return c.sendPromotion(s, f, out)
}

// besideOthers is a look at a hold whose pod fits: whether that rests on the places of others; 0 if not.
func (c *Core) besideOthers(
	s standing, profile *placement.Profile, in placement.Input, f footing, out *Output,
) look {
	takes := c.takesPromised(s, profile, in)
	rests := c.restsOnHolds(in, profile, &f.concern, f.node, nil)
	switch {
	case takes && s.yielding.alone:
		return c.giveUp(s, end{reason: "the room that is left there is promised to another pod"}, out)
	case (takes || rests) && c.now.Sub(s.moved) <= holdPatience:
		return lookLater // until the other has its place, or gives it up
	case rests:
		return c.giveUp(s, end{reason: "pods that it is spread with have not come to stand", failed: true}, out)
	}
	return 0
}

// footing is what a promotion rests on, and what it gives the pod.
type footing struct {
	node       *state.NodeInfo
	concern    guard.Concern
	guards     []ledger.GuardUse
	volumes    claims.Supply
	exclusives []ledger.ExclusiveDoc
}

// resupply picks anew what the claims of a pod get whose place becomes its own; false if that cannot be
// told yet.
func (c *Core) resupply(
	s standing, profile *placement.Profile, v claims.Supply, node *state.Node,
) (claims.Supply, []ledger.ExclusiveDoc, bool, error) {
	if !c.claims.Settled(v, s.doc) {
		return v, nil, false, nil
	}
	v, ok, err := c.claims.Pick(v, profile, claims.Target{
		Pod: s.pod, Node: node, Seed: Seed(s.pod.UID, s.attempt),
	})
	if err != nil || !ok {
		return v, nil, false, err
	}
	docs := map[string]ledger.ExclusiveDoc{}
	for x := range c.ledger.Exclusives() {
		if free, had := ledger.LetGo(c.claims.Exclusive(x.Key), s.token); had {
			docs[x.Key] = free
		}
	}
	held, err := c.claims.Take(v.Holdings(), ledger.Holder{PodUID: s.podUID, Token: s.token, NodeUID: node.UID}, docs)
	for key, x := range held {
		docs[key] = ledger.HeldAgain(c.claims.Exclusive(key), x, s.token)
	}
	return v, sortedDocs(docs), err == nil, nil
}

// rests is what a placement on a node rests on beyond it; false if that is not known yet.
func (c *Core) rests(pod *state.Pod, node *state.NodeInfo, concern *guard.Concern) ([]ledger.GuardUse, bool) {
	var followed following
	if concern.Together() {
		followed = c.keepers(pod, node)
	}
	n, ready := c.demands(concern, node, followed)
	if len(n.missing) > 0 {
		_ = c.enlist(pod.Namespace, n.missing) // without room for them: again, until the place is given up
		return nil, false
	}
	return n.guards, ready && !followed.waits
}

// nodesWith are all nodes, one of them as given.
func (c *Core) nodesWith(node *state.NodeInfo) []*state.NodeInfo {
	nodes := slices.Clone(c.view.Nodes())
	for i, n := range nodes {
		if n.Node.UID == node.Node.UID {
			nodes[i] = node
		}
	}
	return nodes
}

func (c *Core) sendPromotion(s standing, f footing, out *Output) look {
	mandate, mine := c.mandate(s.entry.Partition())
	if !mine {
		return lookLater
	}
	target, _ := ledger.Finish(s.doc, c.view)
	p := ledger.Promotion{
		Mandate: mandate, Target: ledger.Cover(target, ledger.KindNode, f.node.Node.ResourceVersion), Docs: s.others,
		PodUID: s.podUID, Token: s.token, PodRV: s.pod.ResourceVersion, Wish: s.pod.Wish(),
		Fits: true, Guards: f.guards, Facts: c.view,
		Volumes: f.volumes.Volumes, Devices: f.volumes.Devices, Exclusives: f.exclusives,
	}
	if r, ok := c.ledger.Record(s.plan); ok {
		p.Record = &r
	}
	s.vetting = vetting{} // an opinion is as old as its question
	if s.deal != nil {
		p.Delegated = s.deal.delegate(f.volumes)
	}
	change, err := ledger.Promote(p)
	if err == nil {
		d := &promotion{standing: s, node: f.node.Node, agreed: s.deal, supplied: len(p.Volumes)+len(p.Devices) > 0}
		err = c.launch(d, change, out)
	}
	var refused *ledger.RefusedError
	switch {
	case err == nil:
		return lookSent
	case errors.As(err, &refused):
		return lookAgain
	}
	return c.giveUp(s, end{reason: err.Error()}, out)
}

// promotion is a T3 in flight.
type promotion struct {
	standing
	node *state.Node
	// agreed is what plugins have to do with it, nil for nothing.
	agreed *deal
	// supplied: it picks volumes or devices anew.
	supplied bool
}

func (p *promotion) kind() string { return "T3" }

func (p *promotion) done(c *Core, revision int64, out *Output) {
	if deal := p.agreed; deal != nil {
		p.deal, deal.attempt.pod = nil, p.pod
		if deal.delegated && !deal.over {
			c.letBind(deal, revision)
			return
		}
		if !deal.over {
			c.performing.bindable[p.podUID] = deal
		}
		c.tellPlaced(deal.attempt, revision, out)
		return
	}
	d := p.decision(c, events.DecisionPlaced)
	d.LedgerRevision = revision
	d.NodesTotal = int32(len(c.view.Nodes()))
	d.NodesFeasible = 1
	out.Decisions = append(out.Decisions, d)
	out.Attempts = append(out.Attempts, Attempt{
		Pod: d.Pod, Received: p.since, Decided: c.now, Profile: p.pod.SchedulerName, Number: p.attempt,
		Outcome: Scheduled, NodeName: d.NodeName, Feasible: 1, Nodes: int(d.NodesTotal), Held: true,
	})
	c.report(PlanReport{What: PlanPromoted, Pod: d.Pod, Node: d.NodeName, Held: c.now.Sub(p.since)})
}

// tooLarge: its place is given up, which takes less.
func (p *promotion) tooLarge(c *Core, why string, _ *Output) {
	p.vetting.unstorable = why
	c.plans.due[p.podUID] = struct{}{}
}

func (p *promotion) undone(c *Core, _ ledger.Lost, _ *Output) { c.plans.due[p.podUID] = struct{}{} }

// decision is about the pod of a hold.
func (s *standing) decision(c *Core, kind events.DecisionKind) events.Decision {
	d := events.Decision{
		Kind: kind, Pod: refOf(s.entry), SchedulerName: s.entry.SchedulerName, Actor: c.cfg.Shard,
		Attempt: s.attempt, Token: s.token.String(), PodResourceVersion: s.entry.PodRV,
		FactSequence: c.store.Position().Sequence, LedgerRevision: c.ledger.Revision(),
		NodeUID: s.doc.NodeUID, NodeName: s.doc.NodeName, TraceParent: s.traceParent,
	}
	if s.pod != nil {
		d.PodResourceVersion = s.pod.ResourceVersion
	}
	return d
}
