package preempt

import (
	"fmt"
	"maps"
	"slices"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/pkg/placement/gang"
)

// reconcile inspects the holds that are due, until one needs a transaction; true if that has been sent. What is left
// of plans without a hold comes first. The due holds are then taken in rounds, in the order of their pods' UIDs: a
// hold that becomes due during a round waits for the next one, so that no hold starves behind others that are due
// again and again.
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
		case inspectionSent:
			delete(rc.holds.due, uid)
			return true
		case inspectionWaits:
			delete(rc.holds.due, uid)
		case inspectionRepeats:
		}
	}
	return false
}

// inspect decides what to do about a hold. The first step with a result ends it:
//
//  1. The ledger must still have the hold. If not, Holds drops it with the same change.
//  2. The pod must still need it: not deleted, not ended, and not bound by another scheduler. A pod that the facts do
//     not have may not have arrived yet (PodRV).
//  3. The node must not have been replaced by another node of its name.
//  4. A large plan must be complete (form), and plugins must have prepared the bind (prepared).
//  5. All victims must have gone, and the reservations on the node that were asked back (await).
//  6. The facts must have reached the high-water marks of all documents of the plan: an entry that was handed over
//     may be missing from the count otherwise.
//  7. The pod is promoted, if it still fits.
func (rc *reconciler) inspect(h *hold) inspection {
	s, ok := rc.stateOf(h)
	if !ok {
		return inspectionWaits
	}
	progress := rc.shard.View.TxnFacts().PodProgress()
	switch {
	case s.pod == nil && progress < s.entry.PodRV:
		return inspectionRepeats
	case s.pod == nil || s.pod.Deleting || s.pod.Terminal:
		return rc.giveUp(s, withdrawal{reason: "the pod is gone", silent: true})
	case s.pod.NodeName != "":
		return rc.giveUp(s, withdrawal{reason: "another writer has bound the pod", silent: true})
	case s.doc.SupersededBy != "":
		return rc.giveUp(s, withdrawal{reason: "another node has registered under the name of the node"})
	}
	var l inspection
	if g, member := gang.Of(s.pod, rc.shard.View.Snapshot()); member {
		switch {
		case g == nil && ledger.IsRecorded(h.plan):
			return rc.giveUp(s, withdrawal{reason: "its PodGroup is gone"})
		case g != nil && g.Together():
			s.gang = g
			return gangHolds{rc}.inspect(s)
		}
	}
	switch {
	case ledger.IsRecorded(h.plan):
		l = rc.form(s)
	case txns.IsPrepared(h.plan):
		l = rc.prepared(s)
	}
	if l != inspectionOpen {
		return l
	}
	if left, grace := rc.victimsLeft(s); left && !txns.IsPrepared(h.plan) {
		return rc.await(s, grace)
	}
	rc.holds.setBegun(s.hold, true)
	for _, d := range append(s.otherDocs, s.doc) {
		if progress < d.HighWater(ledger.KindPod) {
			return inspectionRepeats
		}
	}
	return rc.promote(s)
}

// stateOf returns a hold with its current state; false if the ledger does not have it any more.
func (rc *reconciler) stateOf(h *hold) (s holdState, ok bool) {
	s = holdState{by: rc, hold: h}
	s.doc, s.entry, ok = rc.shard.Ledger.Entry(h.podUID)
	if !ok || s.entry.Token != h.token || s.entry.State != ledger.Held {
		return s, false
	}
	for _, d := range rc.shard.Ledger.Plans().Docs(h.plan) {
		if d.NodeUID != s.doc.NodeUID {
			s.otherDocs = append(s.otherDocs, d)
		}
	}
	if pod, known := rc.shard.View.Pod(h.podUID); known {
		s.pod = pod
	}
	return s, true
}

// prepared inspects a hold whose bind plugins prepare; inspectionOpen if they have finished. A shard that does not
// know the plugins' agreement gives the hold up: their state was in a process that is gone. Plugins that take longer
// than txns.PreparedFor lose the place.
func (rc *reconciler) prepared(s holdState) inspection {
	switch d := s.plugins; {
	case d == nil || d.Ended && d.Outcome == nil:
		return rc.giveUp(s, withdrawal{reason: noPlace})
	case d.Outcome == nil && rc.shard.Now.Sub(s.firstSeen) > txns.PreparedFor:
		return rc.giveUp(s, withdrawal{reason: fmt.Sprintf("plugins have not come to an end within %v", txns.PreparedFor)})
	case d.Outcome == nil:
		return inspectionWaits
	case d.Outcome.Failed():
		return rc.giveUp(s, withdrawal{reason: "a plugin will not have the pod bound there"})
	}
	return inspectionOpen
}

// noPlace is the reason for giving up a place that this shard's plugins do not know.
const noPlace = "the scheduler whose plugins prepared the bind is gone"

// drain makes plugins take back the work that this shard will not complete: that of all its holds but the one whose
// promotion is in flight. (Once the hold is promoted, its pod will be bound.)
func (rc *reconciler) drain() {
	for _, uid := range slices.Sorted(maps.Keys(rc.holds.held)) {
		h := rc.holds.held[uid]
		if p, promoting := rc.slot.InFlight().(*promotion); promoting && p.hold == h {
			continue
		}
		rc.performing.Undo(h.plugins, false)
	}
}
