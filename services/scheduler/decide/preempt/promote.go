package preempt

import (
	"errors"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/guard"
	"github.com/berth-scheduler/berth/pkg/ledger/registry"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/pkg/ledger/view"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/scheduler/decide/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/decide/claims"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

// promote sends T3 if the pod fits now that all its victims have gone; otherwise it gives the place up. The first
// step with a result ends it.
func (rc *reconciler) promote(s standing) look {
	f := footing{}
	l := rc.ground(s, &f) // 1. the profile, the node without the victims, and the rules about other nodes
	if l == lookOpen {
		l = rc.guard(s, &f) // 2. what the placement depends on beyond its node
	}
	if l != lookOpen {
		return l
	}
	v, err := rc.shard.Claims.Of(s.pod, f.profile)
	if err != nil {
		return rc.giveUp(s, end{reason: err.Error()})
	}
	defer v.SetAside(s.pod)()
	f.volumes = v
	l = rc.fit(s, &f) // 3. the pod fits there, and does not use the room of another pod
	if l == lookOpen {
		l = rc.vetPlace(s, f.profile, f.node.Node) // 4. the opinion of extenders on the node
	}
	if l == lookOpen {
		l = rc.supply(s, &f) // 5. volumes and devices for the pod's claims
	}
	if l == lookOpen {
		l = rc.sendPromotion(s, f) // 6. T3
	}
	return l
}

// footing is the state that a promotion depends on, and the volumes and devices that it gives the pod.
type footing struct {
	profile    *placement.Profile
	node       *state.NodeInfo
	concern    guard.Concern
	guards     []registry.GuardUse
	volumes    claims.Supply
	exclusives []ledger.ExclusiveDoc
}

// ground collects the state on which a promotion is decided.
func (rc *reconciler) ground(s standing, f *footing) look {
	if s.vetting.unstorable != "" {
		return rc.giveUp(s, end{reason: s.vetting.unstorable, failed: true})
	}
	var ok bool
	if f.profile, ok = rc.shard.Profile(s.pod); !ok {
		return rc.giveUp(s, end{reason: "no profile of that name is configured"})
	}
	if f.node, ok = rc.shard.View.Ask(view.Now, s.doc.NodeUID, s.plan); !ok {
		return rc.giveUp(s, end{reason: "the node is gone"})
	}
	var err error
	if f.concern, err = rc.rules.ConcernOf(s.pod, f.profile); err != nil {
		return rc.giveUp(s, end{reason: err.Error()})
	}
	if f.concern.Uncertain || f.node.UndescribedPods() > 0 {
		return lookAgain
	}
	return lookOpen
}

// guard determines what a placement depends on beyond its node. It waits until no attempt is staged that the pod's
// rules would count.
func (rc *reconciler) guard(s standing, f *footing) look {
	if f.concern.CountsBatch() && rc.attempts.Count(attempt.Staged, attempt.Reserving) > 0 {
		rc.quiet = true // until staged pods have been reserved or withdrawn
		return lookAgain
	}
	var ready bool
	f.guards, ready = rc.terms.Rests(s.pod, f.node, &f.concern)
	switch {
	case ready:
		return lookOpen
	case rc.shard.Now.Sub(s.moved) > holdPatience:
		return rc.giveUp(s, end{reason: "what its rules about other pods need has not come to stand"})
	}
	return lookAgain
}

// fit checks whether the pod fits on the node, and whether that depends on the held places of other pods.
func (rc *reconciler) fit(s standing, f *footing) look {
	in := placement.Input{
		Pod: s.pod, Nodes: []*state.NodeInfo{f.node}, Objects: f.volumes.Lookups(rc.shard.View.Snapshot()),
	}
	if !f.concern.None() || f.volumes.HasExclusive() {
		in.Nodes = rc.shard.NodesWith(f.node)
	}
	fits, why, err := f.profile.FitsWithout(in, f.node, nil)
	switch {
	case err != nil:
		return rc.giveUp(s, end{reason: err.Error()})
	case !fits:
		return rc.lacksRoom(s, f.profile, in, obstacle{f.node, why})
	}
	return rc.besideOthers(s, in, f)
}

// besideOthers checks whether a fit depends on the held places of other pods; lookOpen if not.
func (rc *reconciler) besideOthers(s standing, in placement.Input, f *footing) look {
	takes := rc.takesPromised(s, f.profile, in)
	rests := rc.search.RestsOnHolds(in, f.profile, &f.concern, f.node, nil)
	switch {
	case takes && s.yielding.alone:
		return rc.giveUp(s, end{reason: "the room that is left there is promised to another pod"})
	case (takes || rests) && rc.shard.Now.Sub(s.moved) <= holdPatience:
		return lookLater // until the other pod has its place, or gives it up
	case rests:
		return rc.giveUp(s, end{reason: "pods that it is spread with have not come to stand", failed: true})
	}
	return lookOpen
}

// supply picks again what the pod's claims get, and waits until that is known.
func (rc *reconciler) supply(s standing, f *footing) look {
	v, exclusives, ready, err := rc.resupply(s, f.profile, f.volumes, f.node.Node)
	switch {
	case err != nil:
		return rc.giveUp(s, end{reason: err.Error(), failed: true})
	case !ready:
		return lookAgain
	}
	f.volumes, f.exclusives = v, exclusives
	return lookOpen
}

// resupply picks again what the claims of a promoted pod get; false if that is not known yet.
func (rc *reconciler) resupply(
	s standing, profile *placement.Profile, v claims.Supply, node *state.Node,
) (claims.Supply, []ledger.ExclusiveDoc, bool, error) {
	if !rc.shard.Claims.Settled(v, s.doc) {
		return v, nil, false, nil
	}
	v, ok, err := rc.shard.Claims.Pick(v, profile, claims.Target{
		Pod: s.pod, Node: node, Seed: attempt.Seed(s.pod.UID, s.attempt),
	})
	if err != nil || !ok {
		return v, nil, false, err
	}
	docs := map[string]ledger.ExclusiveDoc{}
	for x := range rc.shard.Ledger.Exclusives() {
		if free, had := rc.shard.Claims.Exclusive(x.Key).ReleaseHolder(s.token); had {
			docs[x.Key] = free
		}
	}
	holder := ledger.Holder{PodUID: s.podUID, Token: s.token, NodeUID: node.UID}
	held, err := rc.shard.Claims.Take(v.Holdings(), holder, docs)
	for key, x := range held {
		docs[key] = x.KeepHolderFields(rc.shard.Claims.Exclusive(key), s.token)
	}
	return v, claims.Sorted(docs), err == nil, nil
}

func (rc *reconciler) sendPromotion(s standing, f footing) look {
	mandate, mine := rc.shard.Mandate(s.entry.Partition())
	if !mine {
		return lookLater
	}
	target, _ := txns.Finish(s.doc, rc.shard.View)
	p := txns.Promotion{
		Authority: mandate, Target: target.Cover(ledger.KindNode, f.node.Node.ResourceVersion), Docs: s.others,
		PodUID: s.podUID, Token: s.token, PodRV: s.pod.ResourceVersion, Wish: s.pod.Wish(),
		Fits: true, Guards: f.guards, Facts: rc.shard.View,
		Volumes: f.volumes.Volumes, Devices: f.volumes.Devices, Exclusives: f.exclusives,
	}
	if r, ok := rc.shard.Ledger.Record(s.plan); ok {
		p.Record = &r
	}
	s.vetting = vetting{} // an opinion holds only as of its question
	if s.deal != nil {
		p.Delegated = s.deal.Delegate(f.volumes)
	}
	change, err := txns.Promote(p)
	if err == nil {
		d := &promotion{standing: s, node: f.node.Node, agreed: s.deal, supplied: len(p.Volumes)+len(p.Devices) > 0}
		err = rc.slot.Launch(d, change)
	}
	var refused *txns.RefusedError
	switch {
	case err == nil:
		return lookSent
	case errors.As(err, &refused):
		return lookAgain
	}
	return rc.giveUp(s, end{reason: err.Error()})
}

// promotion is a T3 in flight.
type promotion struct {
	standing
	node *state.Node
	// agreed is the deal of its plugins, nil for none.
	agreed *attempt.Deal
	// supplied: it has picked volumes or devices again.
	supplied bool
}

// Resupplies implements an option of txn.Proposal.
func (p *promotion) Resupplies() bool { return p.supplied }

func (p *promotion) Kind() string { return "T3" }

func (p *promotion) Done(revision int64) {
	rc := p.by
	if deal := p.agreed; deal != nil {
		p.deal, deal.Attempt.Pod = nil, p.pod
		if deal.Delegated && !deal.Over {
			rc.performing.LetBind(deal, revision)
			return
		}
		if !deal.Over {
			rc.performing.Watch(p.podUID, deal)
		}
		rc.record.Placed(deal.Attempt, revision)
		return
	}
	d := p.decision(events.DecisionPlaced)
	d.LedgerRevision = revision
	d.NodesTotal = int32(len(rc.shard.View.Nodes()))
	d.NodesFeasible = 1
	rc.effects.Decide(d)
	rc.effects.Report(step.Attempt{
		Pod: d.Pod, Received: p.since, Decided: rc.shard.Now, Profile: p.pod.SchedulerName, Number: p.attempt,
		Outcome: step.Scheduled, NodeName: d.NodeName, Feasible: 1, Nodes: int(d.NodesTotal), Held: true,
	})
	rc.effects.Plan(step.PlanReport{
		What: step.PlanPromoted, Pod: d.Pod, Node: d.NodeName, Held: rc.shard.Now.Sub(p.since),
	})
}

// TooLarge marks the place to be given up, which needs a smaller transaction.
func (p *promotion) TooLarge(why string) {
	rc := p.by
	p.vetting.unstorable = why
	rc.holds.due[p.podUID] = struct{}{}
}

func (p *promotion) Undone(txns.Outcome) { p.by.holds.due[p.podUID] = struct{}{} }
