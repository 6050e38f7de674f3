package preempt

import (
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

// promote sends T3 if the pod fits now that all its victims have gone; otherwise it gives the place up, or waits.
// The first step with a result ends it. The steps are those of a placement (placer.place in package decide) on a
// single node, with one difference: they may wait for other pods, because pods were evicted for this place.
func (rc *reconciler) promote(s holdState) inspection {
	f := promotionBasis{}
	l := rc.collectBasis(s, &f) // 1. the profile, the node without the victims, and the rules about other nodes
	if l == inspectionOpen {
		l = rc.checkGuards(s, &f) // 2. what the placement depends on beyond its node
	}
	if l != inspectionOpen {
		return l
	}
	v, err := rc.shard.Claims.SupplyFor(s.pod, f.profile)
	if err != nil {
		return rc.giveUp(s, withdrawal{reason: err.Error()})
	}
	defer v.SetAside(s.pod)()
	f.volumes = v
	l = rc.checkFit(s, &f) // 3. the pod fits there, and does not use the room of another pod
	if l == inspectionOpen {
		l = rc.vetPlace(s, f.profile, f.node.Node) // 4. the opinion of extenders on the node
	}
	if l == inspectionOpen {
		l = rc.pickSupply(s, &f) // 5. volumes and devices for the pod's claims
	}
	if l == inspectionOpen {
		l = rc.sendPromotion(s, f) // 6. T3
	}
	return l
}

// promotionBasis is the state that a promotion depends on, and the volumes and devices that it gives the pod. Each
// step fills in its part.
type promotionBasis struct {
	profile *placement.Profile
	// node is the node of the place without the hold and the victims of its plan.
	node    *state.NodeInfo
	concern guard.Concern
	guards  []registry.GuardUse
	volumes claims.Supply
	// exclusives are the documents of claims and pools in which the hold has something, or the reservation will.
	exclusives []ledger.ExclusiveDoc
	// before are the pods that are promoted to the node by the same transaction, and count there.
	before []*state.Pod
}

// collectBasis collects the state on which a promotion is decided. A promotion that the store refused for its size
// is not tried again: the place is given up, which needs a smaller transaction. While the rules about other pods are
// uncertain, or the node has pods that no fact describes, the promotion is tried again.
func (rc *reconciler) collectBasis(s holdState, f *promotionBasis) inspection {
	if s.vetting.unstorable != "" {
		return rc.giveUp(s, withdrawal{reason: s.vetting.unstorable, failed: true})
	}
	var ok bool
	if f.profile, ok = rc.shard.Profiles[s.pod.SchedulerName]; !ok {
		return rc.giveUp(s, withdrawal{reason: "no profile of that name is configured"})
	}
	if f.node, ok = rc.shard.View.Ask(view.Now, s.doc.NodeUID, s.plan); !ok {
		return rc.giveUp(s, withdrawal{reason: "the node is gone"})
	}
	if len(f.before) > 0 {
		f.node = f.node.Clone()
		for _, pod := range f.before {
			f.node.AddPod(pod)
		}
	}
	var err error
	if f.concern, err = rc.rules.ConcernOf(s.pod, f.profile); err != nil {
		return rc.giveUp(s, withdrawal{reason: err.Error()})
	}
	if f.concern.Uncertain || f.node.UndescribedPods() > 0 {
		return inspectionRepeats
	}
	return inspectionOpen
}

// checkGuards determines what a placement depends on beyond its node. It waits until no attempt is staged that the
// pod's rules would count, and for guards that are not counted yet; the latter for holdPatience at most.
func (rc *reconciler) checkGuards(s holdState, f *promotionBasis) inspection {
	if f.concern.CountsBatch() && rc.attempts.Count(attempt.Staged, attempt.Reserving) > 0 {
		rc.quiet = true // until staged pods have been reserved or withdrawn
		return inspectionRepeats
	}
	var ready bool
	f.guards, ready = rc.terms.GuardsFor(s.pod, f.node, &f.concern)
	switch {
	case ready:
		return inspectionOpen
	case rc.shard.Now.Sub(s.lastProgress) > holdPatience:
		return rc.giveUp(s, withdrawal{reason: "what its rules about other pods need has not come to stand"})
	}
	return inspectionRepeats
}

// checkFit checks whether the pod fits on the node, and whether that depends on the held places of other pods. Pods
// on other nodes are looked at only for rules that reach there.
func (rc *reconciler) checkFit(s holdState, f *promotionBasis) inspection {
	in := placement.Input{
		Pod: s.pod, Nodes: []*state.NodeInfo{f.node}, Objects: f.volumes.Lookups(rc.shard.View.Snapshot()),
	}
	if !f.concern.None() || f.volumes.HasExclusive() {
		in.Nodes = rc.shard.NodesWith(f.node)
	}
	fits, why, err := f.profile.FitsWithout(in, f.node, nil)
	switch {
	case err != nil:
		return rc.giveUp(s, withdrawal{reason: err.Error()})
	case !fits:
		return rc.handleUnfit(s, f.profile, in, obstacle{f.node, why})
	}
	return rc.checkOtherHolds(s, in, f)
}

// checkOtherHolds checks whether a fit depends on the held places of other pods; inspectionOpen if not. There are
// two ways: the free room was cleared for another pod, or hard spread passes only because held pods count in other
// domains. In both cases the hold waits for the other pods, for holdPatience at most. After that the spread ends the
// plan as a failure, while the room alone does not. A plan whose room was cleared for another pod is given up at
// once if it had no victims of its own that were evicted.
func (rc *reconciler) checkOtherHolds(s holdState, in placement.Input, f *promotionBasis) inspection {
	takes := rc.takesHeldRoom(s, f.profile, in)
	rests := rc.search.DependsOnHolds(in, f.profile, &f.concern, f.node, nil)
	switch {
	case takes && s.yielding.alone:
		return rc.giveUp(s, withdrawal{reason: "the room that is left there is promised to another pod"})
	case (takes || rests) && rc.shard.Now.Sub(s.lastProgress) <= holdPatience:
		return inspectionWaits // until the other pod has its place, or gives it up
	case rests:
		return rc.giveUp(s, withdrawal{reason: "pods that it is spread with have not come to stand", failed: true})
	}
	return inspectionOpen
}

// pickSupply picks again what the pod's claims get, and waits until that is known. An error counts as a failure of
// the plan.
func (rc *reconciler) pickSupply(s holdState, f *promotionBasis) inspection {
	v, exclusives, ready, err := rc.repick(s, f.profile, f.volumes, f.node.Node)
	switch {
	case err != nil:
		return rc.giveUp(s, withdrawal{reason: err.Error(), failed: true})
	case !ready:
		return inspectionRepeats
	}
	f.volumes, f.exclusives = v, exclusives
	return inspectionOpen
}

// repick picks again what the claims of a promoted pod get; false if that is not known yet. The nomination has
// promised something already, but what is free has changed since: above all, the victims' claims have been released.
// The returned documents free what the hold has, and hold what is picked.
func (rc *reconciler) repick(
	s holdState, profile *placement.Profile, v claims.Supply, node *state.Node,
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
	for x := range rc.shard.Ledger.Exclusives().All() {
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

// sendPromotion builds and sends T3. txns.Promote checks the conditions again, on the documents; what it refuses is
// inspected again later. Extenders are asked again after a promotion that was lost, as an opinion holds only as of
// its question.
func (rc *reconciler) sendPromotion(s holdState, f promotionBasis) inspection {
	p, mine := rc.promotionOf(s, f)
	if !mine {
		return inspectionWaits
	}
	change, err := txns.Promote(p)
	if err == nil {
		d := &promotion{holdState: s, node: f.node.Node, binding: s.plugins, repicked: len(p.Volumes)+len(p.Devices) > 0}
		err = rc.slot.Launch(d, change)
	}
	if l := resultOf(err); l != inspectionOpen {
		return l
	}
	return rc.giveUp(s, withdrawal{reason: err.Error()})
}

// promotionOf returns the T3 of a hold; false if the pod's partition is another shard's now.
func (rc *reconciler) promotionOf(s holdState, f promotionBasis) (p txns.Promotion, mine bool) {
	authority, mine := rc.shard.Authority(s.entry.Partition())
	if !mine {
		return p, false
	}
	target, _ := txns.Finish(s.doc, rc.shard.View.TxnFacts())
	p = txns.Promotion{
		Authority: authority, Target: target.Cover(ledger.KindNode, f.node.Node.ResourceVersion), Docs: s.otherDocs,
		PodUID: s.podUID, Token: s.token, PodRV: s.pod.ResourceVersion, Wish: s.pod.PlacementHash(),
		Fits: true, Guards: f.guards, Facts: rc.shard.View.TxnFacts(),
		Volumes: f.volumes.Volumes, Devices: f.volumes.Devices, Exclusives: f.exclusives,
	}
	if r, ok := rc.shard.Ledger.Plans().Record(s.plan); ok {
		p.Record = &r
	}
	s.vetting = vetting{} // an opinion holds only as of its question
	if s.plugins != nil {
		p.Delegated = s.plugins.Delegate(f.volumes)
	}
	return p, true
}

// promotion is a T3 in flight. Its hold remains in Holds until the ledger's change shows that it is no hold any
// more.
type promotion struct {
	holdState
	node *state.Node
	// binding is the agreement of its plugins, nil for none.
	binding *attempt.PluginBinding
	// repicked: it has picked volumes or devices again.
	repicked bool
}

// Resupplies implements an option of txn.Proposal: decisions made while this transaction was in flight have counted
// what the nomination had promised, if it has picked again.
func (p *promotion) Resupplies() bool { return p.repicked }

func (p *promotion) Kind() string { return "T3" }

// Done records the placement. For a hold that plugins have prepared, the record is that of the attempt; if plugins
// also bind, it follows when they have answered. For other holds the attempt ended with the nomination, so the
// decision and the report are built from the hold.
func (p *promotion) Done(revision int64) {
	rc := p.by
	if binding := p.binding; binding != nil {
		p.plugins, binding.Attempt.Pod = nil, p.pod
		if binding.Delegated && !binding.Ended {
			rc.performing.StartBind(binding, revision)
			return
		}
		if !binding.Ended {
			rc.performing.WatchBind(p.podUID, binding)
		}
		rc.record.Placed(binding.Attempt, revision)
		return
	}
	d := p.decision(events.DecisionPlaced)
	d.LedgerRevision = revision
	d.NodesTotal = int32(len(rc.shard.View.Nodes()))
	d.NodesFeasible = 1
	rc.effects.Decide(d)
	rc.effects.Report(step.Attempt{
		Pod: d.Pod, Received: p.firstSeen, Decided: rc.shard.Now, Profile: p.pod.SchedulerName, Number: p.attempt,
		Outcome: step.Scheduled, NodeName: d.NodeName, Feasible: 1, Nodes: int(d.NodesTotal), Held: true,
	})
	rc.effects.Plan(step.PlanReport{
		Event: step.PlanPromoted, Pod: d.Pod, Node: d.NodeName, Held: rc.shard.Now.Sub(p.firstSeen),
	})
}

// TooLarge marks the place to be given up, which needs a smaller transaction.
func (p *promotion) TooLarge(why string) {
	rc := p.by
	p.vetting.unstorable = why
	rc.holds.due[p.podUID] = struct{}{}
}

// Undone makes the hold due: it is inspected again on the documents that it has lost to.
func (p *promotion) Undone(txns.Outcome) { p.by.holds.due[p.podUID] = struct{}{} }
