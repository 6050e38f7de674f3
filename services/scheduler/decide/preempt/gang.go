package preempt

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/engine"
	"github.com/berth-scheduler/berth/pkg/placement/gang"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/placement/preempt"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/scheduler/decide/advice"
	"github.com/berth-scheduler/berth/services/scheduler/decide/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/decide/search"
	"github.com/berth-scheduler/berth/services/scheduler/decide/shard"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

// A gang that fits nowhere gets its places one after the other. Each is held by a T2 of its own, so that the search for
// the next one counts it. The plans stay Forming: no pod is evicted before enough members have a place
// (gangHolds.start). The attempt at the lead waits among the seekers meanwhile, and the lead gets the last place. If
// one cannot be had, the attempt ends, and all holds are given up: no pod was evicted for them.
//
// What a gang has is read from the ledger and the facts at each step. The only memory is which members were tried
// (Attempt.Tried), so that each is tried once.

// gatherPatience is how long a shard may hold places for a gang before enough members have one.
const gatherPatience = 30 * time.Second

// members are the pods of a gang by what the ledger and the facts show of them.
type members struct {
	group *gang.Group
	// waiting have no reservation, in the order in which they are placed. held are the UIDs of those with a hold for
	// which others leave, in order. placed is how many are bound or have a reservation that can be bound.
	waiting []*state.Pod
	held    []string
	placed  int
}

// membersOf returns the members of a gang.
func membersOf(s *shard.State, g *gang.Group) members {
	sorted := gang.Sort(s.View.Snapshot().PodsOfGroup(g.Namespace, g.Name))
	m := members{group: g, placed: len(sorted.Placed)}
	for _, pod := range sorted.Waiting {
		switch _, e, reserved := s.Ledger.Entry(pod.UID); {
		case !reserved:
			m.waiting = append(m.waiting, pod)
		case shard.IsHold(&e):
			m.held = append(m.held, pod.UID)
		case e.State == ledger.Committed:
			m.placed++
		}
	}
	slices.SortFunc(m.waiting, gang.Compare)
	slices.Sort(m.held)
	return m
}

// lacking returns how many more members need a place.
func (m *members) lacking() int { return max(m.group.MinCount-m.placed-len(m.held), 0) }

// priority returns the highest priority of the waiting members for which pods may be evicted; false if there are none.
func (m *members) priority() (highest int32, some bool) {
	for _, pod := range m.waiting {
		if !preempt.IsNever(pod) && (!some || pod.Priority > highest) {
			highest, some = pod.Priority, true
		}
	}
	return highest, some
}

// candidates returns the members that have not been tried yet, in the order in which to try them: the lead last, but
// for the last place, which it gets first. With the lead's place, no attempt would be left to ask for another one.
func (m *members) candidates(lead *attempt.Attempt, attempts *attempt.Queues) (list []*state.Pod) {
	for _, pod := range m.waiting {
		_, busy := attempts.ByPod[pod.UID]
		if !lead.Tried[pod.UID] && !busy && pod.UID != lead.Pod.UID {
			list = append(list, pod)
		}
	}
	switch {
	case lead.Tried[lead.Pod.UID]:
		return list
	case m.lacking() == 1:
		return append([]*state.Pod{lead.Pod}, list...)
	}
	return append(list, lead.Pod)
}

// seekForGang holds the next place for a gang; true if a transaction has been sent. The gang is decided again if one of
// its pods has changed, and once nodes that are behind have been read: a member that seems to wait may have been bound.
func (p *Preemption) seekForGang(r attempt.Rejection) bool {
	lead := r.Attempt
	pod, known := p.shard.View.Pod(lead.Pod.UID)
	_, _, reserved := p.shard.Ledger.Entry(lead.Pod.UID)
	_, mine := p.shard.Holds(lead.Offer.Partition)
	m := membersOf(p.shard, r.Gang)
	other := func(p *state.Pod) bool { return p.SchedulerName != lead.Pod.SchedulerName }
	switch {
	case lead.Doubtful || lead.Losses >= attempt.MaxLosses:
		p.life.GiveBack(lead)
		return false
	case !known || pod != lead.Pod || reserved || !mine || slices.ContainsFunc(m.waiting, other):
		p.life.Requeue(lead)
		return false
	case p.shard.View.Settle() > 0 || p.MayBeBound(m.waiting):
		p.life.Defer(lead)
		return false
	}
	if !p.mayGather(r, &m) {
		return false
	}
	if lead.Tried == nil {
		lead.Tried = map[string]bool{}
		p.effects.Plan(step.PlanReport{Event: step.PlanSearched, Pod: lead.Offer.Pod})
	}
	list := m.candidates(lead, p.attempts)
	if m.lacking() == 0 || len(list) < m.lacking() || p.failures.GatherPause(m.group, p.shard.Now) > 0 {
		p.endGathering(r, &m)
		return false
	}
	sent := p.holdMember(lead, list[0], &m)
	if !sent || list[0] != lead.Pod {
		p.LineUp(r)
	}
	return sent
}

// mayGather reports whether places may be held for a gang: plans for its members do not keep failing, no other attempt
// has held any, and there would be enough room without less important pods. Otherwise the attempt has ended.
func (p *Preemption) mayGather(r attempt.Rejection, m *members) bool {
	lead := r.Attempt
	for _, pod := range m.waiting {
		if no := p.failures.RefusesPod(pod, p.shard.Now); no.Why != "" {
			p.nominator.refusePlan(seeker{Rejection: r, profile: p.shard.Profiles[lead.Pod.SchedulerName]}, no)
			return false
		}
	}
	if lead.Tried != nil {
		return true
	}
	priority, some := m.priority()
	pause := p.failures.GatherPause(m.group, p.shard.Now)
	switch {
	case pause > 0:
		r.Decision.RetryAfter = pause
	case !some, len(m.held) > 0, len(m.waiting) < m.lacking():
	case !txns.FitsTogether(m.lacking(), 1):
		r.Decision.Message += " preemption: " + tooLargeTogether + "."
	case p.nominator.hasRoomBelow(priority, m):
		return true
	case p.Holds.protectsBelow(priority):
		r.WakeOn(names.DefaultPreemption)
		r.Decision.RetryAfter = p.failures.SpareEnds(priority)
	}
	p.life.Unplaceable(r)
	return false
}

// tooLargeTogether is why no places are held for a gang that no transaction could promote.
const tooLargeTogether = "the places of the gang would be larger than a transaction of the ledger"

// hasRoomBelow reports whether enough members would fit if no pod of a lower priority were there, except those that
// must not be victims. It is an upper bound: disruption budgets are not considered, and the rules only if all members
// are alike.
func (nm *nominator) hasRoomBelow(priority int32, m *members) bool {
	pod, want := m.waiting[0], m.lacking()
	profile := nm.shard.Profiles[pod.SchedulerName]
	alike := !slices.ContainsFunc(m.waiting, func(p *state.Pod) bool { return !p.CountsLike(pod) })
	least := search.LeastOf(m.waiting)
	for _, n := range nm.shard.View.Nodes() {
		if !nm.shard.Gate.Usable(n) {
			continue
		}
		left, protected := n.Clone(), nm.holds.protectedOn(n.Node.UID)
		for p := range n.Pods() {
			if p.Priority < priority && !slices.Contains(protected, p.UID) {
				left.RemovePod(p.UID)
			}
		}
		slots := search.SlotsOn(left, least, want)
		if alike {
			slots = nm.copiesOn(left, profile, pod, slots)
		}
		if want -= slots; want <= 0 {
			return true
		}
	}
	return false
}

// copiesOn returns how many pods like the given one fit on a node by rules about this node, and adds them to it; at
// most so many.
func (nm *nominator) copiesOn(n *state.NodeInfo, profile *placement.Profile, pod *state.Pod, most int) (copies int) {
	in := placement.Input{Pod: pod, Nodes: []*state.NodeInfo{n}, Objects: nm.shard.View.Snapshot()}
	for copies < most {
		if fits, _, err := profile.FitsWithout(in, n, nil); !fits || err != nil {
			break
		}
		another := *pod
		another.UID += "-" + strconv.Itoa(copies) // a node has each pod once
		n.AddPod(&another)
		copies++
	}
	return copies
}

// endGathering ends the attempt at a lead for which no place is held: its gang has enough places, or cannot have them.
func (p *Preemption) endGathering(r attempt.Rejection, m *members) {
	if m.lacking() > 0 {
		r.Decision.Message += fmt.Sprintf(" preemption: places for %d of %d members were found.",
			m.placed+len(m.held), m.group.MinCount)
		r.Decision.RetryAfter = p.failures.GatherFailed(m.group, p.shard.Now)
		p.Holds.makeDue(m.held)
	}
	r.Others = slices.DeleteFunc(slices.Clone(r.Others), func(d events.Decision) bool {
		_, _, reserved := p.shard.Ledger.Entry(d.Pod.UID) // its verdict is from before that
		return reserved
	})
	p.life.Unplaceable(r)
}

// holdMember tries to hold a place for one member; true if a transaction has been sent.
func (p *Preemption) holdMember(lead *attempt.Attempt, pod *state.Pod, m *members) bool {
	lead.Tried[pod.UID] = true
	a := lead
	if pod.UID != lead.Pod.UID {
		a = attempt.NewMember(lead, pod)
		p.attempts.Begin(a)
	}
	nm := p.nominator
	s := seeker{
		by: nm, Rejection: attempt.Rejection{Attempt: a}, pod: pod, profile: nm.shard.Profiles[pod.SchedulerName],
	}
	sent := nm.nominateMember(s, lead, m)
	if !sent && a != lead {
		p.attempts.End(a)
	}
	return sent
}

// nominateMember is nominate for a member of a gang; false if no place can be held for it now. It leaves the attempt as
// it is then. Pods with claims, and those with rules about pods on other nodes, get no place: it would have to be
// checked for all members together.
func (nm *nominator) nominateMember(s seeker, lead *attempt.Attempt, m *members) bool {
	a := s.Attempt
	plan, ok := nm.placeForMember(&s, m)
	if !ok || nm.failures.RefusesVictims(s.pod, plan.Victims, nm.shard.Now).Why != "" {
		return false
	}
	b, ok := newPlan(nm.shard, a, plan.Node)
	rooms, known := nm.budgets.RoomsFor(plan.Budgets, s.profile.ExceedsBudgets())
	if !ok || !known || nm.places.hasStagedPod(plan.Node.Node.UID) || !b.victims(plan.Victims) || b.yields > 0 {
		return false // binders would give reservations back before the gang has its places
	}
	entry, err := a.Entry(nm.shard.ID)
	if err != nil {
		return false
	}
	n := b.request(plan.Node, entry)
	n.Budgets = rooms
	change, err := txns.FormMember(n)
	var budget *txns.BudgetError
	if errors.As(err, &budget) {
		nm.budgets.NoteRefused(budget.UID)
	}
	if err != nil {
		return false
	}
	a.Pick = attempt.Pick{
		NodeUID: plan.Node.Node.UID, NodeName: plan.Node.Node.Name, Decided: nm.shard.Now,
		Total: len(nm.shard.View.Nodes()), FactSequence: nm.shard.Store.Position().Sequence,
		Evidence: nm.record.NumberMember(a),
	}
	nm.shard.View.Stage(a.Pod, a.Pick.NodeName)
	d := &memberHold{by: nm, attempt: a, lead: lead, plan: n.RecordedPlan(), token: entry.Token}
	if err := nm.slot.Launch(d, change, a); err != nil {
		nm.unpick(a)
		return false
	}
	return true
}

// placeForMember finds a place for a member: a node that it fits on as it is, or that it fits on once the victims of
// the members before it have gone, or else further victims. It returns false if there is none, or if the places could
// not be promoted together.
func (nm *nominator) placeForMember(s *seeker, m *members) (plan preempt.Result, ok bool) {
	var err error
	if s.concern, err = nm.rules.ConcernOf(s.pod, s.profile); err != nil || !s.concern.None() {
		return plan, false
	}
	s.volumes, err = nm.shard.Claims.SupplyFor(s.pod, s.profile)
	if err != nil || s.volumes.Any() || advice.IsConsulted(s.profile, s.pod) {
		return plan, false
	}
	q := engine.PreemptQuery{
		Pod: s.pod, Seed: attempt.Seed(s.pod.UID, s.Attempt.Offer.Attempt), Budgets: nm.budgets.Current(),
		Opinions: nm.search.SpareNominated(s.pod, nil),
	}
	nodes := nm.nodesOf(m)
	roomForNode := txns.FitsTogether(len(m.held)+m.lacking(), len(nodes)+1)
	r := nm.search.Query(s.profile, engine.Query{Pod: s.pod, Seed: q.Seed})
	if roomForNode && r.Err == nil && len(r.Feasible) > 0 &&
		!nm.search.HoldsRoom(s.pod, r.Feasible[0].Node.Node.Name) {
		return preempt.Result{Node: r.Feasible[0].Node}, true
	}
	beside, found := nm.besideMembers(s, q, nodes)
	if found && len(beside.Victims) == 0 || !roomForNode {
		return beside, found
	}
	plan = nm.preempt(*s, q)
	ok = plan.Err == nil && plan.Node != nil && len(plan.Victims) > 0 && len(plan.Keepers) == 0
	if found && (!ok || beside.Cost.Compare(plan.Cost) <= 0) {
		return beside, true
	}
	return plan, ok
}

// nodesOf returns the documents of the nodes on which places are held for members, by the nodes' UIDs.
func (nm *nominator) nodesOf(m *members) map[string]ledger.NodeDoc {
	nodes := map[string]ledger.NodeDoc{}
	for _, uid := range m.held {
		if doc, _, held := nm.shard.Ledger.Entry(uid); held {
			nodes[doc.NodeUID] = doc
		}
	}
	return nodes
}

// besideMembers finds the cheapest place on the nodes where members of the gang have places; false if there is none.
// For other pods these nodes have both the victims and the members: it is open how the plans end. For a member the
// victims are gone, as all members are promoted together.
func (nm *nominator) besideMembers(
	s *seeker, q engine.PreemptQuery, nodes map[string]ledger.NodeDoc,
) (best preempt.Result, found bool) {
	for _, uid := range slices.Sorted(maps.Keys(nodes)) {
		n, known := nm.shard.View.Node(uid)
		if !known {
			continue
		}
		n = n.Clone()
		for _, v := range victimsOfGang(nm.shard, nodes[uid], s.pod) {
			n.RemovePod(v.PodUID)
		}
		in := preempt.Input{Budgets: q.Budgets, Protected: map[string]bool{}}
		in.Pod = s.pod
		in.Nodes = []*state.NodeInfo{n}
		in.Objects = s.volumes.Lookups(nm.shard.View.Snapshot())
		in.Seed = q.Seed
		if fits, _, err := s.profile.FitsWithout(in.Input, n, nil); fits && err == nil {
			return preempt.Result{Node: n}, true
		}
		for _, protected := range nm.holds.protectedOn(uid) {
			in.Protected[protected] = true
		}
		plan := preempt.Run(s.profile, in)
		switch {
		case plan.Err != nil, plan.Node == nil, len(plan.Victims) == 0:
		case !found || plan.Cost.Compare(best.Cost) < 0:
			best, found = plan, true
		}
	}
	return best, found
}

// victimsOfGang returns the claims in a document for the members of the gang that a pod belongs to.
func victimsOfGang(s *shard.State, doc ledger.NodeDoc, member *state.Pod) (out []ledger.Entry) {
	for _, e := range doc.Entries {
		if e.Role != ledger.RoleVictim {
			continue
		}
		_, owner, owned := s.Ledger.Plans().Owner(e.Plan)
		pod, known := s.View.Pod(owner.PodUID)
		if owned && known && pod.Namespace == member.Namespace && pod.PodGroup() == member.PodGroup() {
			out = append(out, e)
		}
	}
	return out
}

// memberHold is a T2 in flight that holds a place for a member of a gang.
type memberHold struct {
	by      *nominator
	attempt *attempt.Attempt
	// lead is the attempt at the gang's lead, which may be the same.
	lead  *attempt.Attempt
	plan  string
	token ledger.Token
}

func (d *memberHold) Kind() string { return "T2" }

// Done adds the hold. Nothing is recorded before the gang has enough places. The hold counts as begun: binders begin
// only then, and it must not keep the shard from holding the places of the others.
func (d *memberHold) Done(int64) {
	nm, a := d.by, d.attempt
	h := &hold{
		podUID: a.Pod.UID, nodeUID: a.Pick.NodeUID, plan: d.plan, token: d.token, attempt: a.Offer.Attempt,
		traceParent: a.Offer.TraceParent, lead: d.lead,
		evidence: nm.record.FinalEvidence(a), factSequence: a.Pick.FactSequence,
	}
	d.lead.Losses = 0 // a limit for each member
	nm.life.Drop(a)
	nm.holds.addHold(h)
	nm.holds.setBegun(h, true)
}

// Undone lets the member be tried again, on what it has lost to. A copy of a doubtful transaction may have been
// committed and undone since: then its token must not be used again, and the gang is given back.
func (d *memberHold) Undone(lost txns.Outcome) {
	nm, a := d.by, d.attempt
	nm.budgets.Reread()
	delete(d.lead.Tried, a.Pod.UID)
	if a == d.lead {
		nm.retryLost(a, lost)
		return
	}
	d.lead.Doubtful = d.lead.Doubtful || a.Doubtful
	d.lead.Losses++
	nm.life.Drop(a)
}

// TooLarge leaves the member without a place.
func (d *memberHold) TooLarge(why string) {
	nm, a := d.by, d.attempt
	switch {
	case a != d.lead:
		d.lead.Doubtful = d.lead.Doubtful || a.Doubtful
		nm.life.Drop(a)
	case a.Doubtful:
		nm.life.GiveBack(a)
	default:
		nm.life.Fail(a, why)
	}
}
