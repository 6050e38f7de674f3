package decide

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// A held pod leaves its pool when its bind shows in the facts. If its entry vanishes from the ledger instead, that
// alone proves nothing: the facts may lag behind the binder that handed the entry over. The document's high-water is
// how far the facts must have come before the absence of a bind is an answer (ledger rule 3). Until then the pod is
// settling.
//
// A place that was held for a pod until its victims have gone vanishes in the same way when it is given up or taken
// by a more important pod. No bind has failed then, so the pod is offered again at once.
//
// A reservation that ends without a bind leaves room, as a deleted pod does, and other pods are woken as if a pod had
// been deleted (upstream: an assumed pod is forgotten). So does a place that was kept for the replacement of a pod,
// unless a pod has taken it.
//
// A hold for plugins (ledger.IsPrepared) vanishes together with an answer to the attempt. Whichever is seen first,
// the pod moves to where the answer puts it.

func (in LedgerMoved) apply(c *Core, now moment) {
	if in.Reset {
		c.resetHolds(in, now)
	}
	c.world.revision = in.Revision
	for _, h := range in.Holds {
		if h.Live {
			c.reserved(h.PodUID, now)
		} else {
			c.vanished(h, now)
		}
	}
	if in.Generation {
		c.settleAnew(now)
	}
	c.freed(in, now)
	if in.Room {
		c.occurred(&occurrence{
			change: rule.Change{Kind: events.KindPod, Actions: rule.Delete}, blind: true,
			sequence: c.world.facts.Sequence, revision: in.Revision, at: now,
		}, now)
	}
	c.leases.balance.told(&in, now)
	if in.Owners != nil && *in.Owners != c.world.owners {
		c.owned(*in.Owners, now)
	}
}

// freed wakes the pods that could preempt pods which until now could not be victims. What they wait for is equivalent
// to the deletion of a disruption budget that protected those pods.
func (c *Core) freed(in LedgerMoved, now moment) {
	above := int32(math.MinInt32)
	switch {
	case in.Reset:
	case in.Freed == nil:
		return
	default:
		above = in.Freed.Above
	}
	c.occurred(&occurrence{
		change: rule.Change{Kind: events.KindDisruptionBudget, Actions: rule.Delete}, blind: true,
		above: above, sequence: c.world.facts.Sequence, revision: in.Revision, at: now,
	}, now)
}

// resetHolds drops the reservations that a full list no longer has. Some reservations may have come and gone since
// the last look; it is not known whose they were.
func (c *Core) resetHolds(in LedgerMoved, now moment) {
	live := make(map[string]bool, len(in.Holds))
	for _, h := range in.Holds {
		live[h.PodUID] = h.Live
	}
	c.world.revision = in.Revision
	gone := slices.Sorted(keysNotIn(c.world.live, live))
	for _, uid := range gone {
		c.vanished(Hold{PodUID: uid}, now)
	}
	if c.history.remembered && len(gone) == 0 {
		c.trustMemory(in.Revision)
	}
	c.history.remembered = false
	c.occurred(&occurrence{
		change: rule.Change{Kind: events.KindPod, Actions: rule.Delete}, blind: true,
		sequence: c.world.facts.Sequence, revision: in.Revision, at: now,
	}, now)
}

func keysNotIn(m map[string]*state.Pod, other map[string]bool) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !other[k] && !yield(k) {
				return
			}
		}
	}
}

// reserved records a live reservation: whatever a message claimed, the pod is held.
func (c *Core) reserved(uid string, now moment) {
	e, ok := c.pods[uid]
	if !ok {
		if _, known := c.world.live[uid]; !known {
			c.world.live[uid] = nil
		}
		return
	}
	c.world.live[uid] = e.pod
	if e.hold.live {
		return
	}
	c.detach(e)
	e.hold = hold{live: true}
	e.attempt.token, e.attempt.lost = "", 0
	e.await = await{}
	c.enter(e, c.bags.held, eventReserved, now)
}

// vanished records the end of a reservation.
func (c *Core) vanished(h Hold, now moment) {
	pod, was := c.world.live[h.PodUID]
	delete(c.world.live, h.PodUID)
	e, known := c.pods[h.PodUID]
	switch {
	case known && was:
		e.hold = hold{progress: h.HW, gone: c.world.revision, withdrawn: h.Withdrawn, answered: h.Prepared && e.hold.answered}
		c.settling[e] = struct{}{}
	case known:
		// The reservation came and went between two looks; the pod stays in its pool.
		c.roomLeft(e.pod, c.world.revision, now)
	case !h.Bound:
		c.roomLeft(pod, c.world.revision, now)
	}
}

// settleAnew ends the wait of settling pods for a high-water of another generation of the ledger: if Kubernetes went
// back, the facts may take hours to reach it. Shards wait for facts from after the generation's beginning before they
// place such a pod.
func (c *Core) settleAnew(now moment) {
	for e := range c.settling {
		e.hold.progress = 0
	}
	c.settleHolds(now)
}

// settleHolds frees the held pods whose reservation is certainly gone.
func (c *Core) settleHolds(now moment) {
	if len(c.settling) == 0 {
		return
	}
	var freed []*entry
	for e := range c.settling {
		if !c.unsettled(e, now) {
			freed = append(freed, e)
		}
	}
	slices.SortFunc(freed, bySerial)
	for _, e := range freed {
		was := e.hold
		e.hold = hold{}
		switch {
		case was.answered && e.verdict.kind == events.DecisionUnplaceable:
			c.turnedDown(e, now)
		case was.answered && e.verdict.kind == events.DecisionFailed:
			c.erred(e, now)
		case was.withdrawn:
			e.verdict.backoffUntil = 0
			c.free(e, eventWithdrawn, now)
		default:
			c.released(e, now)
		}
		if was.gone != 0 {
			c.roomLeft(e.pod, was.gone, now)
		}
	}
}

// ledgerWait bounds how long a pod waits for the ledger's watch to reach the reservation that a shard has reported. A
// ledger that was lost since then may never reach it. If the watch is merely late, the shard that is offered the pod
// again finds its reservation.
const ledgerWait = 30 * time.Second

func (c *Core) unsettled(e *entry, now moment) bool {
	f := c.world.facts
	return e.hold.revision > c.world.revision && now < e.hold.until ||
		e.hold.progress > 0 && (!f.ProgressKnown || f.PodProgress < e.hold.progress)
}

// somewhere stands for the node of a reservation that is gone: hints only check whether a pod held a place.
const somewhere = "(reserved)"

// roomLeft wakes the pods that can use the room of a reservation which ended at a ledger revision. pod is the pod
// that had it, nil if that is not known.
func (c *Core) roomLeft(pod *state.Pod, revision int64, now moment) {
	o := occurrence{
		change:   rule.Change{Kind: events.KindPod, Actions: rule.Delete},
		blind:    pod == nil,
		sequence: c.world.facts.Sequence, revision: revision, at: now,
	}
	if pod != nil {
		was := *pod
		was.NodeName = somewhere
		o.change.OldPod = &was
	}
	c.occurred(&o, now)
}

func bySerial(a, b *entry) int { return cmp.Compare(a.serial, b.serial) }
