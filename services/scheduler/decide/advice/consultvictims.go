package advice

import (
	"time"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/preempt"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/scheduler/decide/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

// Where extenders take part in choosing a pod's node, no pod is evicted for it that they have not been asked about.
// The search for victims takes two looks, like that for nodes: the first finds candidates, a Consult about them is
// sent, and the attempt is lined up again with those that the extenders have left. The second look considers only
// these, and evaluates the rules again. A node that has changed in between counts as one that no extender has been
// asked about; if no other node fits, another question is sent.
//
// Custom plugins do not take part: no pod is evicted for pods of their profiles.
//
// Once the victims have gone, and before the place is promoted, extenders with a filter are asked about its node:
// only then can they decide whether the pod may be placed there. Upstream asks them at that point because it begins
// a new cycle.

// victimsAgain is when the pod is tried again after extenders have failed to answer about victims, if nothing wakes
// it before.
const victimsAgain = 10 * time.Second

// Full reports whether as many questions are open as allowed.
func (cs *Consults) Full() bool {
	return cs.attempts.Count(attempt.Consulting)+len(cs.vetted) >= step.MaxConsults
}

// IsConsulted reports whether plugins or extenders decide about the pod's node or its victims. Such a pod never
// takes over the place of another pod: there is no question that asks about that.
func IsConsulted(p *placement.Profile, pod *state.Pod) bool {
	return p.Extended(pod) || p.AdvisedOnVictims(pod)
}

// AskAboutVictims makes an attempt wait for the extenders' answer about candidates.
func (cs *Consults) AskAboutVictims(r attempt.Rejection, list []preempt.Candidate) {
	a := r.Attempt
	a.Advice.Victims = attempt.VictimAdvice{}
	switch {
	case cs.Full():
		cs.life.Defer(a)
		return
	case a.Advice.Questions >= maxQuestions:
		cs.life.Fail(a, "the pods that would have to go were others each time that extenders had answered")
		return
	}
	a.Advice.Questions++
	a.Verdict = &r
	cs.questions++
	q := step.Consult{
		ID: cs.questions, Shard: cs.shard.ID, SchedulerName: a.Pod.SchedulerName, Pod: a.Pod, Candidates: list,
	}
	cs.attempts.Await(a, attempt.Consulting, q.ID)
	cs.effects.Consult(q)
}

// advisedOnVictims applies the extenders' answer about candidates, and lines the attempt up again. If they have
// failed, the pod gets the verdict that it had, so that an autoscaler sees it.
func (cs *Consults) advisedOnVictims(a *attempt.Attempt, advice step.Advice) {
	r := *a.Verdict
	a.Advice.Victims = attempt.VictimAdvice{}
	if advice.Err != nil {
		r.Decision.Message += " preemption: " + advice.Err.Error()
		r.Decision.RetryAfter = victimsAgain
		r.Decision.StaleNomination = "" // as upstream, where a failed extender leaves it alone
		cs.life.Unplaceable(r)
		return
	}
	a.Advice.Victims.Answered, a.Advice.Victims.Accepted = true, advice.Candidates
	cs.plans.LineUp(r)
}

// AskAboutPlace asks the extenders of a pod about the node on which a place is held for it, and returns the ID of the
// question.
func (cs *Consults) AskAboutPlace(plan string, pod *state.Pod, node *state.Node) uint64 {
	cs.questions++
	id := cs.questions
	cs.vetted[id] = plan
	cs.effects.Consult(step.Consult{
		ID: id, Shard: cs.shard.ID, SchedulerName: pod.SchedulerName, Pod: pod, Nodes: []*state.Node{node},
	})
	return id
}

// takeVetted removes a question about a held place and returns its plan; false if the ID is none of such a question.
func (cs *Consults) takeVetted(id uint64) (plan string, known bool) {
	plan, known = cs.vetted[id]
	delete(cs.vetted, id)
	return plan, known
}
