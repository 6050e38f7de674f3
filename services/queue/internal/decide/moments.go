package decide

import "time"

// tell advances the core's clock to a time and returns the moment. The first moment is after the origin, so that 0
// stays never.
func (c *Core) tell(at time.Time) moment {
	if c.clock.origin.IsZero() {
		c.clock.origin = at.Add(-1)
		c.balancer.Begin(c.clock.origin)
	}
	c.clock.now = max(c.clock.now, moment(at.Sub(c.clock.origin)))
	return c.clock.now
}

// momentOf returns the moment of a time.
func (c *Core) momentOf(t time.Time) moment { return moment(t.Sub(c.clock.origin)) }

// timeOf returns the time of a moment; zero for never.
func (c *Core) timeOf(m moment) time.Time {
	if m == 0 {
		return time.Time{}
	}
	return c.clock.origin.Add(time.Duration(m))
}
