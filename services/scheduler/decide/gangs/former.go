package gangs

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/gang"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/scheduler/decide/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/decide/crossnode"
	"github.com/berth-scheduler/berth/services/scheduler/decide/lifecycle"
	"github.com/berth-scheduler/berth/services/scheduler/decide/search"
	"github.com/berth-scheduler/berth/services/scheduler/decide/shard"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

// Former decides about gangs. A gang that is put back is decided from scratch: of earlier tries nothing is left.
type Former struct {
	Shard    *shard.State
	Attempts *attempt.Queues
	Effects  *step.Effects
	Life     *lifecycle.Attempts
	Terms    *crossnode.Terms
	Search   *search.Searcher
	// Place decides about one pod, on the nodes of a domain; nil stands for all nodes.
	Place func(a *attempt.Attempt, profile *placement.Profile, within *search.Domain) Placement
	// Reject ends an attempt that cannot be placed, as soon as that is certain.
	Reject func(attempt.Rejection)
	// ActFor reports whether plugins act for a profile.
	ActFor func(schedulerName string) bool

	handOvers handOvers
}

// Placement is the result of the decision about one pod of a gang.
type Placement struct {
	Is Ending
	// Why is the message for Failed.
	Why string
	// Verdict is the verdict of a pod that is Rejected.
	Verdict events.Decision
	// Needs are those of a pod that is Unregistered.
	Needs attempt.Needs
	// Passing, if not empty, explains why a pod that is Rejected may fit later although no event reports it: it only
	// avoids nodes for now, or devices are promised to others.
	Passing string
}

// Ending is how the decision about a pod, or about a gang, ends.
type Ending uint8

// The endings.
const (
	// Placed: it has a node and counts there.
	Placed Ending = iota
	// Rejected: it fits nowhere.
	Rejected
	// Unregistered: terms that it needs must be registered first.
	Unregistered
	// Deferred: it is decided again once something has changed.
	Deferred
	// Failed: it ends; the queue backs it off.
	Failed
	// Returned: it is given back untried.
	Returned
	// Over: the attempt has been put where it waits, or has ended.
	Over
)

// try is one try of a gang.
type try struct {
	*attempt.Gang
	profile *placement.Profile
	// waiting are the pods to place, in the order in which they are decided; placed are the names of the nodes where pods
	// of the gang have a place already, one for each. reserved are those of them that may still change: reservations.
	waiting          []*state.Pod
	placed, reserved []string
	// unsure is whether one that is in neither may be bound: its reservation is held, or is being taken back.
	unsure bool
	// unfit are the verdicts on pods that have no node, and passing the reason why one of them may fit later although no
	// event reports it; empty for none.
	unfit   []unfit
	passing string
	// rules are the rules that could let the gang into a domain, if it needs one.
	rules []string
}

// want is how many more pods need a node.
func (t *try) want() int { return max(t.Group.MinCount-len(t.placed), 1) }

// unfit is a pod for which no node was found, with its verdict.
type unfit struct {
	pod *state.Pod
	d   events.Decision
}

// Try decides about the gang of an attempt, if its pod belongs to one; false if the pod is placed alone. The ending is
// Deferred, Failed (with the reason), Returned, or Over.
func (f *Former) Try(a *attempt.Attempt, profile *placement.Profile) (p Placement, is bool) {
	g, member := gang.Of(a.Pod, f.Shard.View.Snapshot())
	switch {
	case !member || g != nil && !g.Together():
		return Placement{}, false
	case ledger.PartitionOf(a.Pod.Group()) != a.Offer.Partition:
		return Placement{Is: Failed, Why: "the queue that offers the pod is of a version that does not know groups of pods"},
			true
	case g == nil:
		return f.rejectUntried(a, gang.NoObject(a.Pod.PodGroup())), true
	}
	t := &try{Gang: &attempt.Gang{Group: g, Lead: a}, profile: profile}
	known := f.collect(t)
	if t.unsure && len(g.Topology) > 0 || f.MayBeBound(t.waiting) {
		return Placement{Is: Deferred}, true
	}
	f.Effects.CountGang()
	if p := f.mayTry(t, known); p.Is != Placed {
		return p, true
	}
	if len(g.Topology) > 0 {
		return f.placeInDomain(t), true
	}
	if p := f.placeAll(t, nil); p.Is != Placed {
		return p, true
	}
	return f.conclude(t), true
}

// collect sorts the pods of a gang, and returns how many there are. The order is upstream's: by priority, then by age;
// ties are broken by name. Source: podGroupInfoForPod in pkg/scheduler/schedule_one_podgroup.go, where the age is that
// of the first attempt.
func (f *Former) collect(t *try) (known int) {
	m := gang.Sort(f.Shard.View.Snapshot().PodsOfGroup(t.Group.Namespace, t.Group.Name))
	for _, pod := range m.Placed {
		t.placed = append(t.placed, pod.NodeName)
	}
	for _, pod := range m.Waiting {
		doc, e, reserved := f.Shard.Ledger.Entry(pod.UID)
		switch {
		case !reserved:
			t.waiting = append(t.waiting, pod)
		case e.State == ledger.Committed:
			t.placed = append(t.placed, doc.NodeName)
			t.reserved = append(t.reserved, doc.NodeName)
		default: // does not count for the minimum
			t.unsure = true
		}
	}
	slices.SortFunc(t.waiting, gang.Compare)
	return m.Known()
}

// mayTry returns another ending than Placed if the gang cannot be tried: it is not complete, its pods are of several
// profiles, or some of them are decided about already.
func (f *Former) mayTry(t *try, known int) Placement {
	if !slices.ContainsFunc(t.waiting, func(p *state.Pod) bool { return p.UID == t.Lead.Pod.UID }) {
		return Placement{Is: Returned} // the queue sees the same facts
	}
	if known < t.Group.MinCount {
		return f.rejectUntried(t.Lead, gang.TooFew)
	}
	name := t.Lead.Pod.SchedulerName
	for _, pod := range t.waiting {
		if pod.SchedulerName != name {
			return Placement{Is: Failed, Why: fmt.Sprintf("all pods in a single pod group should have the same "+
				".spec.schedulerName set, got: %q and %q", name, pod.SchedulerName)}
		}
		if a, busy := f.Attempts.ByPod[pod.UID]; busy && a != t.Lead {
			return Placement{Is: Returned}
		}
		if t.profile.Extended(pod) || f.ActFor(name) {
			return Placement{Is: Failed, Why: "gangs are placed only by profiles without extenders and without plugins " +
				"of one's own that act: these are asked about one pod at a time"}
		}
	}
	return Placement{}
}

// placeAll decides about each pod. An ending other than Placed ends the try: none of the pods is staged then.
func (f *Former) placeAll(t *try, within *search.Domain) Placement {
	for _, pod := range t.waiting {
		a := t.Lead
		if pod.UID != t.Lead.Pod.UID {
			a = attempt.NewMember(t.Lead, pod)
			f.Attempts.Begin(a)
		}
		p := f.Place(a, t.profile, within)
		switch p.Is {
		case Placed:
			a.Gang = t.Gang
			t.Members = append(t.Members, a)
			f.Attempts.Append(attempt.Staged, a)
			continue
		case Rejected:
			t.unfit = append(t.unfit, unfit{pod, p.Verdict})
			t.passing = cmp.Or(t.passing, p.Passing)
			f.drop(t, a)
			if within != nil && len(t.unfit) > len(t.waiting)-t.want() {
				return Placement{} // too few are left for this domain
			}
			continue
		case Unregistered, Deferred, Failed, Returned, Over:
		}
		f.drop(t, a)
		f.takeBack(t)
		return f.endedBy(t, a, p)
	}
	return Placement{}
}

// endedBy returns the ending of a gang of which one pod cannot be decided about.
func (f *Former) endedBy(t *try, a *attempt.Attempt, p Placement) Placement {
	switch {
	case p.Is == Unregistered:
		f.Terms.Registered(t.Lead, p.Needs, a.Pick.Volumes) // the lead waits for all, or fails
		return Placement{Is: Over}
	case p.Is == Failed && a != t.Lead:
		p.Why = "failed to schedule other pod from a pod group: " + a.Pod.Name + ": " + p.Why
	}
	return p
}

// conclude ends a try in which each pod was decided about. With enough of them placed, they stay staged, and the others
// are left to the next attempt. A lead without a node gets its own verdict.
func (f *Former) conclude(t *try) Placement {
	if len(t.Members) < t.want() {
		fit := make([]*state.Pod, 0, len(t.Members))
		for _, a := range t.Members {
			fit = append(fit, a.Pod)
		}
		f.takeBack(t)
		return f.rejectAll(t, fit, gang.WaitsForOthers, fmt.Sprintf(": %d of %d members can be placed",
			len(t.placed)+len(fit), len(t.placed)+len(t.waiting)))
	}
	if t.Lead.Gang == nil {
		own := slices.IndexFunc(t.unfit, func(u unfit) bool { return u.pod.UID == t.Lead.Pod.UID })
		return f.end(t.Lead, t.unfit[own].d, nil, nil)
	}
	return Placement{Is: Over}
}

// takeBack makes the pods of a try count nowhere. The lead is being decided about again; the attempts at the others
// end. Nothing else has been decided since they were staged.
func (f *Former) takeBack(t *try) {
	if len(t.Members) == 0 {
		return
	}
	for _, a := range f.Attempts.TakeAll(attempt.Staged) {
		if a.Gang != t.Gang {
			f.Attempts.Append(attempt.Staged, a)
			continue
		}
		f.Shard.View.Unstage(a.Offer.Pod.UID)
		a.Pick = attempt.Pick{}
		a.Gang = nil
		f.drop(t, a)
	}
	t.Members = nil
}

// drop ends the attempt at a pod that is not the lead.
func (f *Former) drop(t *try, a *attempt.Attempt) {
	if a != t.Lead {
		f.Attempts.End(a)
	}
}

// rejectUntried rejects an attempt without a look at nodes. Other members get a verdict only if they are nominated:
// room is held for them as long as they are.
func (f *Former) rejectUntried(a *attempt.Attempt, message string) Placement {
	var others []events.Decision
	for pod := range f.Shard.View.Snapshot().PodsOfGroup(a.Pod.Namespace, a.Pod.PodGroup()) {
		_, _, reserved := f.Shard.Ledger.Entry(pod.UID)
		if pod.UID != a.Pod.UID && pod.NodeName == "" && !reserved && pod.Status().NominatedNodeName != "" {
			others = append(others, f.waits(attempt.NewMember(a, pod), message))
		}
	}
	return f.reject(a, f.waits(a, message), others, nil)
}

// waits returns the verdict on a pod that waits for others of its gang, and for what the rules listen to.
func (f *Former) waits(a *attempt.Attempt, message string, rules ...string) events.Decision {
	d := f.Life.Verdict(a, f.Life.Positions())
	d.Message = message
	d.Plugins = append([]string{names.GangScheduling}, rules...)
	slices.Sort(d.Plugins)
	d.Plugins = slices.Compact(d.Plugins)
	return d
}

// rejectAll rejects all pods: those that fit nowhere with their own verdict, the others because they wait for those.
// The lead's message has the detail, which may differ from one attempt to the next; a verdict that the facts show in a
// pod's condition already is not repeated, but for that of the first pod that fits nowhere, as the queue waits for what
// could help it, and for that of a pod whose nomination must be cleared. If something that no event reports may help,
// the attempt fails instead, and the queue retries it after a while.
func (f *Former) rejectAll(t *try, fit []*state.Pod, message, detail string) Placement {
	if t.passing != "" {
		return Placement{Is: Failed, Why: message + detail + ": " + t.passing}
	}
	var lead events.Decision
	var others []events.Decision
	tell := func(pod *state.Pod, d events.Decision, always bool) {
		switch {
		case pod.UID == t.Lead.Pod.UID:
			lead = d
		case always || d.StaleNomination != "" || !gang.Shows(pod, d.Message):
			others = append(others, d)
		}
	}
	for i, u := range t.unfit {
		tell(u.pod, u.d, i == 0)
	}
	for _, pod := range fit {
		if pod.UID == t.Lead.Pod.UID {
			tell(pod, f.waits(t.Lead, message+detail, t.rules...), true)
			continue
		}
		tell(pod, f.waits(attempt.NewMember(t.Lead, pod), message, t.rules...), false)
	}
	if len(t.placed) >= t.Group.MinCount { // the gang is scheduled already, without these members
		return f.end(t.Lead, lead, others, nil)
	}
	return f.reject(t.Lead, lead, others, t.evicts())
}

// evicts returns the gang if evictions could make room for it: members fit nowhere, or places are held for some of
// them, and it needs no domain. Upstream evicts no pod for a gang with a topology either.
func (t *try) evicts() *gang.Group {
	if len(t.unfit) == 0 && !t.unsure || len(t.Group.Topology) > 0 {
		return nil
	}
	return t.Group
}

// reject rejects the lead of a gang, and with it the others. g is the gang if evictions could help: then the attempt
// may go on, and is reported when it ends.
func (f *Former) reject(a *attempt.Attempt, d events.Decision, others []events.Decision, g *gang.Group) Placement {
	if g == nil {
		f.Effects.ReportGang(a.GangReport(step.Unschedulable))
	}
	return f.end(a, d, others, g)
}

// end ends the attempt at a lead with its verdict, and with those of others.
func (f *Former) end(a *attempt.Attempt, d events.Decision, others []events.Decision, g *gang.Group) Placement {
	f.Reject(attempt.Rejection{
		Attempt: a, Decision: d, Counted: f.Attempts.StagedPods(), Withdrawn: f.Life.Withdrawn,
		Together: true, Others: others, Gang: g,
	})
	return Placement{Is: Over}
}
