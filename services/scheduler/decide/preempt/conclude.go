package preempt

import (
	"slices"

	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/services/scheduler/decide/advice"
	"github.com/berth-scheduler/berth/services/scheduler/decide/attempt"
)

// reject concludes an attempt, or makes it wait until the pods that it counted are settled.
func (nm *nominator) reject(r attempt.Rejection) {
	if r.Withdrawn != nm.life.Withdrawn || slices.ContainsFunc(r.Counted, nm.shard.View.IsStaged) {
		r.Attempt.Verdict = &r
		nm.attempts.Reject(r.Attempt)
		return
	}
	nm.conclude(r)
}

// settle concludes the attempts whose counted pods have all been reserved. Attempts with a counted pod that was
// withdrawn are decided again.
func (nm *nominator) settle() {
	var again []*attempt.Attempt
	for _, a := range nm.attempts.TakeAll(attempt.Rejected) {
		switch r := *a.Verdict; {
		case r.Withdrawn != nm.life.Withdrawn:
			a.Counsel.Forget()
			again = append(again, a)
		case slices.ContainsFunc(r.Counted, nm.shard.View.IsStaged):
			nm.attempts.Reject(a)
		default:
			nm.conclude(r)
		}
	}
	nm.attempts.Prepend(attempt.Pending, again...)
}

// conclude ends an attempt that certainly fits nowhere. If its profile has preemption, it is lined up for that
// first.
func (nm *nominator) conclude(r attempt.Rejection) {
	profile, ok := nm.shard.Profiles[r.Attempt.Pod.SchedulerName]
	switch {
	case r.OnHold:
	case !ok || !profile.Preempts() || nm.shard.Draining || profile.Custom() && advice.IsConsulted(profile, r.Attempt.Pod):
	case nm.attempts.Count(attempt.Seeking) < maxSeekers:
		nm.lineUp(r)
		return
	default:
		r.Awaits(names.DefaultPreemption)
	}
	nm.life.Unplaceable(r)
}

// lineUp makes a seeker wait for its turn.
func (nm *nominator) lineUp(r attempt.Rejection) {
	if r.Attempt.Sought == 0 {
		nm.sought++
		r.Attempt.Sought = nm.sought
	}
	r.Attempt.Verdict = &r
	nm.attempts.Seek(r.Attempt)
}
