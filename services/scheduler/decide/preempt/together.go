package preempt

import (
	"fmt"
	"slices"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/pkg/ledger/view"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

// gangHolds inspects the holds of gangs. They stand and fall together.
type gangHolds struct{ rc *reconciler }

// inspect is the inspection of a hold for a member of a gang, instead of the steps 4 to 7 of reconciler.inspect:
//
//  4. Enough members must have a place, on nodes that still take them. While this shard holds the places one after the
//     other, the hold waits; otherwise it is given up.
//  5. The plans of all members must be Ready. They become so at once, and only then are victims evicted.
//  6. The victims of all members must have gone.
//  7. All members are promoted in one transaction, if they still fit.
func (x gangHolds) inspect(s holdState) inspection {
	rc := x.rc
	m := membersOf(rc.shard, s.gang)
	ready := x.isReady(s)
	switch {
	case s.vetting.unstorable != "":
		return x.giveUp(s, s.vetting.unstorable)
	case m.lacking() > 0 && x.isGathering(s):
		return inspectionWaits
	case m.lacking() > 0:
		return x.giveUp(s, fmt.Sprintf("%d of at least %d members of its gang have a place",
			m.placed+len(m.held), s.gang.MinCount))
	case !ready && m.placed >= s.gang.MinCount:
		return x.giveUp(s, "its gang has started without it")
	}
	all, complete := x.statesOf(&m)
	if !complete {
		return inspectionRepeats
	}
	if why := x.misfit(s, all); why != "" {
		return x.giveUp(s, why)
	}
	if !ready {
		return x.start(s, all)
	}
	if left, grace := rc.victimsLeft(s); left {
		return rc.await(s, grace)
	}
	rc.holds.setBegun(s.hold, true)
	for _, o := range all {
		if left, _ := rc.victimsLeft(o); left || !x.isReady(o) {
			return inspectionWaits // the last one to be free promotes all
		}
	}
	return x.promote(s, all)
}

// giveUp gives a place up. It counts as a failure if pods may have been evicted for it. The gang is not tried again for
// a while.
func (x gangHolds) giveUp(s holdState, reason string) inspection {
	r, _ := x.rc.shard.Ledger.Plans().Record(s.plan)
	claims := victimsOf(append(s.otherDocs, s.doc), s.plan)
	evicted := r.State == ledger.PlanReady && len(claims) < r.Victims || x.rc.anyMarked(s)
	return x.rc.giveUp(s, withdrawal{reason: reason, failed: evicted})
}

// isGathering reports whether this shard still holds places for other members of the hold's gang.
func (x gangHolds) isGathering(s holdState) bool {
	return s.lead != nil && x.rc.attempts.ByPod[s.lead.Pod.UID] == s.lead &&
		x.rc.shard.Now.Sub(s.firstSeen) <= gatherPatience
}

// isReady reports whether victims may be evicted for a hold.
func (x gangHolds) isReady(s holdState) bool {
	r, known := x.rc.shard.Ledger.Plans().Record(s.plan)
	return known && r.State == ledger.PlanReady
}

// statesOf returns the holds of a gang, in the order of their pods' UIDs; false if one is not known yet.
func (x gangHolds) statesOf(m *members) (all []holdState, complete bool) {
	for _, uid := range m.held {
		h, known := x.rc.holds.held[uid]
		if !known {
			return nil, false
		}
		s, ok := x.rc.stateOf(h)
		if !ok || s.pod == nil {
			return nil, false
		}
		s.gang = m.group
		all = append(all, s)
	}
	return all, true
}

// misfit returns why a member would not fit on its node even if the victims of all members had gone; empty if it would.
// It is checked early, before pods are evicted for the other members.
func (x gangHolds) misfit(s holdState, all []holdState) string {
	rc := x.rc
	profile, served := rc.shard.Profiles[s.pod.SchedulerName]
	node, known := rc.shard.View.Ask(view.Now, s.doc.NodeUID, s.plan)
	switch {
	case !served:
		return "no profile of that name is configured"
	case !known:
		return "the node is gone"
	}
	node = node.Clone()
	for _, v := range victimsOfGang(rc.shard, s.doc, s.pod) {
		node.RemovePod(v.PodUID)
	}
	for _, o := range all {
		if o.doc.NodeUID == s.doc.NodeUID && o.podUID != s.podUID {
			node.AddPod(o.pod)
		}
	}
	in := placement.Input{Pod: s.pod, Nodes: []*state.NodeInfo{node}, Objects: rc.shard.View.Snapshot()}
	if fits, why, err := profile.FitsWithout(in, node, nil); err == nil && !fits {
		return "the pod does not fit there any more: " + fmt.Sprint(why.Reasons)
	}
	return ""
}

// start makes the plans of all members Ready, if all of them still fit. A gang whose promotion would not fit in one
// transaction is given up before anyone is evicted for it.
func (x gangHolds) start(s holdState, all []holdState) inspection {
	rc := x.rc
	var plans []txns.FormedPlan
	var holds []ledger.NodeDoc
	weight := 0
	for _, o := range all {
		if !slices.ContainsFunc(holds, func(d ledger.NodeDoc) bool { return d.NodeUID == o.doc.NodeUID }) {
			holds = append(holds, o.doc)
			weight += o.doc.Weight()
		}
		r, known := rc.shard.Ledger.Plans().Record(o.plan)
		why := x.misfit(o, all)
		switch {
		case !known || r.State != ledger.PlanReady && r.State != ledger.PlanForming:
			why = "its plan was not completed"
		case r.State == ledger.PlanForming:
			plans = append(plans, txns.FormedPlan{Record: r, Hold: o.doc})
		}
		if why != "" {
			return x.giveUp(o, why)
		}
	}
	authority, mine := rc.shard.Authority(s.entry.Partition())
	switch {
	case !mine:
		return inspectionWaits
	case weight > ledger.MaxTxnBytes/2 || !txns.FitsTogether(len(all), len(holds)):
		return x.giveUp(s, tooLargeTogether)
	}
	change, err := txns.FinishPlans(authority, plans, holds)
	if err == nil {
		err = rc.slot.Launch(&gangStart{by: rc, members: all}, change)
	}
	return x.sent(s, err)
}

// sent returns the result of an inspection that wanted to send a transaction for all members.
func (x gangHolds) sent(s holdState, err error) inspection {
	if l := resultOf(err); l != inspectionOpen {
		return l
	}
	return x.giveUp(s, err.Error())
}

// promote sends one T3 for all members, if all still fit: each is checked with those before it on its node.
func (x gangHolds) promote(s holdState, all []holdState) inspection {
	rc := x.rc
	d := &gangPromotion{by: rc}
	var list []txns.Promotion
	before := map[string][]*state.Pod{}
	for _, o := range all {
		for _, doc := range append(o.otherDocs, o.doc) {
			if rc.shard.View.TxnFacts().PodProgress() < doc.HighWater(ledger.KindPod) {
				return inspectionRepeats
			}
		}
		f := promotionBasis{before: before[o.doc.NodeUID]}
		if l := x.prepare(o, &f); l != inspectionOpen {
			return l
		}
		before[o.doc.NodeUID] = append(before[o.doc.NodeUID], o.pod)
		p, mine := rc.promotionOf(o, f)
		if !mine {
			return inspectionWaits
		}
		list = append(list, p)
		d.members = append(d.members, &promotion{holdState: o, node: f.node.Node})
	}
	change, err := txns.PromoteTogether(list)
	if err == nil {
		err = rc.slot.Launch(d, change)
	}
	return x.sent(s, err)
}

// prepare collects what the promotion of one member depends on: the steps 1 to 5 of reconciler.promote.
func (x gangHolds) prepare(s holdState, f *promotionBasis) inspection {
	rc := x.rc
	l := rc.collectBasis(s, f)
	if l == inspectionOpen {
		l = rc.checkGuards(s, f)
	}
	if l != inspectionOpen {
		return l
	}
	var err error
	if f.volumes, err = rc.shard.Claims.SupplyFor(s.pod, f.profile); err != nil {
		return x.giveUp(s, err.Error())
	}
	l = rc.checkFit(s, f)
	if l == inspectionOpen {
		l = rc.vetPlace(s, f.profile, f.node.Node)
	}
	if l == inspectionOpen {
		l = rc.pickSupply(s, f)
	}
	return l
}

// gangStart is the transaction in flight that makes the plans of a gang Ready.
type gangStart struct {
	by      *reconciler
	members []holdState
}

func (g *gangStart) Kind() string { return "T2" }

// Done records that the members have places, from which binders learn that they may be nominated.
func (g *gangStart) Done(revision int64) {
	rc := g.by
	for _, s := range g.members {
		d := s.decision(events.DecisionNominated)
		d.LedgerRevision = revision
		d.NodesTotal = int32(len(rc.shard.View.Nodes()))
		if d.Evidence = s.evidence; d.Evidence != nil {
			d.FactSequence = s.factSequence
		}
		s.evidence = nil // it has its record
		rc.effects.Decide(d)
		victims := len(victimsOf(append(s.otherDocs, s.doc), s.plan))
		rc.effects.Plan(step.PlanReport{Event: step.PlanNominated, Pod: d.Pod, Node: d.NodeName, Victims: victims})
		rc.holds.noteProgress(s.hold)
	}
	reportGang(rc, g.members, step.WaitingOnPreemption)
}

// reportGang reports the end of an attempt at a gang, which began with its first hold.
func reportGang(rc *reconciler, members []holdState, o step.Outcome) {
	first := slices.MinFunc(members, func(a, b holdState) int { return a.firstSeen.Compare(b.firstSeen) })
	rc.effects.ReportGang(step.Gang{Profile: first.pod.SchedulerName, Outcome: o, Received: first.firstSeen})
}

// Undone may be the answer to a second copy of a transaction that was committed: then all plans are Ready.
func (g *gangStart) Undone(txns.Outcome) {
	done := !slices.ContainsFunc(g.members, func(s holdState) bool { return !(gangHolds{g.by}).isReady(s) })
	if done {
		g.Done(g.by.shard.Ledger.Revision())
		return
	}
	g.due()
}

// TooLarge has the places given up with the next inspection.
func (g *gangStart) TooLarge(why string) {
	for _, s := range g.members {
		s.vetting.unstorable = why
	}
	g.due()
}

func (g *gangStart) due() {
	for _, s := range g.members {
		g.by.holds.due[s.podUID] = struct{}{}
	}
}

// gangPromotion is the T3 in flight of all members of a gang.
type gangPromotion struct {
	by      *reconciler
	members []*promotion
}

func (g *gangPromotion) Kind() string { return "T3" }

// Done records the placements of all members.
func (g *gangPromotion) Done(revision int64) {
	var members []holdState
	for _, p := range g.members {
		p.Done(revision)
		members = append(members, p.holdState)
	}
	g.by.failures.GatherDone(members[0].gang)
	reportGang(g.by, members, step.Scheduled)
}

func (g *gangPromotion) TooLarge(why string) {
	for _, p := range g.members {
		p.TooLarge(why)
	}
}

func (g *gangPromotion) Undone(lost txns.Outcome) {
	for _, p := range g.members {
		p.Undone(lost)
	}
}
