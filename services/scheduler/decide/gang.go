package decide

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement/gang"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/scheduler/decide/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/decide/crossnode"
	"github.com/berth-scheduler/berth/services/scheduler/decide/search"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

// A gang is decided about in one step. Each member is decided as a pod that is placed alone, and counts on its node for
// the members after it. If enough of them have a node, all are staged together, and one transaction reserves them
// (reserve). Otherwise none is staged: what the members counted is taken back within the step, so that no other decision
// has seen it.
//
// The offer names the lead only. The members are those that the shard's facts show, which are not older than those of the
// queue when it made the offer. Members that have a reservation or are bound already count as placed: the rest of a gang
// goes where they are.

// together is the try of a gang: what it must decide about, and what has come of it.
type together struct {
	*attempt.Gang
	lead *trial
	// waiting are the members to place, in the order in which they are decided; placed are the names of the nodes where
	// members have a place already, one for each.
	waiting []*state.Pod
	placed  []string
	// unfit are the verdicts on members that have no node.
	unfit []unfit
}

// unfit is a member for which no node was found, with its verdict.
type unfit struct {
	pod *state.Pod
	d   events.Decision
}

// placeGang decides about the gang of an attempt, if its pod belongs to one; false if the pod is placed alone.
func (p *placer) placeGang(t *trial) (o outcome, is bool) {
	pod := t.attempt.Pod
	g, member := gang.Of(pod, p.shard.View.Snapshot())
	switch {
	case !member || g != nil && !g.Together():
		return outcome{}, false
	case g == nil:
		return p.rejectUntried(t, gang.NoObject(pod.PodGroup())), true
	}
	try := &together{Gang: &attempt.Gang{Group: g, Lead: t.attempt}, lead: t}
	p.effects.CountGang()
	members := p.membersOf(try)
	if o := p.mayTry(try, members); o.is != undecided {
		return o, true
	}
	if len(g.Topology) > 0 {
		return p.placeInDomain(try), true
	}
	if o := p.placeMembers(try, nil); o.is != undecided {
		return o, true
	}
	return p.concludeGang(try, ""), true
}

// membersOf sorts the members of a gang, and returns how many there are. The order is upstream's: by priority, then by
// age; ties are broken by name. Source: podGroupInfoForPod in pkg/scheduler/schedule_one_podgroup.go, where the age is
// that of the first attempt.
func (p *placer) membersOf(try *together) (known int) {
	g := try.Group
	m := gang.Sort(p.shard.View.Snapshot().PodsOfGroup(g.Namespace, g.Name))
	for _, pod := range m.Placed {
		try.placed = append(try.placed, pod.NodeName)
	}
	for _, pod := range m.Waiting {
		if doc, _, reserved := p.shard.Ledger.Entry(pod.UID); reserved {
			try.placed = append(try.placed, doc.NodeName)
			continue
		}
		try.waiting = append(try.waiting, pod)
	}
	slices.SortFunc(try.waiting, gang.Compare)
	return m.Known()
}

// mayTry returns an outcome if the gang cannot be tried: it is not complete, its members are of several profiles, or
// some of them are decided about already.
func (p *placer) mayTry(try *together, known int) outcome {
	lead := try.lead
	if known < try.Group.MinCount {
		return p.rejectUntried(lead, gang.TooFew)
	}
	for _, pod := range try.waiting {
		if name := lead.attempt.Pod.SchedulerName; pod.SchedulerName != name {
			return outcome{is: failed, why: fmt.Sprintf("all pods in a single pod group should have the same "+
				".spec.schedulerName set, got: %q and %q", name, pod.SchedulerName)}
		}
		if a, busy := p.attempts.ByPod[pod.UID]; busy && a != lead.attempt {
			return outcome{is: returned}
		}
		if lead.profile.Extended(pod) || p.performing.ActFor(pod.SchedulerName) {
			return outcome{is: failed, why: "gangs are placed only by profiles without extenders and without plugins of " +
				"one's own: Berth asks these about one pod at a time"}
		}
	}
	return outcome{}
}

// placeMembers decides about each member, on the nodes of a domain; nil stands for all. An outcome ends the try: none of
// the members is staged then.
func (p *placer) placeMembers(try *together, within *search.Domain) outcome {
	for _, pod := range try.waiting {
		t := &trial{attempt: try.Lead, profile: try.lead.profile}
		if pod.UID != try.Lead.Pod.UID {
			t.attempt = attempt.NewMember(try.Lead, pod)
			p.attempts.Begin(t.attempt)
		}
		switch o := p.placeMember(try, t, within); o.is {
		case placed:
			t.attempt.Gang = try.Gang
			try.Members = append(try.Members, t.attempt)
			p.attempts.Append(attempt.Staged, t.attempt)
		case rejected:
			try.unfit = append(try.unfit, unfit{pod, p.verdictOn(t)})
			p.dropMember(try, t.attempt)
		default:
			p.dropMember(try, t.attempt)
			p.takeBack(try)
			if o.is == failed && t.attempt != try.Lead {
				o.why = "failed to schedule other pod from a pod group: " + pod.Name + ": " + o.why
			}
			return o
		}
	}
	return outcome{}
}

// placeMember decides about one member: the steps of place that concern a gang.
func (p *placer) placeMember(try *together, t *trial, within *search.Domain) outcome {
	o := p.demands(t)
	if o.is == undecided {
		o = p.findIn(t, within)
	}
	if o.is == undecided && len(t.found.Feasible) == 0 {
		o = outcome{is: rejected}
	}
	if o.is == undecided {
		o = p.choose(t)
	}
	if o.is == undecided && !crossnode.Complete(t.needs) {
		p.takeBack(try)
		p.terms.Registered(try.Lead, t.needs, t.volumes) // the lead waits for all, or fails
		o = outcome{is: handedOver}
	}
	if o.is == undecided {
		o = p.supply(t)
	}
	if o.is == undecided {
		o = p.stage(t)
	}
	return o
}

// findIn looks for nodes in a domain; nil stands for all nodes.
func (p *placer) findIn(t *trial, within *search.Domain) outcome {
	if within == nil {
		return p.find(t)
	}
	t.found = p.search.FindIn(t.attempt, t.profile, t.volumes, t.avoided, within)
	switch {
	case t.found.Err != nil:
		return failure(t.found.Err)
	case t.concern.Uncertain:
		return outcome{is: deferred}
	}
	return outcome{}
}

// verdictOn returns the verdict on a member that fits nowhere.
func (p *placer) verdictOn(t *trial) events.Decision {
	d := p.gangVerdict(t.attempt, t.found.Diagnosis.Message(), t.found.Diagnosis.Plugins()...)
	d.Reasons = t.found.Diagnosis.Reasons()
	d.NodesTotal = int32(t.found.NodesTotal)
	d.Seed = attempt.Seed(t.attempt.Pod.UID, t.attempt.Offer.Attempt)
	d.Evidence = p.record.Evidence(t.attempt, t.profile, t.found, t.behind)
	return d
}

// gangVerdict returns the verdict on a member, without what only an evaluation shows.
func (p *placer) gangVerdict(a *attempt.Attempt, message string, plugins ...string) events.Decision {
	d := p.record.Decision(events.DecisionUnplaceable, a)
	from := p.life.Positions()
	d.FactSequence, d.FactEpoch, d.LedgerRevision = from.Facts.Sequence, from.Facts.Epoch, from.Ledger
	d.Message, d.Plugins = message, plugins
	return d
}

// concludeGang ends a try in which each member was decided about. With enough members placed, they stay staged, and the
// others are left to the next attempt. why explains the verdict if no domain has room; empty without domains.
func (p *placer) concludeGang(try *together, why string) outcome {
	if why == "" && len(try.placed)+len(try.Members) >= try.Group.MinCount && len(try.Members) > 0 {
		if try.Lead.Gang == nil { // it has no node itself: the queue offers it again, with the rest
			p.life.GiveBack(try.Lead)
		}
		return outcome{is: handedOver}
	}
	fit := make([]*state.Pod, 0, len(try.Members))
	for _, a := range try.Members {
		fit = append(fit, a.Pod)
	}
	p.takeBack(try)
	p.rejectGang(try, fit, why)
	return outcome{is: handedOver}
}

// takeBack makes the members of a try count nowhere. The lead is being decided about again; the attempts at the others
// end. Nothing else has been decided since they were staged.
func (p *placer) takeBack(try *together) {
	if len(try.Members) == 0 {
		return
	}
	for _, a := range p.attempts.TakeAll(attempt.Staged) {
		if a.Gang != try.Gang {
			p.attempts.Append(attempt.Staged, a)
			continue
		}
		p.shard.View.Unstage(a.Offer.Pod.UID)
		a.Pick, a.Gang = attempt.Pick{}, nil
		p.dropMember(try, a)
	}
	try.Members = nil
}

// dropMember ends the attempt at a member that is not the lead.
func (p *placer) dropMember(try *together, a *attempt.Attempt) {
	if a != try.Lead {
		p.attempts.End(a)
	}
}

// rejectUntried rejects an attempt without a look at nodes.
func (p *placer) rejectUntried(t *trial, message string) outcome {
	p.rejectLead(t.attempt, p.gangVerdict(t.attempt, message, names.GangScheduling), nil)
	return outcome{is: handedOver}
}

// rejectGang rejects all members: those that fit nowhere with their own verdict, the others because they wait for those.
// A verdict that the facts show in the pod's condition already is not repeated, but for the lead's, and for that of the
// first member that fits nowhere: the queue waits for what could help it.
func (p *placer) rejectGang(try *together, fit []*state.Pod, why string) {
	waits := gang.WaitsForOthers + fmt.Sprintf(": %d of %d members can be placed", len(try.placed)+len(fit),
		len(try.placed)+len(try.waiting))
	if why != "" {
		waits = why
	}
	var lead events.Decision
	var others []events.Decision
	tell := func(pod *state.Pod, d events.Decision, always bool) {
		switch {
		case pod.UID == try.Lead.Pod.UID:
			lead = d
		case always || !shows(pod, d.Message):
			others = append(others, d)
		}
	}
	for i, u := range try.unfit {
		tell(u.pod, u.d, i == 0)
	}
	for _, pod := range fit {
		a := try.Lead
		if pod.UID != a.Pod.UID {
			a = attempt.NewMember(try.Lead, pod)
		}
		tell(pod, p.gangVerdict(a, waits, names.GangScheduling), false)
	}
	p.rejectLead(try.Lead, lead, others)
}

// rejectLead rejects the lead of a gang, and with it the others.
func (p *placer) rejectLead(a *attempt.Attempt, d events.Decision, others []events.Decision) {
	p.effects.ReportGang(a.GangReport(step.Unschedulable))
	p.preempt.Reject(attempt.Rejection{
		Attempt: a, Decision: d, Counted: p.attempts.StagedPods(), Withdrawn: p.life.Withdrawn,
		Together: true, Others: others,
	})
}

// shows reports whether a pod's condition has a message already.
func shows(pod *state.Pod, message string) bool {
	return slices.ContainsFunc(pod.Status().Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Message == message
	})
}
