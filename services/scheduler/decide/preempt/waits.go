package preempt

import (
	"slices"
	"strings"
	"time"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/pkg/ledger/view"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/engine"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/scheduler/decide/attempt"
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
	// requestPatience is how long, instead of its grace period, a victim may stay whose eviction can only be requested
	// (state.AnnotationRequestEvictOnly). It is longer than binders wait for a controller to take the request on, so that
	// their report comes first. migrationPatience is for one that a controller has taken on: it ends when the pod leaves,
	// or when the controller shows that it has given up.
	requestPatience   = 11 * time.Minute
	migrationPatience = 1 << 20 * time.Second
	// defaultGrace is the grace period of pods that name none: Kubernetes' default for
	// terminationGracePeriodSeconds.
	defaultGrace = 30 * time.Second
	// secondCheckAfter is how long a place is held before the reconciler checks whether the pod now fits elsewhere
	// without it: immediately after the nomination the answer would be the same as before. secondChecksPerBeat is
	// for how many holds each heartbeat allows that check, as each costs a search of all nodes.
	secondCheckAfter    = 2 * time.Second
	secondChecksPerBeat = 64
)

// victimsLeft reports whether victims of a plan, or reservations on the place's node that were asked back, are still
// there. It also returns the longest grace period of these victims. A victim counts as gone when the facts show that
// it is deleted or has ended; that it is being deleted is not enough, as its containers still run.
func (rc *reconciler) victimsLeft(s holdState) (left bool, grace time.Duration) {
	for _, v := range victimsOf(append(s.otherDocs, s.doc), s.plan) {
		if fate, _ := rc.shard.View.TxnFacts().VictimFate(v.PodUID, v.PodRV); fate != txns.Left {
			left, grace = true, max(grace, rc.graceOf(v))
		}
	}
	for i := range s.doc.Entries {
		left = left || rc.yields(&s.doc.Entries[i], s.entry.Priority)
	}
	return left, grace
}

// graceOf returns the grace period of a victim, or how long a request to evict it may take.
func (rc *reconciler) graceOf(v ledger.Entry) time.Duration {
	pod, ok := rc.shard.View.Pod(v.PodUID)
	if !ok || pod.Template == nil {
		return defaultGrace
	}
	if v.State == ledger.Evicting && !pod.Deleting {
		switch only, inProgress := pod.EvictionRequest(); {
		case inProgress:
			return migrationPatience
		case only:
			return requestPatience
		}
	}
	seconds := pod.Template.Spec.TerminationGracePeriodSeconds
	if seconds == nil {
		return defaultGrace
	}
	return time.Duration(*seconds) * time.Second
}

// await decides whether a hold has waited too long, or for nothing; grace is the longest grace period of its
// victims. A place is given up
//
//   - when nothing about the plan has changed for holdPatience and the grace period: pods were evicted in vain, which
//     counts as a failure. A pod that another controller is to make leave has requestPatience or migrationPatience
//     instead of a grace period;
//   - when an eviction has failed refusedPatience ago and no eviction is in progress: a failure, and the victims are
//     spared, so that the next search finds others;
//   - when no eviction has begun within unmarkedPatience. The cause lies with the binders or the eviction API and not
//     with the pod, so it is no failure, but the victims are spared as well;
//   - when the pod fits elsewhere without an eviction, as long as none is in progress: then no pod has to be evicted.
func (rc *reconciler) await(s holdState, grace time.Duration) inspection {
	idle := rc.shard.Now.Sub(s.lastProgress)
	marked := rc.anyMarked(s)
	rc.holds.setBegun(s.hold, marked || !rc.anyToEvict(s))
	switch {
	case idle > holdPatience+grace:
		return rc.giveUp(s, withdrawal{reason: "pods that have to go are still there", failed: true})
	case !s.lastRefusal.IsZero() && !marked && rc.shard.Now.Sub(s.lastRefusal) > refusedPatience:
		return rc.giveUp(s, withdrawal{reason: "pods that have to go cannot be evicted", failed: true, spare: true})
	case !s.begun && idle > unmarkedPatience:
		// No pod was evicted for it, so it does not count as a failure of the pod.
		return rc.giveUp(s, withdrawal{reason: "the eviction of pods that have to go is not begun", spare: true})
	case s.gang == nil && !marked && rc.shard.Now.Sub(s.firstSeen) > secondCheckAfter && rc.secondChecks > 0:
		rc.secondChecks--
		if node := rc.fitsElsewhere(s); node != "" {
			return rc.giveUp(s, withdrawal{reason: "the pod fits on node " + node + " as it is"})
		}
	}
	return inspectionWaits
}

// anyMarked reports whether an eviction of a plan may be in progress: a binder has marked a claim before it sends
// the eviction.
func (rc *reconciler) anyMarked(s holdState) bool {
	return slices.ContainsFunc(victimsOf(append(s.otherDocs, s.doc), s.plan), func(v ledger.Entry) bool {
		return v.State == ledger.Evicting
	})
}

// anyToEvict reports whether a plan has a victim that is not leaving yet. Victims that leave by themselves need no
// binder.
func (rc *reconciler) anyToEvict(s holdState) bool {
	return slices.ContainsFunc(victimsOf(append(s.otherDocs, s.doc), s.plan), func(v ledger.Entry) bool {
		pod, known := rc.shard.View.Pod(v.PodUID)
		return known && !isLeaving(pod)
	})
}

// fitsElsewhere returns the name of a node that the pod of a hold fits on without any eviction; empty for none, or
// if that is not known. What the pod itself has been promised of devices is set aside, as it would be free. Only the
// best node is considered.
func (rc *reconciler) fitsElsewhere(s holdState) string {
	profile, ok := rc.shard.Profiles[s.pod.SchedulerName]
	if !ok || rc.shard.View.Settle() > 0 || profile.Extended(s.pod) {
		return "" // the opinions of extenders are not known
	}
	v, err := rc.shard.Claims.SupplyFor(s.pod, profile)
	if err != nil {
		return ""
	}
	defer v.SetAside(s.pod)()
	defer rc.shard.UsePromises(v)()
	concern, err := rc.rules.ConcernOf(s.pod, profile)
	r := rc.search.Query(profile, engine.Query{Pod: s.pod, Seed: attempt.Seed(s.pod.UID, s.attempt)})
	if err != nil || r.Err != nil || len(r.Feasible) == 0 {
		return ""
	}
	best := r.Feasible[0].Node
	if rc.search.HoldsRoom(s.pod, best.Node.Name) {
		return "" // the next search may not choose it either
	}
	in := placement.Input{Pod: s.pod, Nodes: rc.shard.View.Nodes(), Objects: v.Lookups(rc.shard.View.Snapshot())}
	if rc.search.DependsOnHolds(in, profile, &concern, best, nil) {
		return ""
	}
	return best.Node.Name
}

// A plan asks binders to give back the reservations that are in its way. The mark in the ledger does not name the
// plan, and it may be on any node, since a rule about pods on other nodes, or a volume, reaches beyond the place. So
// the owner of a hold determines what the hold waits for by checking whether the pod fits without the marked
// reservations. The next owner of the partition, which did not make the plan, gets the same answer.

// yields reports whether a reservation is asked back and a pod of the given, higher priority may wait for it:
// binders give it back, or its pod is bound first.
func (rc *reconciler) yields(e *ledger.Entry, priority int32) bool {
	if e.Role != ledger.RoleReservation || !e.Wanted || e.Priority >= priority {
		return false
	}
	_, bound, known := rc.shard.View.TxnFacts().PodFact(e.PodUID)
	return known && !bound
}

// obstacle is why a pod does not fit on a node. node is the node as the promotion would find it, without the plan's
// victims.
type obstacle struct {
	node *state.NodeInfo
	why  placement.Failure
}

// handleUnfit decides about a hold whose victims have gone and whose pod does not fit. It may still wait for devices
// that the victims' claims have not released, or for reservations on other nodes that were asked back. Otherwise the
// plan has failed.
func (rc *reconciler) handleUnfit(
	s holdState, profile *placement.Profile, in placement.Input, o obstacle,
) inspection {
	switch {
	case o.why.LacksDevices() && rc.shard.Now.Sub(s.lastProgress) <= claimPatience:
		s.awaitsClaims = true
		return inspectionWaits
	case rc.fitsWhenYielded(s, profile, in, o.node):
		s.yielding.awaited = true
		return rc.await(s, 0)
	}
	reason := "the pod does not fit there any more: " + strings.Join(o.why.Reasons, ", ")
	return rc.giveUp(s, withdrawal{reason: reason, failed: true})
}

// fitsWhenYielded reports whether the pod of a hold fits once the reservations that are asked back have been given
// back, those for any plan. It reads every document, so it is called only for a pod that does not fit.
func (rc *reconciler) fitsWhenYielded(
	s holdState, profile *placement.Profile, in placement.Input, node *state.NodeInfo,
) bool {
	if len(in.Nodes) < 2 || txns.IsPrepared(s.plan) {
		return false // no other node matters, or no pod had to be evicted for it
	}
	gone := map[string]bool{}
	for d := range rc.shard.Ledger.Docs() {
		for i := range d.Entries {
			if e := &d.Entries[i]; rc.yields(e, s.entry.Priority) {
				gone[e.PodUID] = true
			}
		}
	}
	if len(gone) == 0 {
		return false
	}
	fits, _, err := profile.FitsWithout(in, node, gone)
	return err == nil && fits
}

// takesHeldRoom reports whether a victim that was only reserved has been bound after all, and the remaining room is
// free only because pods were evicted for another pod, whose place is held. It asks whether the pod fits on the node
// as it will be once the other plans there have ended: with their holds, and without their victims (view.Future).
// Kept places do not count in that question.
func (rc *reconciler) takesHeldRoom(s holdState, profile *placement.Profile, in placement.Input) bool {
	stayed := slices.ContainsFunc(s.yielding.reserved, func(uid string) bool {
		pod, ok := rc.shard.View.Pod(uid)
		return ok && pod.NodeName == s.doc.NodeName && !isLeaving(pod)
	})
	if !stayed {
		return false
	}
	var kept []string
	for i := range s.doc.Entries {
		if e := &s.doc.Entries[i]; e.Role == ledger.RoleMove {
			kept = append(kept, view.PlaceholderUID(e.Token))
		}
	}
	node, ok := rc.shard.View.Ask(view.Future, s.doc.NodeUID, s.plan, kept...)
	if !ok {
		return false
	}
	if len(in.Nodes) == 1 {
		in.Nodes = []*state.NodeInfo{node}
	} else {
		in.Nodes = rc.shard.NodesWith(node)
	}
	fits, _, err := profile.FitsWithout(in, node, nil)
	return err == nil && !fits
}
