package decide

import (
	"cmp"
	"slices"
	"time"
)

// A held pod leaves its pool when its bind shows in the facts. If its entry vanishes from
// the ledger instead, that alone says nothing: the facts may lag behind the binder that
// handed the entry over. The document's high-water says how far the facts must have come
// before the absence of a bind is an answer (ledger rule 3); until then the pod settles.

func (in LedgerMoved) apply(c *Core, now time.Time) {
	c.world.revision = in.Revision
	if in.Reset {
		c.resetHolds(in.Holds)
	}
	released := in.Reset
	for _, h := range in.Holds {
		if h.Live {
			c.reserved(h.PodUID, now)
		} else if c.vanished(h) {
			released = true
		}
	}
	if in.Owners != nil && *in.Owners != c.world.owners {
		c.world.owners = *in.Owners
		c.revoke(now)
	}
	if released {
		c.reservationGone(now)
	}
}

// resetHolds drops the reservations that a full list no longer has.
func (c *Core) resetHolds(holds []Hold) {
	live := make(map[string]bool, len(holds))
	for _, h := range holds {
		live[h.PodUID] = h.Live
	}
	for uid := range c.world.live {
		if !live[uid] {
			c.vanished(Hold{PodUID: uid})
		}
	}
}

// reserved takes in a live reservation: whatever a message said, the pod is held.
func (c *Core) reserved(uid string, now time.Time) {
	c.world.live[uid] = struct{}{}
	e, ok := c.pods[uid]
	if !ok || e.hold.live {
		return
	}
	c.detach(e)
	e.hold = hold{live: true}
	e.attempt.token = ""
	e.await = await{}
	c.enter(e, c.bags.held, eventReserved, now)
}

// vanished takes in the end of a reservation and says whether capacity came free with it
// for all the core knows now.
func (c *Core) vanished(h Hold) bool {
	if _, ok := c.world.live[h.PodUID]; !ok {
		return false
	}
	delete(c.world.live, h.PodUID)
	e, ok := c.pods[h.PodUID]
	if !ok {
		return !h.Bound
	}
	e.hold = hold{progress: h.HW}
	c.settling[e] = struct{}{}
	return false
}

// settleHolds frees the held pods whose reservation is gone for certain.
func (c *Core) settleHolds(now time.Time) {
	if len(c.settling) == 0 {
		return
	}
	var freed []*entry
	for e := range c.settling {
		if !c.unsettled(e) {
			freed = append(freed, e)
		}
	}
	slices.SortFunc(freed, bySerial)
	for _, e := range freed {
		e.hold = hold{}
		c.free(e, eventReleased, now)
	}
	if len(freed) > 0 {
		c.reservationGone(now)
	}
}

func (c *Core) unsettled(e *entry) bool {
	f := c.world.facts
	return e.hold.revision > c.world.revision ||
		e.hold.progress > 0 && (!f.ProgressKnown || f.PodProgress < e.hold.progress)
}

// reservationGone wakes the pods that a freed reservation can help.
func (c *Core) reservationGone(now time.Time) {
	c.past.revision = c.world.revision
	c.wake(CauseReservationGone, eventReleased, now)
}

func bySerial(a, b *entry) int { return cmp.Compare(a.serial, b.serial) }
