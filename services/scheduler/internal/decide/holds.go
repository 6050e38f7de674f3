package decide

import (
	"maps"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/view"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/scheduler/internal/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/internal/shard"
)

// plans is what a shard knows about places that are held for pods until others have gone.
type plans struct {
	// held are the holds of this shard's pods, by pod UID; byPlan finds them by plan.
	held   map[string]*hold
	byPlan map[string]*hold
	// due are the holds to look at, by pod UID, queue those of them that are still to be looked
	// at in this round. orphans are plans that were this shard's and
	// have lost their hold, with claims left over.
	due     map[string]struct{}
	queue   []string
	orphans map[string]struct{}
	promises
	// protected are the nodes, by UID, on which the engine has been told of pods that are nobody's
	// victims.
	protected map[string]struct{}
	waitingLine
	// alternate: the last transaction was a deed, and placements that wait go first.
	alternate bool
	// quiet: a promotion counts pods elsewhere, and waits until none is staged.
	quiet bool
	// looks is for how many more holds it may be asked whether their pods fit elsewhere.
	looks   int
	budgets budgetBook
	loops   loops
}

// waitingLine is who waits for a plan.
type waitingLine struct {
	// sought counts them, retried is the place of the next one that is tried again meanwhile.
	sought  uint64
	retried int
	// unbegun counts the holds that are not begun: what they wait for.
	unbegun int
}

// promises is what a shard knows about places that are anybody's.
type promises struct {
	// promised are the nodes with holds, by UID, kept those with places for the replacements of
	// pods that are moved, each with the priority of the least important.
	promised, kept map[string]int32
	// releases are the plans of moves whose place nobody will want.
	releases []string
}

// hold is a place that is held for a pod of this shard's.
type hold struct {
	podUID, nodeUID, plan string
	token                 ledger.Token
	// since is when this shard first saw it, moved when something last happened to its plan.
	since, moved time.Time
	// refused is when an eviction of the plan's was last taken back for having failed.
	refused time.Time
	// attempt and traceParent are those of the offer, if it was this shard that took it.
	attempt     int32
	traceParent string
	// rest are the victims that a plan with a record is still to claim.
	rest     []ledger.NodeEntry
	yielding yielding
	// deal is what plugins have to do with it, nil for nothing.
	deal *attempt.Deal
	// begun: somebody has begun to evict for it, or nobody has to be evicted, as of the last look.
	begun bool
	// awaitsClaims: all have gone, and their claims still have the devices.
	awaitsClaims bool
	// vetting is what extenders say of the place now that all have gone.
	vetting vetting
}

func newPlans() plans {
	return plans{
		held: map[string]*hold{}, byPlan: map[string]*hold{}, due: map[string]struct{}{},
		orphans: map[string]struct{}{}, protected: map[string]struct{}{},
		promises: promises{promised: map[string]int32{}, kept: map[string]int32{}},
	}
}

// Holds is how many places are held for pods of this shard's.
func (c *Core) Holds() int { return len(c.plans.held) }

// followPlans takes in what has changed in the ledger.
func (c *Core) followPlans(changes ledger.ViewChanges) {
	p := &c.plans
	p.budgets.stale = p.budgets.stale || p.budgets.unknown || changes.Reset || len(changes.Budgets) > 0
	if changes.Reset {
		p.promised, p.kept = map[string]int32{}, map[string]int32{}
		for d := range c.shard.Ledger.Docs() {
			c.notePromises(d)
			c.protect(d.NodeUID)
		}
	}
	for i := range changes.Docs {
		c.followDoc(&changes.Docs[i])
	}
	for _, uid := range changes.PodUIDs {
		c.followHold(uid)
	}
	if changes.Reset || len(changes.Partitions) > 0 {
		for _, uid := range slices.Sorted(maps.Keys(p.held)) {
			c.followHold(uid)
		}
		for uid := range c.shard.Ledger.Reserved() {
			c.followHold(uid)
		}
	}
}

func (c *Core) notePromises(d ledger.NodeDoc) {
	delete(c.plans.promised, d.NodeUID)
	delete(c.plans.kept, d.NodeUID)
	for i := range d.Entries {
		e := &d.Entries[i]
		least := c.plans.promised
		switch {
		case e.Role == ledger.RoleMove:
			least = c.plans.kept
		case !shard.IsHold(e):
			continue
		}
		if priority, known := least[d.NodeUID]; !known || e.Priority < priority {
			least[d.NodeUID] = e.Priority
		}
	}
}

// followDoc takes in one change of a document.
func (c *Core) followDoc(d *ledger.DocChange) {
	if !concernsPlans(&d.Before) && !concernsPlans(&d.After) {
		return
	}
	nodeUID := max(d.Before.NodeUID, d.After.NodeUID)
	after := d.After
	after.NodeUID = nodeUID
	c.notePromises(after)
	c.protect(nodeUID)
	c.followYields(d)
	for i := range d.After.Entries {
		e := &d.After.Entries[i]
		h, mine := c.plans.byPlan[e.Plan]
		if !mine {
			continue
		}
		c.plans.due[h.podUID] = struct{}{}
		was, known := d.Before.Victim(e.PodUID)
		if e.Role == ledger.RoleVictim && (!known || was.State != e.State) {
			h.moved = c.shard.Now
			if was.State == ledger.Evicting {
				h.refused = c.shard.Now
			}
		}
	}
	for i := range d.Before.Entries {
		v := &d.Before.Entries[i]
		if h, mine := c.plans.byPlan[v.Plan]; mine && v.Role == ledger.RoleVictim && !d.After.Claimed(v.PodUID) {
			c.touch(h)
		}
	}
}

// concernsPlans says whether a document has anything but reservations that can be bound.
func concernsPlans(d *ledger.NodeDoc) bool {
	for i := range d.Entries {
		e := &d.Entries[i]
		if e.Role != ledger.RoleReservation || e.State == ledger.Held || e.Wanted {
			return true
		}
	}
	return false
}

// touch notes that something has happened to a plan.
func (c *Core) touch(h *hold) {
	h.moved = c.shard.Now
	c.plans.due[h.podUID] = struct{}{}
}

// followHold takes in what has become of a pod's reservation. Whoever holds the partition looks
// after its holds, whoever made them.
func (c *Core) followHold(uid string) {
	doc, e, ok := c.shard.Ledger.Entry(uid)
	if ok && shard.IsHold(&e) {
		_, ok = c.shard.Holds(e.Partition())
	} else {
		ok = false
	}
	p := &c.plans
	h, known := p.held[uid]
	if known && (!ok || h.plan != e.Plan || h.token != e.Token || h.nodeUID != doc.NodeUID) {
		c.forgetHold(h)
		known = false
	}
	if ok && !known {
		c.addHold(&hold{podUID: uid, nodeUID: doc.NodeUID, plan: e.Plan, token: e.Token})
	}
}

func (c *Core) addHold(h *hold) {
	h.since, h.moved = c.shard.Now, c.shard.Now
	if old, known := c.plans.held[h.podUID]; known {
		c.plans.setBegun(old, true)
	}
	c.plans.unbegun++
	c.plans.held[h.podUID], c.plans.byPlan[h.plan] = h, h
	c.plans.due[h.podUID] = struct{}{}
}

// setBegun notes whether somebody has begun to evict for a hold.
func (p *plans) setBegun(h *hold, begun bool) {
	switch {
	case begun && !h.begun:
		p.unbegun--
	case !begun && h.begun:
		p.unbegun++
	}
	h.begun = begun
}

func (c *Core) forgetHold(h *hold) {
	p := &c.plans
	c.leaveDeal(h)
	p.setBegun(h, true)
	delete(p.held, h.podUID)
	delete(p.due, h.podUID)
	if p.byPlan[h.plan] == h {
		delete(p.byPlan, h.plan)
	}
	if _, _, owned := c.shard.Ledger.PlanOwner(h.plan); !owned && len(c.shard.Ledger.PlanDocs(h.plan)) > 0 {
		p.orphans[h.plan] = struct{}{}
	}
}

// factsMoved takes in what facts say about what plans wait for.
func (c *Core) factsMoved(changes state.Changes) {
	for _, n := range changes.Nodes {
		if n.After != nil {
			c.protect(n.After.UID)
		}
	}
	p := &c.plans
	p.budgets.stale = p.budgets.stale || p.budgets.unknown
	for i := range changes.Others {
		p.budgets.stale = p.budgets.stale || changes.Others[i].Kind == events.KindDisruptionBudget
	}
	if len(changes.Pods) > 0 && p.budgets.claims {
		p.budgets.stale = true
	}
	if len(p.held)+len(p.loops.pairs) == 0 {
		return
	}
	for i := range changes.Pods {
		c.podMoved(&changes.Pods[i])
	}
	if slices.ContainsFunc(changes.Others, func(o state.ObjectChange) bool { return o.Kind == events.KindResourceClaim }) {
		c.claimsMoved()
	}
}

// claimsMoved has the holds looked at that wait for devices.
func (c *Core) claimsMoved() {
	for uid, h := range c.plans.held {
		if h.awaitsClaims {
			c.plans.due[uid] = struct{}{}
		}
	}
}

// podMoved has the hold looked at that a change of a pod is about.
func (c *Core) podMoved(pod *state.PodChange) {
	p := &c.plans
	if pod.After != nil && pod.After.NodeName != "" && pod.Before != nil && pod.Before.NodeName == "" {
		p.loops.bound(pod.After)
	}
	uid := max(uidOf(pod.Before), uidOf(pod.After))
	if _, held := p.held[uid]; held {
		p.due[uid] = struct{}{}
	}
	_, victim, claimed := c.shard.Ledger.Victim(uid)
	h, mine := p.byPlan[victim.Plan]
	if !claimed || !mine || !isLeaving(pod.After) {
		return
	}
	p.due[h.podUID] = struct{}{}
	if pod.After == nil || !isLeaving(pod.Before) {
		h.moved = c.shard.Now
	}
}

func uidOf(p *state.Pod) string {
	if p == nil {
		return ""
	}
	return p.UID
}

// isLeaving says whether a pod is gone, has ended or is being deleted.
func isLeaving(p *state.Pod) bool { return p == nil || p.Deleting || p.Terminal }

// resetPlans looks at everything anew, after the facts were rebuilt.
func (c *Core) resetPlans() {
	c.plans.budgets.stale = true
	for d := range c.shard.Ledger.Docs() {
		if concernsPlans(&d) {
			c.protect(d.NodeUID)
		}
	}
	c.allDue()
}

func (c *Core) allDue() {
	for uid := range c.plans.held {
		c.plans.due[uid] = struct{}{}
	}
}

// protect tells the engine which pods on a node are nobody's victims: those that a plan has
// claimed, those that a placement relies on, and those a place is held for (T4 takes it, not
// an eviction). Reservations that can be bound may be victims: their binders give them back.
func (c *Core) protect(nodeUID string) {
	n, ok := c.shard.View.Node(nodeUID)
	if !ok {
		return
	}
	d, _ := c.shard.Ledger.Doc(nodeUID)
	var uids []string
	for i := range d.Entries {
		if e := &d.Entries[i]; e.Role != ledger.RoleReservation || e.State == ledger.Held {
			uids = append(uids, e.PodUID)
		}
		if e := &d.Entries[i]; e.Role == ledger.RoleMove {
			uids = append(uids, view.PlaceholderUID(e.Token))
		}
	}
	uids = append(uids, c.plans.loops.sparedOn(nodeUID)...)
	if _, told := c.plans.protected[nodeUID]; len(uids) == 0 && !told {
		return
	}
	c.plans.protected[nodeUID] = struct{}{}
	if len(uids) == 0 {
		delete(c.plans.protected, nodeUID)
	}
	c.shard.Engine.SetProtected(n, uids)
}
