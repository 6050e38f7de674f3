package preempt

import (
	"slices"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/services/scheduler/internal/advice"
	"github.com/berth-scheduler/berth/services/scheduler/internal/attempt"
)

// rejectedFor concludes an attempt, or has it wait for what it has counted.
func (c *nominator) rejectedFor(r attempt.Rejection) {
	if r.Withdrawn != c.life.Withdrawn || slices.ContainsFunc(r.Counted, c.shard.View.IsStaged) {
		r.Attempt.Verdict = &r
		c.attempts.Reject(r.Attempt)
		return
	}
	c.conclude(r)
}

// settleRejections tells of those whose counted pods all stand, and has those decided again
// next to which one has been taken back.
func (c *nominator) settleRejections() {
	var again []*attempt.Attempt
	for _, a := range c.attempts.TakeAll(attempt.Rejected) {
		switch r := *a.Verdict; {
		case r.Withdrawn != c.life.Withdrawn:
			a.Counsel.Forget()
			again = append(again, a)
		case slices.ContainsFunc(r.Counted, c.shard.View.IsStaged):
			c.attempts.Reject(a)
		default:
			c.conclude(r)
		}
	}
	c.attempts.Prepend(attempt.Pending, again...)
}

// conclude ends an attempt that fits nowhere for certain: it is asked about preemption next, if
// its profile has that.
func (c *nominator) conclude(r attempt.Rejection) {
	profile, ok := c.shard.Profiles[r.Attempt.Pod.SchedulerName]
	switch {
	case r.OnHold:
	case !ok || !profile.Preempts() || c.shard.Draining || profile.Custom() && advice.IsConsulted(profile, r.Attempt.Pod):
	case c.attempts.Count(attempt.Seeking) < maxSeekers:
		c.lineUp(r)
		return
	default:
		r.Awaits(placement.DefaultPreemption)
	}
	c.life.Unplaceable(r)
}

// lineUp has a seeker wait for its turn.
func (c *nominator) lineUp(r attempt.Rejection) {
	if r.Attempt.Sought == 0 {
		c.sought++
		r.Attempt.Sought = c.sought
	}
	r.Attempt.Verdict = &r
	c.attempts.Seek(r.Attempt)
}
