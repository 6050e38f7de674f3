package preempt

import (
	"errors"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/engine"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/placement/preempt"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/scheduler/decide/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/decide/failures"
	"github.com/berth-scheduler/berth/services/scheduler/decide/shard"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

// seekVictims searches for victims, and nominates the pod if that finds a plan; true if a transaction has been sent.
// The search may also find that the pod fits as it is (FitsError), because something has changed since its verdict.
func (nm *nominator) seekVictims(s seeker) bool {
	a := s.Attempt
	plan, ok := nm.advisedPlan(s, engine.PreemptQuery{Pod: s.pod, Seed: s.Decision.Seed, Budgets: nm.budgets.Current()})
	if !ok {
		return false
	}
	var fits *preempt.FitsError
	switch {
	case errors.As(plan.Err, &fits):
		nm.life.Requeue(a)
	case plan.Err != nil:
		nm.life.Fail(a, plan.Err.Error())
	case plan.Node == nil && plan.BlockedByBudgets && nm.budgets.Unknown():
		// What is left of a budget is not known yet, and no event will show when it is known.
		nm.life.Defer(a)
	case plan.Node == nil:
		nm.endWithoutPlan(s, plan)
	case nm.planRestsOnHolds(s, plan):
		s.WakeOn(names.PodTopologySpread)
		nm.life.Unplaceable(s.Rejection)
	default:
		return nm.nominate(s, plan)
	}
	return false
}

// advisedPlan returns the plan for a pod, limited to the victims that extenders accept if they must be asked. It
// returns false while they are being asked, or if the attempt has ended. With an answer, only the accepted
// candidates are searched; if none of them is left and some of their nodes have changed since the question, the
// question is asked again about new candidates.
func (nm *nominator) advisedPlan(s seeker, q engine.PreemptQuery) (preempt.Result, bool) {
	a := s.Attempt
	q.Opinions = nm.search.SpareNominated(s.pod, a.Advice.Opinions)
	if !s.profile.AdvisedOnVictims(s.pod) {
		return nm.preempt(s, q), true
	}
	if a.Advice.Victims.Answered {
		current := nm.asFound(a.Advice.Victims.Accepted)
		plan := nm.timed(s, func() preempt.Result { return nm.shard.Engine.PreemptAmong(s.profile, q, current) })
		if plan.Node != nil || plan.Err != nil || len(current) == len(a.Advice.Victims.Accepted) {
			return plan, true
		}
	}
	var list []preempt.Candidate
	plan := nm.timed(s, func() (plan preempt.Result) {
		list, plan = nm.shard.Engine.PreemptCandidates(s.profile, q)
		return plan
	})
	if len(list) == 0 {
		a.Advice.Victims = attempt.VictimAdvice{}
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

// planRestsOnHolds reports whether the pod would fit on the node of a plan only because of places that are held for
// other pods: search.Searcher.DependsOnHolds without the victims of the plan. Such a plan would evict pods for a
// place that the end of another plan can make unsuitable.
func (nm *nominator) planRestsOnHolds(s seeker, plan preempt.Result) bool {
	gone := make(map[string]bool, len(plan.Victims))
	for _, v := range plan.Victims {
		gone[v.Pod.UID] = true
	}
	in := placement.Input{Pod: s.pod, Nodes: nm.shard.View.Nodes(), Objects: s.volumes.Lookups(nm.shard.View.Snapshot())}
	return nm.search.DependsOnHolds(in, s.profile, &s.concern, plan.Node, gone)
}

// preempt makes the engine search for victims among all nodes. It finds the same as preempt.Run of pkg/placement
// would from scratch, for the same cluster, budgets and seed.
func (nm *nominator) preempt(s seeker, q engine.PreemptQuery) preempt.Result {
	return nm.timed(s, func() preempt.Result { return nm.shard.Engine.Preempt(s.profile, q) })
}

// timed runs a search of the engine for victims, with the promises to the pod's claims in effect, and reports its
// time as upstream reports PostFilter.
func (nm *nominator) timed(s seeker, search func() preempt.Result) preempt.Result {
	defer nm.shard.UsePromises(s.volumes)()
	if nm.shard.Laps == nil {
		return search()
	}
	nm.shard.Laps.Begin(s.pod.SchedulerName)
	plan := search()
	code := rule.Success
	if plan.Node == nil {
		code = rule.Unschedulable
	}
	nm.shard.Laps.Lap(engine.PointPostFilter, "", code)
	return plan
}

// endWithoutPlan ends an attempt that preemption does not help, with upstream's message and with what Berth has to
// add. The pod waits for the events of DefaultPreemption only if budgets or plans protect less important pods for
// now: otherwise no end of a plan and no budget can help it. If the protection is that pods are spared, it ends by
// time alone, which the decision reports to the queue (RetryAfter).
func (nm *nominator) endWithoutPlan(s seeker, plan preempt.Result) {
	r := s.Rejection
	if r.Attempt.Advice.Victims.Answered {
		r.WakeOn(placement.Extenders)
	}
	if r.Attempt.Advice.Victims.Answered || plan.KeepNomination {
		r.Decision.StaleNomination = ""
	}
	if plan.Message != "" {
		r.Decision.Message += " " + plan.Message
	}
	for _, sentence := range plan.Advice {
		r.Decision.Message += " " + sentence
	}
	if plan.BlockedByBudgets || !preempt.IsNever(s.pod) && nm.holds.protectsBelow(s.pod.Priority) {
		r.WakeOn(names.DefaultPreemption)
		r.Decision.RetryAfter = nm.failures.SpareEnds(s.pod.Priority)
	}
	nm.life.Unplaceable(r)
}

// refusePlan ends an attempt whose plan is refused because of earlier failures, before or after the search for one.
// The queue offers the pod again when the refusal ends.
func (nm *nominator) refusePlan(s seeker, no failures.Refusal) {
	r := s.Rejection
	r.Decision.Message += " preemption: refused: " + no.Why + "."
	r.Decision.RetryAfter = no.Ends
	keepNomination(nm.shard, s.profile, &r)
	nm.effects.Plan(step.PlanReport{Event: step.PlanRefused, Pod: s.Attempt.Offer.Pod, Detail: no.Why})
	r.WakeOn(names.DefaultPreemption)
	nm.life.Unplaceable(r)
}

// keepNomination leaves the nomination of a pod alone for which no victims are sought, if upstream would: see
// preempt.KeepsNomination.
func keepNomination(s *shard.State, profile *placement.Profile, r *attempt.Rejection) {
	name := r.Decision.StaleNomination
	if name == "" || !profile.Preempts() || len(s.View.Nodes()) == 0 {
		return
	}
	var nominated *state.NodeInfo
	for _, n := range s.View.Nodes() {
		if n.Node.Name == name {
			nominated = n
		}
	}
	if preempt.KeepsNomination(r.Attempt.Pod, nominated) {
		r.Decision.StaleNomination = ""
	}
}
