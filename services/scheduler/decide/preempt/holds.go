package preempt

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/pkg/ledger/view"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/scheduler/decide/advice"
	"github.com/berth-scheduler/berth/services/scheduler/decide/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/decide/shard"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

// holds indexes the places in the ledger that are held for this shard's pods until their victims have gone, and
// notes which holds must be inspected.
type holds struct {
	shard      *shard.State
	performing *advice.Plugins
	loops      *loops
	budgets    *budgetBook

	// held are the holds of this shard's pods, by pod UID; byPlan maps a plan to its hold.
	held   map[string]*hold
	byPlan map[string]*hold
	// due are the pod UIDs of the holds to inspect; queue are those of them that are left in this round. orphans are
	// former plans of this shard that have lost their hold and still have claims.
	due     map[string]struct{}
	queue   []string
	orphans map[string]struct{}
	// promised are the nodes with holds of any shard, by UID; kept are the nodes with places for the replacements of
	// moved pods. Both give the priority of the least important pod there.
	promised, kept map[string]int32
	// protected are the nodes, by UID, on which the engine protects pods from being victims.
	protected map[string]struct{}
	// unbegun counts the holds that are not begun.
	unbegun int
}

// hold is a place that is held for a pod of this shard.
type hold struct {
	podUID, nodeUID, plan string
	token                 ledger.Token
	// since is when this shard first saw it, moved when its plan last changed.
	since, moved time.Time
	// refused is when an eviction of the plan was last taken back because it failed.
	refused time.Time
	// attempt and traceParent are those of the offer, if this shard got the offer.
	attempt     int32
	traceParent string
	// rest are the victims that a plan with a record must still claim.
	rest     []txns.NodeEntry
	yielding yielding
	// deal is the deal of its plugins, nil for none.
	deal *attempt.Deal
	// begun: a binder has begun to evict for it, or no pod has to be evicted, as of the last look.
	begun bool
	// awaitsClaims: all victims have gone, but their claims still hold the devices.
	awaitsClaims bool
	// vetting is the question to extenders about the place, asked once all victims have gone.
	vetting vetting
}

func newHolds(s *shard.State) *holds {
	return &holds{
		shard: s, held: map[string]*hold{}, byPlan: map[string]*hold{}, due: map[string]struct{}{},
		orphans: map[string]struct{}{}, protected: map[string]struct{}{},
		promised: map[string]int32{}, kept: map[string]int32{},
	}
}

// followLedger applies changes of the ledger.
func (hs *holds) followLedger(changes replica.Changes) {
	hs.budgets.followLedger(changes.Reset || len(changes.Budgets) > 0)
	if changes.Reset {
		hs.promised, hs.kept = map[string]int32{}, map[string]int32{}
		for d := range hs.shard.Ledger.Docs() {
			hs.notePromises(d)
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

func (hs *holds) notePromises(d ledger.NodeDoc) {
	delete(hs.promised, d.NodeUID)
	delete(hs.kept, d.NodeUID)
	for i := range d.Entries {
		e := &d.Entries[i]
		least := hs.promised
		switch {
		case e.Role == ledger.RoleMove:
			least = hs.kept
		case !shard.IsHold(e):
			continue
		}
		if priority, known := least[d.NodeUID]; !known || e.Priority < priority {
			least[d.NodeUID] = e.Priority
		}
	}
}

// followDoc applies one change of a document.
func (hs *holds) followDoc(d *replica.DocChange) {
	if !concernsPlans(&d.Before) && !concernsPlans(&d.After) {
		return
	}
	nodeUID := max(d.Before.NodeUID, d.After.NodeUID)
	after := d.After
	after.NodeUID = nodeUID
	hs.notePromises(after)
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
			h.moved = hs.shard.Now
			if was.State == ledger.Evicting {
				h.refused = hs.shard.Now
			}
		}
	}
	for i := range d.Before.Entries {
		v := &d.Before.Entries[i]
		if h, mine := hs.byPlan[v.Plan]; mine && v.Role == ledger.RoleVictim && !d.After.Claimed(v.PodUID) {
			hs.touch(h)
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

// touch notes that a plan has changed.
func (hs *holds) touch(h *hold) {
	h.moved = hs.shard.Now
	hs.due[h.podUID] = struct{}{}
}

// followHold applies a change of a pod's reservation. The shard that holds the partition manages its holds,
// whichever shard made them.
func (hs *holds) followHold(uid string) {
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

func (hs *holds) addHold(h *hold) {
	h.since, h.moved = hs.shard.Now, hs.shard.Now
	if old, known := hs.held[h.podUID]; known {
		hs.setBegun(old, true)
	}
	hs.unbegun++
	hs.held[h.podUID], hs.byPlan[h.plan] = h, h
	hs.due[h.podUID] = struct{}{}
}

// setBegun notes whether a binder has begun to evict for a hold.
func (hs *holds) setBegun(h *hold, begun bool) {
	switch {
	case begun && !h.begun:
		hs.unbegun--
	case !begun && h.begun:
		hs.unbegun++
	}
	h.begun = begun
}

func (hs *holds) forgetHold(h *hold) {
	d := h.deal
	h.deal = nil
	hs.performing.Leave(h.podUID, d)
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

// followFacts applies facts that plans wait for.
func (hs *holds) followFacts(changes state.Changes) {
	for _, n := range changes.Nodes {
		if n.After != nil {
			hs.protect(n.After.UID)
		}
	}
	hs.budgets.followFacts(changes)
	if len(hs.held)+len(hs.loops.pairs) == 0 {
		return
	}
	for i := range changes.Pods {
		hs.podMoved(&changes.Pods[i])
	}
	if slices.ContainsFunc(changes.Others, func(o state.ObjectChange) bool { return o.Kind == events.KindResourceClaim }) {
		hs.claimsMoved()
	}
}

// claimsMoved makes the holds due that wait for devices.
func (hs *holds) claimsMoved() {
	for uid, h := range hs.held {
		if h.awaitsClaims {
			hs.due[uid] = struct{}{}
		}
	}
}

// podMoved makes the hold due that a change of a pod concerns.
func (hs *holds) podMoved(pod *state.PodChange) {
	if pod.After != nil && pod.After.NodeName != "" && pod.Before != nil && pod.Before.NodeName == "" {
		hs.loops.bound(pod.After)
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
		h.moved = hs.shard.Now
	}
}

func uidOf(p *state.Pod) string {
	if p == nil {
		return ""
	}
	return p.UID
}

// isLeaving reports whether a pod is gone, has ended or is being deleted.
func isLeaving(p *state.Pod) bool { return p == nil || p.Deleting || p.Terminal }

// reset makes everything due, after the facts were rebuilt.
func (hs *holds) reset() {
	hs.budgets.stale = true
	for d := range hs.shard.Ledger.Docs() {
		if concernsPlans(&d) {
			hs.protect(d.NodeUID)
		}
	}
	hs.allDue()
}

func (hs *holds) allDue() {
	for uid := range hs.held {
		hs.due[uid] = struct{}{}
	}
}

// protect sets which pods on a node the engine must not take as victims: pods that a plan has claimed, pods that a
// placement relies on, and pods that a place is held for (T4 takes such a place, not an eviction). Reservations that
// can be bound may be victims: their binders give them back.
func (hs *holds) protect(nodeUID string) {
	n, ok := hs.shard.View.Node(nodeUID)
	if !ok {
		return
	}
	d, _ := hs.shard.Ledger.Doc(nodeUID)
	var uids []string
	for i := range d.Entries {
		if e := &d.Entries[i]; e.Role != ledger.RoleReservation || e.State == ledger.Held {
			uids = append(uids, e.PodUID)
		}
		if e := &d.Entries[i]; e.Role == ledger.RoleMove {
			uids = append(uids, view.PlaceholderUID(e.Token))
		}
	}
	uids = append(uids, hs.loops.sparedOn(nodeUID)...)
	if _, told := hs.protected[nodeUID]; len(uids) == 0 && !told {
		return
	}
	hs.protected[nodeUID] = struct{}{}
	if len(uids) == 0 {
		delete(hs.protected, nodeUID)
	}
	hs.shard.Engine.SetProtected(n, uids)
}

// followYields makes the holds due that wait for reservations on other nodes, when a reservation that was asked back
// is gone.
func (hs *holds) followYields(d *replica.DocChange) {
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

// keepsBelow reports whether there are less important pods that must not be victims for now and are not leaving.
func (hs *holds) keepsBelow(priority int32) bool {
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
	for uid := range hs.loops.spared {
		if stays(uid) {
			return true
		}
	}
	return false
}

// holdPlace adds the hold of a pod whose plugins prepare its bind. No pod has to be evicted for it.
func (hs *holds) holdPlace(d *attempt.Deal) {
	a := d.Attempt
	h := &hold{
		podUID: a.Offer.Pod.UID, nodeUID: d.NodeUID, plan: txns.PreparedPlan(d.Token), token: d.Token,
		attempt: a.Offer.Attempt, traceParent: a.Offer.TraceParent, deal: d,
	}
	hs.addHold(h)
	hs.setBegun(h, true)
}

// prepared makes the hold due of a pod whose plugins have prepared its bind, or have failed to.
func (hs *holds) prepared(d *attempt.Deal) {
	if h, held := hs.held[d.Attempt.Offer.Pod.UID]; held && h.deal == d {
		hs.touch(h)
	}
}

// vetted applies the answer of extenders about a held place.
func (hs *holds) vetted(plan string, advice step.Advice) {
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
