package scheduler

import (
	"time"

	"github.com/berth-scheduler/berth/pkg/telemetry"
	"github.com/berth-scheduler/berth/services/scheduler/internal/decide"
)

// observe counts the attempts that ended in a step. The time of the step is shared
// equally among the attempts decided in it.
func (s *Scheduler) observe(out decide.Output, begin time.Time) {
	if len(out.Attempts) == 0 {
		return
	}
	end := s.deps.Clock.Now()
	each := end.Sub(begin) / time.Duration(len(out.Attempts))
	for _, a := range out.Attempts {
		telemetry.ScheduleAttempt(string(a.Outcome), a.Profile, each)
	}
}
