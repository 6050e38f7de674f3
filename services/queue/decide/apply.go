package decide

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/queue/decide/waiting"
)

// apply replaces all pods:
//
//  1. The position and the objects are those of the rebuilt store. If it is of a later epoch, verdicts from lost facts
//     are void.
//  2. The journal is emptied, so that every verdict from before counts as one that may have missed something.
//  3. The budgets count all pods again, before pods enter the gated pool.
//  4. Pods are added or updated in the order of their creation, and those that no longer exist are forgotten.
//  5. Parked pods whose verdicts are older are tried again: what they waited for may have happened.
func (in FactsReset) apply(c *Core, now waiting.Moment) {
	c.rewind(in.Position, in.Objects)
	// What happened in between is not known: assume that everything did.
	c.backlog.journal.Clear(in.Position.Sequence)
	c.resetBudgets(in)
	known := make(map[string]bool, len(in.Pods))
	for _, p := range byCreation(in.Pods) {
		known[p.UID] = true
		c.backlog.podChanged(p, now)
	}
	for uid, e := range c.backlog.pods {
		if !known[uid] {
			c.backlog.remove(e)
		}
	}
	c.backlog.pools.Units.Regroup(now)
	c.backlog.wakeAll(now)
	c.world.Primed = true
	c.forgetShown()
}

// byCreation sorts pods by creation, so that first come, first served survives a restart to within the API's whole
// seconds.
func byCreation(pods []*state.Pod) []*state.Pod {
	type dated struct {
		*state.Pod
		created time.Time
	}
	list := make([]dated, len(pods))
	for i, p := range pods {
		list[i] = dated{p, p.Created().Time}
	}
	slices.SortFunc(list, func(a, b dated) int {
		if d := a.created.Compare(b.created); d != 0 {
			return d // breaking ties costs as much again
		}
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	sorted := make([]*state.Pod, len(list))
	for i := range list {
		sorted[i] = list[i].Pod
	}
	return sorted
}

// apply applies the changes of one batch: other objects first, then nodes, then pods. The position and the objects are
// those after the whole batch, so the order within it does not matter to hints. For each pod, the budgets and the pools
// apply what the change means for the pod itself, and only then are other pods woken by it: a pod that is deleted frees
// its place before the pods that could use it are looked for.
func (in FactsApplied) apply(c *Core, now waiting.Moment) {
	c.advance(in.Position, in.Objects, now)
	for _, o := range in.Changes.Others {
		if o.Kind == events.KindNamespace {
			c.out.complain(c.budgets.NamespaceChanged(nameOf(o), o.After))
		}
		if o.Kind == events.KindPodGroup {
			c.backlog.pools.Units.GroupChanged(namespaceOf(o), nameOf(o), now)
		}
		c.backlog.changed(rule.ObjectChange(o), now)
	}
	for _, n := range in.Changes.Nodes {
		c.backlog.changed(rule.NodeChange(n), now)
	}
	for _, p := range in.Changes.Pods {
		c.budgets.PodChanged(p.Before, p.After)
		switch {
		case p.After != nil:
			c.backlog.podChanged(p.After, now)
		case p.Before != nil:
			if e, ok := c.backlog.pods[p.Before.UID]; ok {
				c.backlog.remove(e)
			}
		}
		c.backlog.changed(rule.PodChange(p), now)
		if left, ok := leftNomination(p); ok {
			c.backlog.changed(left, now)
		}
	}
	c.forgetShown()
}

// leftNomination returns the change that other pods see when a waiting pod is no longer nominated to a node: as if it
// had been deleted there, because it held room against pods that are no more important. Source:
// updatePodInSchedulingQueue in pkg/scheduler/eventhandlers.go, which does not look at the node that a pod is bound to.
func leftNomination(p state.PodChange) (rule.Change, bool) {
	if p.Before == nil || p.After == nil || p.Before.NodeName != "" {
		return rule.Change{}, false
	}
	was := p.Before.Status().NominatedNodeName
	if was == "" || was == p.After.NodeName || p.After.NodeName == "" && was == p.After.Status().NominatedNodeName {
		return rule.Change{}, false
	}
	return rule.PodChange(state.PodChange{Before: p.Before}), true
}

// nameOf returns the name of a changed object, which a deletion has only before.
func nameOf(o state.ObjectChange) string {
	if o.After != nil {
		return o.After.Name
	}
	return o.Before.Name
}

// namespaceOf returns the namespace of a changed object.
func namespaceOf(o state.ObjectChange) string {
	if o.After != nil {
		return o.After.Namespace
	}
	return o.Before.Namespace
}

// forgetShown drops the knowledge of pods that the facts would have shown by now.
func (c *Core) forgetShown() {
	c.budgets.Leaving.ForgetHidden(c.budgetFacts())
	c.backlog.unseen.forgetThrough(c.world.Facts.Sequence)
}

// apply applies what has changed in the ledger, in this order: reservations first, so that pods are held before
// anything could offer them; then a new generation, which ends waits for high-waters of the one before; then what the
// end of promises frees for other pods; last the holders of partitions, whose change ends leases.
func (in LedgerMoved) apply(c *Core, now waiting.Moment) {
	c.world.Revision = in.Revision
	if in.Reset {
		c.resetHolds(in, now)
	}
	for _, h := range in.Holds {
		c.holds.apply(h, now)
	}
	if in.Generation {
		c.holds.newGeneration(now)
	}
	switch {
	case in.Reset:
		c.holds.protectionEnded(math.MinInt32, now)
	case in.Freed != nil:
		c.holds.protectionEnded(in.Freed.Above, now)
	}
	if in.PlaceFreed {
		c.holds.placesFreed(now)
	}
	c.balancer.Requested(in.Requested, c.clock.timeOf(now))
	c.balancer.Alive(in.Shards)
	if in.Owners != nil && *in.Owners != c.world.Owners {
		c.ownersChanged(in.Owners, now)
	}
}

// resetHolds applies a full list of the reservations. The remembered verdicts are moved forward to it if no
// reservation that the memory knew is gone: one that came and went since was not counted when its pods were parked, so
// nothing in the ledger up to now can help the parked pods either.
func (c *Core) resetHolds(in LedgerMoved, now waiting.Moment) {
	gone := c.holds.reset(in.Holds, now)
	if c.decisions.remembered && gone == 0 {
		c.backlog.advanceMemory(in.Revision)
	}
	c.decisions.remembered = false
	c.holds.placesFreed(now)
}

// apply applies records of the decisions log. A batch that reports a lost tail has no records: the position goes back
// to where reading continues, and the records from there on are applied a second time. That changes nothing, because
// an answer counts once (Entry.IsNews). Decisions from before a complete memory are not delivered; from before an
// incomplete one, only those that let pods go through the quota gate count.
func (in Decided) apply(c *Core, now waiting.Moment) {
	log := &c.decisions
	if in.Shortened != nil {
		log.shortened(in.Through, *in.Shortened)
		c.budgets.Leaving.LogShortened()
		c.finishReread(now)
		return
	}
	for i := range in.Decisions {
		d := &in.Decisions[i]
		if log.recalled != 0 && d.Sequence <= log.recalled && d.Kind != events.DecisionUngate {
			continue
		}
		log.sequence = max(log.sequence, d.Sequence)
		c.decided(&d.Decision, now)
	}
	log.read(in.Through, in.Stored)
	c.finishReread(now)
	if in.CaughtUp {
		log.caughtUp, log.recalled = true, 0
	}
}

// finishReread requests, once a log that had lost records has been read again, the removals of gates whose decisions it
// has lost.
func (c *Core) finishReread(now waiting.Moment) {
	if c.decisions.rereadDone() {
		c.budgets.Leaving.LogReadAgain(c.clock.timeOf(now))
	}
}

// decided applies one decision. Of a pod that the facts do not show, an answer is of use only if the pod may still
// appear: if the facts have passed the answer's position without showing the pod, it is gone.
func (c *Core) decided(d *events.Decision, now waiting.Moment) {
	if d.Kind == events.DecisionUngate {
		c.ungateRecorded(d, now)
		return
	}
	gone := c.world.Primed && d.FactSequence <= c.world.Facts.Sequence
	c.backlog.decided(d, gone, now)
}

// apply records the shard's window, on a standby too: a queue that becomes the leader then offers pods at once
// instead of waiting up to a heartbeat for the next request. Only the leader has leases to renew or take back.
func (in WorkRequested) apply(c *Core, now waiting.Moment) {
	if in.Request.Shard == "" {
		return
	}
	s := c.leases.shard(in.Request.Shard)
	s.window, s.lastSeen = max(int(in.Request.Window), 0), now
	if !c.leases.leading {
		return
	}
	for _, token := range in.Request.Renew {
		if e := c.leases.leased(s, token); e != nil {
			e.Attempt.Deadline = now.Add(c.cfg.Lease)
			c.backlog.pools.Offered.Fix(e)
		}
	}
	for _, token := range in.Request.Return {
		if e := c.leases.leased(s, token); e != nil {
			c.out.counts.Returned++
			c.backlog.pools.Free(e, waiting.EventLeaseReturned, now)
			e.Attempt.Count--
			e.Attempt.Token = ""
		}
	}
	for _, uid := range in.Request.Activate {
		c.backlog.activate(uid, now)
	}
}

// apply begins a term. The same step may already offer pods: a standby knows the windows and the owners.
func (in Lead) apply(c *Core, now waiting.Moment) {
	c.leases.leading, c.out.leading = true, true
	c.leases.term = in.Term
	c.decisions.leadersEnd = in.Decided
	c.budgets.Lead(c.clock.timeOf(now))
}

// apply forgets the leases. Answers of shards to those offers are still believed.
func (StepDown) apply(c *Core, now waiting.Moment) {
	c.leases.leading, c.out.leading = false, false
	c.budgets.StepDown()
	for _, e := range waiting.InOrder(c.backlog.pools.Offered) {
		c.backlog.pools.Free(e, waiting.EventTakeover, now)
	}
}
