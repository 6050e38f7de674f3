package preempt

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/guard"
	"github.com/berth-scheduler/berth/pkg/ledger/registry"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/pkg/ledger/view"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/engine"
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

const (
	// claimPatience is how long the devices of victims that are gone may stay allocated: Kubernetes' controller for
	// claims takes them back within seconds.
	claimPatience = 30 * time.Second
	// holdPatience is how long a plan may stay unchanged, in addition to the grace period of its victims, before its
	// place is given up: then the component that should stop a pod, or report that it has stopped, does not (a node
	// that is gone, a finalizer).
	holdPatience = 3 * time.Minute
	// refusedPatience is how long a plan may stay without another try after one of its evictions has failed: binders
	// wait twice as long before they retry, and there may be better victims.
	refusedPatience = 15 * time.Second
	// unmarkedPatience is how long a plan with a pod to evict may stay unchanged while none of its evictions has
	// begun. Binders begin within seconds; if the eviction API refuses their dry run, they retry every 30 s. It is
	// longer than it takes to replace a binder.
	unmarkedPatience = refusedPatience + 45*time.Second
	// defaultGrace is the grace period of pods that name none.
	defaultGrace = 30 * time.Second
	// secondLookAfter is how long a place is held before the reconciler checks whether the pod now fits elsewhere
	// without it; secondLooks is for how many holds each heartbeat allows that check.
	secondLookAfter = 2 * time.Second
	secondLooks     = 64
)

// look is the result of an inspection of a hold.
type look uint8

const (
	// lookOpen: not decided yet.
	lookOpen look = iota
	// lookLater: nothing to do until something changes.
	lookLater
	// lookAgain: what is known is not enough; the hold is inspected again in the next step.
	lookAgain
	// lookSent: a transaction has been sent.
	lookSent
)

// reconciler manages the places that are held for this shard's pods: it promotes a pod (T3) once all its victims
// have gone, and gives up a place that has waited too long or is not needed (T8).
type reconciler struct {
	shard    *shard.State
	attempts *attempt.Queues
	record   *record.Recorder
	effects  *step.Effects
	life     *lifecycle.Attempts
	slot     *txn.Slot
	rules    *crossnode.Rules
	terms    *crossnode.Terms
	search   *search.Searcher

	consults   *advice.Consults
	performing *advice.Plugins
	holds      *holds
	loops      *loops
	budgets    *budgetBook

	// quiet: a promotion whose rules count other pods waits until no pod is staged.
	quiet bool
	// looks is for how many more holds it may check whether their pods fit elsewhere.
	looks int
	// releases are the plans of moves whose place no pod will need.
	releases []string
}

// reconcile inspects the holds that are due, until one needs a transaction; true if that has been sent.
func (rc *reconciler) reconcile() bool {
	rc.quiet = false
	for _, plan := range slices.Sorted(maps.Keys(rc.holds.orphans)) {
		delete(rc.holds.orphans, plan)
		if rc.dropOrphan(plan) {
			return true
		}
	}
	if len(rc.holds.queue) == 0 {
		rc.holds.queue = slices.Sorted(maps.Keys(rc.holds.due))
	}
	for len(rc.holds.queue) > 0 {
		uid := rc.holds.queue[0]
		rc.holds.queue = rc.holds.queue[1:]
		h, ok := rc.holds.held[uid]
		if _, due := rc.holds.due[uid]; !due || !ok {
			delete(rc.holds.due, uid)
			continue
		}
		switch rc.inspect(h) {
		case lookSent:
			delete(rc.holds.due, uid)
			return true
		case lookLater:
			delete(rc.holds.due, uid)
		case lookAgain:
		}
	}
	return false
}

// standing is a hold together with its current state.
type standing struct {
	by *reconciler
	*hold
	doc   ledger.NodeDoc
	entry ledger.Entry
	pod   *state.Pod
	// others are the other documents of its plan.
	others []ledger.NodeDoc
}

func (rc *reconciler) inspect(h *hold) look {
	s := standing{by: rc, hold: h}
	doc, entry, ok := rc.shard.Ledger.Entry(h.podUID)
	if s.doc, s.entry = doc, entry; !ok || s.entry.Token != h.token || s.entry.State != ledger.Held {
		return lookLater
	}
	for _, d := range rc.shard.Ledger.Plans().Docs(h.plan) {
		if d.NodeUID != s.doc.NodeUID {
			s.others = append(s.others, d)
		}
	}
	progress := rc.shard.View.TxnFacts().PodProgress()
	s.pod, ok = rc.shard.View.Pod(h.podUID)
	switch {
	case !ok && progress < s.entry.PodRV:
		return lookAgain
	case !ok || s.pod.Deleting || s.pod.Terminal:
		return rc.giveUp(s, end{reason: "the pod is gone", silent: true})
	case s.pod.NodeName != "":
		return rc.giveUp(s, end{reason: "somebody else has bound the pod", silent: true})
	case s.doc.SupersededBy != "":
		return rc.giveUp(s, end{reason: "another node has registered under the name of the node"})
	}
	var l look
	switch {
	case ledger.IsRecorded(h.plan):
		l = rc.form(s)
	case txns.IsPrepared(h.plan):
		l = rc.prepared(s)
	}
	if l != lookOpen {
		return l
	}
	if left, grace := rc.victimsLeft(s); left && !txns.IsPrepared(h.plan) {
		return rc.await(s, grace)
	}
	rc.holds.setBegun(s.hold, true)
	for _, d := range append(s.others, s.doc) {
		if progress < d.HighWater(ledger.KindPod) {
			return lookAgain
		}
	}
	return rc.promote(s)
}

// victimsLeft reports whether victims of a plan, or reservations that were asked back, are still there. It also
// returns the longest grace period of these victims.
func (rc *reconciler) victimsLeft(s standing) (left bool, grace time.Duration) {
	for _, v := range victimsOf(append(s.others, s.doc), s.plan) {
		if fate, _ := rc.shard.View.TxnFacts().VictimFate(v.PodUID, v.PodRV); fate != txns.Left {
			left, grace = true, max(grace, rc.graceOf(v.PodUID))
		}
	}
	for i := range s.doc.Entries {
		left = left || rc.yields(&s.doc.Entries[i], s.entry.Priority)
	}
	return left, grace
}

func (rc *reconciler) graceOf(podUID string) time.Duration {
	pod, ok := rc.shard.View.Pod(podUID)
	if !ok || pod.Template == nil {
		return defaultGrace
	}
	seconds := pod.Template.Spec.TerminationGracePeriodSeconds
	if seconds == nil {
		return defaultGrace
	}
	return time.Duration(*seconds) * time.Second
}

// await decides whether a hold has waited too long, or for nothing.
func (rc *reconciler) await(s standing, grace time.Duration) look {
	idle := rc.shard.Now.Sub(s.moved)
	marked := rc.anyMarked(s)
	rc.holds.setBegun(s.hold, marked || !rc.anyToEvict(s))
	switch {
	case idle > holdPatience+grace:
		return rc.giveUp(s, end{reason: "pods that have to go are still there", failed: true})
	case !s.refused.IsZero() && !marked && rc.shard.Now.Sub(s.refused) > refusedPatience:
		return rc.giveUp(s, end{reason: "pods that have to go cannot be evicted", failed: true, spare: true})
	case !s.begun && idle > unmarkedPatience:
		// No pod was evicted for it, so it does not count as a failure of the pod.
		return rc.giveUp(s, end{reason: "the eviction of pods that have to go is not begun", spare: true})
	case !marked && rc.shard.Now.Sub(s.since) > secondLookAfter && rc.looks > 0:
		rc.looks--
		if node := rc.fitsElsewhere(s); node != "" {
			return rc.giveUp(s, end{reason: "the pod fits on node " + node + " as it is"})
		}
	}
	return lookLater
}

// anyMarked reports whether an eviction of a plan may be in progress.
func (rc *reconciler) anyMarked(s standing) bool {
	return slices.ContainsFunc(victimsOf(append(s.others, s.doc), s.plan), func(v ledger.Entry) bool {
		return v.State == ledger.Evicting
	})
}

// anyToEvict reports whether a plan has a victim that is not leaving yet.
func (rc *reconciler) anyToEvict(s standing) bool {
	return slices.ContainsFunc(victimsOf(append(s.others, s.doc), s.plan), func(v ledger.Entry) bool {
		pod, known := rc.shard.View.Pod(v.PodUID)
		return known && !isLeaving(pod)
	})
}

// fitsElsewhere returns the name of a node that the pod of a hold fits on without any eviction; empty for none.
func (rc *reconciler) fitsElsewhere(s standing) string {
	profile, ok := rc.shard.Profiles[s.pod.SchedulerName]
	if !ok || rc.shard.View.Settle() > 0 || profile.Extended(s.pod) {
		return "" // the opinions of extenders are not known
	}
	v, err := rc.shard.Claims.Of(s.pod, profile)
	if err != nil {
		return ""
	}
	defer v.SetAside(s.pod)()
	defer rc.shard.LookUp(v)()
	concern, err := rc.rules.ConcernOf(s.pod, profile)
	r := rc.search.Query(profile, engine.Query{Pod: s.pod, Seed: attempt.Seed(s.pod.UID, s.attempt)})
	if err != nil || r.Err != nil || len(r.Feasible) == 0 {
		return ""
	}
	best := r.Feasible[0].Node
	in := placement.Input{Pod: s.pod, Nodes: rc.shard.View.Nodes(), Objects: v.Lookups(rc.shard.View.Snapshot())}
	if rc.search.RestsOnHolds(in, profile, &concern, best, nil) {
		return ""
	}
	return best.Node.Name
}

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

// footing is the state that a promotion depends on, and the volumes and devices that it gives the pod.
type footing struct {
	profile    *placement.Profile
	node       *state.NodeInfo
	concern    guard.Concern
	guards     []registry.GuardUse
	volumes    claims.Supply
	exclusives []ledger.ExclusiveDoc
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

func (rc *reconciler) sendPromotion(s standing, f footing) look {
	mandate, mine := rc.shard.Mandate(s.entry.Partition())
	if !mine {
		return lookLater
	}
	target, _ := txns.Finish(s.doc, rc.shard.View.TxnFacts())
	p := txns.Promotion{
		Authority: mandate, Target: target.Cover(ledger.KindNode, f.node.Node.ResourceVersion), Docs: s.others,
		PodUID: s.podUID, Token: s.token, PodRV: s.pod.ResourceVersion, Wish: s.pod.Wish(),
		Fits: true, Guards: f.guards, Facts: rc.shard.View.TxnFacts(),
		Volumes: f.volumes.Volumes, Devices: f.volumes.Devices, Exclusives: f.exclusives,
	}
	if r, ok := rc.shard.Ledger.Plans().Record(s.plan); ok {
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
