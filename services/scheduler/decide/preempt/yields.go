package preempt

import (
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/pkg/ledger/view"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
)

// A plan asks binders to give back the reservations that are in its way. The mark in the ledger does not name the
// plan, and it may be on any node, since a rule about pods on other nodes, or a volume, reaches beyond the place. So
// the owner of a hold determines what the hold waits for by checking whether the pod fits without the marked
// reservations. The next owner of the partition, which did not make the plan, gets the same answer.

// yielding lists the reservations that must be given back for a plan.
type yielding struct {
	// reserved are the UIDs of their pods, if this shard made the plan: these pods may be bound after all. alone: the
	// plan has no other victims.
	reserved []string
	alone    bool
	// awaited: the pod does not fit before reservations on other nodes are given back.
	awaited bool
}

// yields reports whether a reservation is asked back and a pod of the given, higher priority may wait for it:
// binders give it back, or its pod is bound first.
func (rc *reconciler) yields(e *ledger.Entry, priority int32) bool {
	if e.Role != ledger.RoleReservation || !e.Wanted || e.Priority >= priority {
		return false
	}
	_, bound, known := rc.shard.View.TxnFacts().PodFact(e.PodUID)
	return known && !bound
}

// obstacle is why a pod does not fit on a node.
type obstacle struct {
	node *state.NodeInfo
	why  placement.Failure
}

// lacksRoom decides about a hold whose victims have gone and whose pod does not fit.
func (rc *reconciler) lacksRoom(
	s standing, profile *placement.Profile, in placement.Input, o obstacle,
) look {
	switch {
	case o.why.LacksDevices() && rc.shard.Now.Sub(s.moved) <= claimPatience:
		s.awaitsClaims = true
		return lookLater
	case rc.fitsWhenYielded(s, profile, in, o.node):
		s.yielding.awaited = true
		return rc.await(s, 0)
	}
	reason := "the pod does not fit there any more: " + strings.Join(o.why.Reasons, ", ")
	return rc.giveUp(s, end{reason: reason, failed: true})
}

// fitsWhenYielded reports whether the pod of a hold fits once the reservations that are asked back have been given
// back. It reads every document, so it is called only for a pod that does not fit.
func (rc *reconciler) fitsWhenYielded(
	s standing, profile *placement.Profile, in placement.Input, node *state.NodeInfo,
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

// takesPromised reports whether a victim that was only reserved has been bound after all, and the remaining room is
// free only because pods were evicted for another pod, whose place is held.
func (rc *reconciler) takesPromised(s standing, profile *placement.Profile, in placement.Input) bool {
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
