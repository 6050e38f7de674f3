package decide

import (
	"time"

	"github.com/berth-scheduler/berth/services/queue/internal/waiting"
)

// clock converts between times and moments.
type clock struct {
	origin time.Time
	// now is the latest moment, nextTick the one last requested.
	now, nextTick waiting.Moment
}

// advance advances the clock to a time and returns the moment. If the given time runs backwards, the clock stands
// still. The first moment is after the origin, so that 0 stays never.
func (c *clock) advance(at time.Time) waiting.Moment {
	if c.origin.IsZero() {
		c.origin = at.Add(-1)
	}
	c.now = max(c.now, waiting.Moment(at.Sub(c.origin)))
	return c.now
}

// timeOf returns the time of a moment; zero for never.
func (c *clock) timeOf(m waiting.Moment) time.Time {
	if m == 0 {
		return time.Time{}
	}
	return c.origin.Add(time.Duration(m))
}

// momentOf returns the moment of a time.
func (c *clock) momentOf(t time.Time) waiting.Moment { return waiting.Moment(t.Sub(c.origin)) }
