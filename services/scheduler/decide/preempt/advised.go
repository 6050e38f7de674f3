package preempt

import (
	"github.com/berth-scheduler/berth/pkg/placement/engine"
	"github.com/berth-scheduler/berth/pkg/placement/preempt"
	"github.com/berth-scheduler/berth/services/scheduler/decide/attempt"
)

// advisedPlan returns the plan for a pod, limited to the victims that extenders accept if they must be asked. It
// returns false while they are being asked, or if the attempt has ended.
func (nm *nominator) advisedPlan(s seeker, q engine.PreemptQuery) (preempt.Result, bool) {
	a := s.Attempt
	q.Opinions = a.Counsel.Opinions
	if !s.profile.AdvisedOnVictims(s.pod) {
		return nm.preempt(s, q), true
	}
	if a.Counsel.Victims.Answered {
		current := nm.asFound(a.Counsel.Victims.Left)
		plan := nm.victimsFor(s, func() preempt.Result { return nm.shard.Engine.PreemptAmong(s.profile, q, current) })
		if plan.Node != nil || plan.Err != nil || len(current) == len(a.Counsel.Victims.Left) {
			return plan, true
		}
	}
	var list []preempt.Candidate
	plan := nm.victimsFor(s, func() (plan preempt.Result) {
		list, plan = nm.shard.Engine.PreemptCandidates(s.profile, q)
		return plan
	})
	if len(list) == 0 {
		a.Counsel.Victims = attempt.VictimCounsel{}
		return plan, true
	}
	nm.consults.AskAboutVictims(s.Rejection, list)
	return preempt.Result{}, false
}

// asFound returns the candidates whose nodes have not changed since they were found.
func (nm *nominator) asFound(given []preempt.Candidate) (list []preempt.Candidate) {
	for _, one := range given {
		if n, ok := nm.shard.View.Node(one.Node.UID); ok && n.Generation == one.Generation {
			list = append(list, one)
		}
	}
	return list
}
