package decide

import "github.com/berth-scheduler/berth/services/binder/decide/basis"

// advanceWaiting tries to advance everything that waits, except plans, in an order that depends only on keys.
func (c *Core) advanceWaiting() {
	if c.base.Idle() {
		return
	}
	c.reservations.AdvanceDue()
	c.status.AdvanceConditions()
	c.reservations.ReportPluginBinds()
	c.gates.Advance()
	c.evictor.AdvanceOrders()
}

// advancePlans tries to advance all plans, removals and nominations.
func (c *Core) advancePlans() {
	if c.base.Idle() {
		return
	}
	c.evictor.AdvanceAll()
	c.status.AdvanceNominations()
}

// advanceTouched advances the plans, removals and nominations that concern pods which have changed.
func (c *Core) advanceTouched(pods []string) {
	if c.base.Idle() {
		return
	}
	for _, uid := range pods {
		c.evictor.AdvanceFor(uid)
		c.status.AdvanceNomination(uid)
	}
}

// advanceDue advances the plans, removals and nominations that have become due since the last check, or all of them
// if the last round was long ago.
func (c *Core) advanceDue() {
	if c.base.Now.Sub(c.lastRound) >= basis.RoundEvery {
		c.lastRound, c.lastDue = c.base.Now, c.base.Now
		c.advancePlans()
		return
	}
	plans, nominations := c.evictor.DueSince(c.lastDue), c.status.NominationsDueSince(c.lastDue)
	c.lastDue = c.base.Now
	c.evictor.AdvancePlans(plans)
	for _, uid := range nominations {
		c.status.AdvanceNomination(uid)
	}
}

// forget drops what can no longer matter, so that memory is proportional to what is in flight.
func (c *Core) forget() {
	c.reservations.ForgetHints()
	c.evictor.Forget()
	if c.base.Now.Sub(c.lastForget) >= c.base.Limits.ForgetEvery {
		c.lastForget = c.base.Now
		c.reservations.ForgetPods()
		c.status.Forget()
	}
}
