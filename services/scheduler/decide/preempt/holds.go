package preempt

import (
	"errors"
	"maps"
	"slices"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/pkg/ledger/view"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/scheduler/decide/advice"
	"github.com/berth-scheduler/berth/services/scheduler/decide/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/decide/budgets"
	"github.com/berth-scheduler/berth/services/scheduler/decide/failures"
	"github.com/berth-scheduler/berth/services/scheduler/decide/shard"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

// Holds indexes the places in the ledger that are held for this shard's pods until their victims have gone, and
// notes which holds must be inspected. It also tracks the nodes on which any shard holds a place, or the descheduler
// keeps one, and protects pods that must not be victims. It follows the ledger and the facts, and sends nothing.
//
// A shard's own hold is added when its transaction is answered (addHold), which may be before the watch shows it;
// all others come from the ledger (followHold).
type Holds struct {
	shard      *shard.State
	performing *advice.Plugins
	failures   *failures.Memory
	budgets    *budgets.Book

	// held are the holds of this shard's pods, by pod UID; byPlan maps a plan to its hold. A pod has at most one.
	held   map[string]*hold
	byPlan map[string]*hold
	// due are the pod UIDs of the holds to inspect; queue are those of them that are left in this round, sorted.
	// orphans are former plans of this shard that have lost their hold and still have claims: a T8 that did not fit
	// in one transaction leaves such claims, as does a hold that another member has removed.
	due     map[string]struct{}
	queue   []string
	orphans map[string]struct{}
	// heldNodes are the nodes with holds of any shard, by UID; keptNodes are those with places for the replacements of
	// moved pods. Both give the priority of the least important pod there: a pod that is not more important finds
	// nothing to take over on the node, and its document need not be read.
	heldNodes, keptNodes map[string]int32
	// protected are the nodes, by UID, on which the engine protects pods from being victims. It is kept because the
	// engine must also be called when the last protected pod of a node is gone, and should not be called for all
	// others.
	protected map[string]struct{}
	// unbegun counts the holds that are not begun. It limits further plans (maxUnbegun).
	unbegun int
}

// newHolds returns an index without holds. The caller sets performing, failures and budgets.
func newHolds(s *shard.State) *Holds {
	return &Holds{
		shard: s, held: map[string]*hold{}, byPlan: map[string]*hold{}, due: map[string]struct{}{},
		orphans: map[string]struct{}{}, protected: map[string]struct{}{},
		heldNodes: map[string]int32{}, keptNodes: map[string]int32{},
	}
}

// HeldNodes returns the UIDs of the nodes with held places, with the priority of the least important pod there. The
// caller must not change the map.
func (hs *Holds) HeldNodes() map[string]int32 { return hs.heldNodes }

// Count returns how many places are held for pods of this shard.
func (hs *Holds) Count() int { return len(hs.held) }

// FollowLedger applies changes of the ledger: first those of documents, which also show what became of claims, then
// those of pods' reservations. A change of partitions may make any hold this shard's, or another's, so that all are
// checked.
func (hs *Holds) FollowLedger(changes replica.Changes) {
	hs.budgets.FollowLedger(changes.Reset || len(changes.Budgets) > 0)
	if changes.Reset {
		hs.heldNodes, hs.keptNodes = map[string]int32{}, map[string]int32{}
		for d := range hs.shard.Ledger.Docs() {
			hs.updateHeldNodes(d)
			hs.protect(d.NodeUID)
		}
	}
	for i := range changes.Docs {
		hs.followDoc(&changes.Docs[i])
	}
	for _, uid := range changes.PodUIDs {
		hs.followHold(uid)
	}
	if changes.Reset || len(changes.Partitions) > 0 {
		for _, uid := range slices.Sorted(maps.Keys(hs.held)) {
			hs.followHold(uid)
		}
		for uid := range hs.shard.Ledger.Reserved() {
			hs.followHold(uid)
		}
	}
}

// updateHeldNodes reads from a document which places are held or kept on its node.
func (hs *Holds) updateHeldNodes(d ledger.NodeDoc) {
	delete(hs.heldNodes, d.NodeUID)
	delete(hs.keptNodes, d.NodeUID)
	for i := range d.Entries {
		e := &d.Entries[i]
		least := hs.heldNodes
		switch {
		case e.Role == ledger.RoleMove:
			least = hs.keptNodes
		case !shard.IsHold(e):
			continue
		}
		if priority, known := least[d.NodeUID]; !known || e.Priority < priority {
			least[d.NodeUID] = e.Priority
		}
	}
}

// followDoc applies one change of a document. Most documents concern no plan, and are skipped at once. A claim that
// was marked (Evicting), unmarked or dropped counts as progress of its plan; one that was unmarked as a failed
// eviction too.
func (hs *Holds) followDoc(d *replica.DocChange) {
	if !concernsPlans(&d.Before) && !concernsPlans(&d.After) {
		return
	}
	hs.budgets.Reread() // what is left of a budget depends on the victims in documents too
	nodeUID := max(d.Before.NodeUID, d.After.NodeUID)
	after := d.After
	after.NodeUID = nodeUID
	hs.updateHeldNodes(after)
	hs.protect(nodeUID)
	hs.followYields(d)
	for i := range d.After.Entries {
		e := &d.After.Entries[i]
		h, mine := hs.byPlan[e.Plan]
		if !mine {
			continue
		}
		hs.due[h.podUID] = struct{}{}
		was, known := d.Before.Victim(e.PodUID)
		if e.Role == ledger.RoleVictim && (!known || was.State != e.State) {
			h.lastProgress = hs.shard.Now
			if was.State == ledger.Evicting {
				h.lastRefusal = hs.shard.Now
			}
		}
	}
	for i := range d.Before.Entries {
		v := &d.Before.Entries[i]
		if h, mine := hs.byPlan[v.Plan]; mine && v.Role == ledger.RoleVictim && !d.After.Claimed(v.PodUID) {
			hs.noteProgress(h)
		}
	}
}

// concernsPlans reports whether a document has an entry other than reservations that can be bound and are not
// wanted.
func concernsPlans(d *ledger.NodeDoc) bool {
	for i := range d.Entries {
		e := &d.Entries[i]
		if e.Role != ledger.RoleReservation || e.State == ledger.Held || e.Wanted {
			return true
		}
	}
	return false
}

// noteProgress notes that a plan has made progress, and makes its hold due.
func (hs *Holds) noteProgress(h *hold) {
	h.lastProgress = hs.shard.Now
	hs.due[h.podUID] = struct{}{}
}

// followHold applies a change of a pod's reservation. The shard that holds the partition manages its holds,
// whichever shard made them. A hold whose plan, token or node has changed is another one: what was remembered of the
// old one is dropped.
func (hs *Holds) followHold(uid string) {
	doc, e, ok := hs.shard.Ledger.Entry(uid)
	if ok && shard.IsHold(&e) {
		_, ok = hs.shard.Holds(e.Partition())
	} else {
		ok = false
	}
	h, known := hs.held[uid]
	if known && (!ok || h.plan != e.Plan || h.token != e.Token || h.nodeUID != doc.NodeUID) {
		hs.forgetHold(h)
		known = false
	}
	if ok && !known {
		hs.addHold(&hold{podUID: uid, nodeUID: doc.NodeUID, plan: e.Plan, token: e.Token})
	}
}

// addHold adds a hold, in place of any other hold of its pod. It is due and not begun.
func (hs *Holds) addHold(h *hold) {
	h.firstSeen, h.lastProgress = hs.shard.Now, hs.shard.Now
	if old, known := hs.held[h.podUID]; known {
		hs.setBegun(old, true)
	}
	hs.unbegun++
	hs.held[h.podUID], hs.byPlan[h.plan] = h, h
	hs.due[h.podUID] = struct{}{}
}

// setBegun notes whether a binder has begun to evict for a hold. It may change back: an eviction that fails is
// unmarked.
func (hs *Holds) setBegun(h *hold, begun bool) {
	switch {
	case begun && !h.begun:
		hs.unbegun--
	case !begun && h.begun:
		hs.unbegun++
	}
	h.begun = begun
}

// forgetHold removes a hold that is promoted, given up, displaced, or no longer this shard's. Plugins that have
// acted on it continue with the reservation, or undo their work. Claims that are left without a hold are dropped
// later (dropOrphan).
func (hs *Holds) forgetHold(h *hold) {
	d := h.plugins
	h.plugins = nil
	hs.performing.HoldRemoved(h.podUID, d)
	hs.setBegun(h, true)
	delete(hs.held, h.podUID)
	delete(hs.due, h.podUID)
	if hs.byPlan[h.plan] == h {
		delete(hs.byPlan, h.plan)
	}
	if _, _, owned := hs.shard.Ledger.Plans().Owner(h.plan); !owned && len(hs.shard.Ledger.Plans().Docs(h.plan)) > 0 {
		hs.orphans[h.plan] = struct{}{}
	}
}

// FollowFacts applies facts that plans wait for: pods that leave, claims that are released, nodes that appear. A
// shard without holds and failures reads only the nodes and budgets.
func (hs *Holds) FollowFacts(changes state.Changes) {
	for _, n := range changes.Nodes {
		if n.After != nil {
			hs.protect(n.After.UID)
		}
	}
	hs.budgets.FollowFacts(changes)
	if len(hs.held) == 0 && !hs.failures.Any() {
		return
	}
	for i := range changes.Pods {
		hs.followPod(&changes.Pods[i])
	}
	if slices.ContainsFunc(changes.Others, func(o state.ObjectChange) bool { return o.Kind == events.KindResourceClaim }) {
		hs.followClaims()
	}
}

// followClaims makes the holds due that wait for devices. Which claim has changed is not compared with the holds:
// changes of claims are rare, and an inspection finds out.
func (hs *Holds) followClaims() {
	for uid, h := range hs.held {
		if h.awaitsClaims {
			hs.due[uid] = struct{}{}
		}
	}
}

// followPod makes the hold due that a change of a pod concerns: that of the pod itself, or the one whose victim it
// is and that it begins to leave for or has left for. A pod that is bound ends the count of failures of its owner.
func (hs *Holds) followPod(pod *state.PodChange) {
	if pod.After != nil && pod.After.NodeName != "" && pod.Before != nil && pod.Before.NodeName == "" {
		hs.failures.Forget(pod.After)
	}
	uid := max(uidOf(pod.Before), uidOf(pod.After))
	if _, held := hs.held[uid]; held {
		hs.due[uid] = struct{}{}
	}
	_, victim, claimed := hs.shard.Ledger.Plans().Victim(uid)
	h, mine := hs.byPlan[victim.Plan]
	if !claimed || !mine || !isLeaving(pod.After) {
		return
	}
	hs.due[h.podUID] = struct{}{}
	if pod.After == nil || !isLeaving(pod.Before) {
		h.lastProgress = hs.shard.Now
	}
}

// uidOf returns the UID of a pod, empty for none.
func uidOf(p *state.Pod) string {
	if p == nil {
		return ""
	}
	return p.UID
}

// Reset makes everything due, after the facts were rebuilt. The ledger is unchanged, so the index is too; the
// protection is set again, as the nodes of the engine are new.
func (hs *Holds) Reset() {
	hs.budgets.Reread()
	for d := range hs.shard.Ledger.Docs() {
		if concernsPlans(&d) {
			hs.protect(d.NodeUID)
		}
	}
	hs.allDue()
}

// allDue makes all holds due.
func (hs *Holds) allDue() {
	for uid := range hs.held {
		hs.due[uid] = struct{}{}
	}
}

// makeDue makes the holds of some pods due.
func (hs *Holds) makeDue(uids []string) {
	for _, uid := range uids {
		if _, held := hs.held[uid]; held {
			hs.due[uid] = struct{}{}
		}
	}
}

// protect sets which pods on a node the engine must not take as victims: pods that a plan has claimed, pods that a
// placement relies on, pods that a place is held for (T4 takes such a place, not an eviction), placeholders (they
// are taken over instead), and pods that are spared because they could not be evicted. Reservations that can be
// bound may be victims: their binders give them back.
func (hs *Holds) protect(nodeUID string) {
	n, ok := hs.shard.View.Node(nodeUID)
	if !ok {
		return
	}
	uids := hs.protectedOn(nodeUID)
	if _, known := hs.protected[nodeUID]; len(uids) == 0 && !known {
		return
	}
	hs.protected[nodeUID] = struct{}{}
	if len(uids) == 0 {
		delete(hs.protected, nodeUID)
	}
	hs.shard.Engine.SetProtected(n, uids)
}

// protectedOn returns the UIDs of the pods on a node that must not be victims.
func (hs *Holds) protectedOn(nodeUID string) (uids []string) {
	d, _ := hs.shard.Ledger.Doc(nodeUID)
	for i := range d.Entries {
		if e := &d.Entries[i]; e.Role != ledger.RoleReservation || e.State == ledger.Held {
			uids = append(uids, e.PodUID)
		}
		if e := &d.Entries[i]; e.Role == ledger.RoleMove {
			uids = append(uids, view.PlaceholderUID(e.Token))
		}
	}
	return append(uids, hs.failures.SparedOn(nodeUID)...)
}

// followYields makes the holds due that wait for reservations on other nodes, when a reservation that was asked back
// is gone: given back, bound, or replaced.
func (hs *Holds) followYields(d *replica.DocChange) {
	gone := false
	for i := range d.Before.Entries {
		if e := &d.Before.Entries[i]; e.Role == ledger.RoleReservation && e.Wanted && !gone {
			now, still := d.After.Find(e.PodUID)
			gone = !still || now.Token != e.Token
		}
	}
	if !gone {
		return
	}
	for uid, h := range hs.held {
		if h.yielding.awaited {
			hs.due[uid] = struct{}{}
		}
	}
}

// protectsBelow reports whether there are less important pods that must not be victims for now and are not leaving.
// A pod of that priority that found no victims waits for the end of such a protection.
func (hs *Holds) protectsBelow(priority int32) bool {
	stays := func(uid string) bool {
		pod, ok := hs.shard.View.Pod(uid)
		return ok && !isLeaving(pod) && pod.Priority < priority
	}
	for nodeUID := range hs.protected {
		d, _ := hs.shard.Ledger.Doc(nodeUID)
		for i := range d.Entries {
			e := &d.Entries[i]
			if (e.Role != ledger.RoleReservation || e.State == ledger.Held) && stays(e.PodUID) {
				return true
			}
		}
	}
	for _, uid := range hs.failures.SparedPods() {
		if stays(uid) {
			return true
		}
	}
	return false
}

// holdPlace adds the hold of a pod whose plugins prepare its bind. No pod has to be evicted for it, so it is begun.
func (hs *Holds) holdPlace(d *attempt.PluginBinding) {
	a := d.Attempt
	h := &hold{
		podUID: a.Offer.Pod.UID, nodeUID: d.NodeUID, plan: txns.PreparedPlan(d.Token), token: d.Token,
		attempt: a.Offer.Attempt, traceParent: a.Offer.TraceParent, plugins: d,
	}
	hs.addHold(h)
	hs.setBegun(h, true)
}

// prepared makes the hold due of a pod whose plugins have prepared its bind, or have failed to; unless the hold is
// gone, or belongs to a later agreement.
func (hs *Holds) prepared(d *attempt.PluginBinding) {
	if h, held := hs.held[d.Attempt.Offer.Pod.UID]; held && h.plugins == d {
		hs.noteProgress(h)
	}
}

// vetted applies the answer of extenders about a held place. An answer to another question than the open one is
// ignored: the hold has been promoted or replaced since. After an error nothing is due, so that the next heartbeat
// asks again, and not every step.
func (hs *Holds) vetted(plan string, advice step.Advice) {
	h, held := hs.byPlan[plan]
	if !held || h.vetting.id != advice.ID {
		return
	}
	h.vetting = vetting{answered: true, err: advice.Err}
	if advice.Err != nil {
		return // a heartbeat asks again
	}
	doc, _ := hs.shard.Ledger.Doc(h.nodeUID)
	var ok bool
	if h.vetting.opinion, ok = advice.Opinions[doc.NodeName]; !ok {
		h.vetting.err = errors.New("extenders have said nothing about node " + doc.NodeName)
		return
	}
	hs.due[h.podUID] = struct{}{}
}
