package advice

import (
	"time"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/preempt"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/scheduler/internal/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/internal/step"
)

// Where extenders have a say in where a pod may go, nobody is evicted for it whom they have not been asked about.
// The search for victims comes in two looks, as that for nodes: the first finds candidates, a Consult about them
// goes out, and with what is left of them the attempt stands in line again. The second look is kept to these, and
// asks the rules once more. A node that has changed meanwhile is one that no extender has been asked about; if no other
// will do, there is another question.
//
// Custom plugins do not take part: no pod is evicted for pods of their profiles.
//
// When the victims have gone, and before the place becomes the pod's own, extenders with a filter are asked about
// its node: only now they can say whether the pod may go there. Upstream asks them then because it begins a new
// cycle.

// victimsAgain is how long after extenders have failed to answer about victims the pod is tried again, if nothing
// wakes it before.
const victimsAgain = 10 * time.Second

// Full reports whether there are as many questions out as there may be.
func (cs *Consults) Full() bool {
	return cs.attempts.Count(attempt.Consulting)+len(cs.vetted) >= step.MaxConsults
}

// IsConsulted reports whether plugins or extenders decide about the pod's node or its victims. Such a pod takes no
// place of another pod: there is no question that asks about that.
func IsConsulted(p *placement.Profile, pod *state.Pod) bool {
	return p.Extended(pod) || p.AdvisedOnVictims(pod)
}

// AskAboutVictims has an attempt wait for what extenders say of candidates.
func (cs *Consults) AskAboutVictims(r attempt.Rejection, list []preempt.Candidate) {
	a := r.Attempt
	a.Counsel.Victims = attempt.VictimCounsel{}
	switch {
	case cs.Full():
		cs.life.Defer(a)
		return
	case a.Counsel.Questions >= maxQuestions:
		cs.life.Fail(a, "the pods that would have to go were others each time that extenders had answered")
		return
	}
	a.Counsel.Questions++
	a.Verdict = &r
	cs.questions++
	q := step.Consult{
		ID: cs.questions, Shard: cs.shard.ID, SchedulerName: a.Pod.SchedulerName, Pod: a.Pod, Candidates: list,
	}
	cs.attempts.Ask(a, attempt.Consulting, q.ID)
	cs.effects.Consult(q)
}

// advisedOnVictims takes in what extenders have left of candidates, and has who asked stand in line again. When
// they have failed, the pod has the verdict that it had, so that an autoscaler sees it.
func (cs *Consults) advisedOnVictims(a *attempt.Attempt, advice step.Advice) {
	r := *a.Verdict
	a.Counsel.Victims = attempt.VictimCounsel{}
	if advice.Err != nil {
		r.Decision.Message += " preemption: " + advice.Err.Error()
		r.Decision.RetryAfter = victimsAgain
		cs.life.Unplaceable(r)
		return
	}
	a.Counsel.Victims.Answered, a.Counsel.Victims.Left = true, advice.Candidates
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

// takeVetted returns the plan that a question was about; false if it was about none.
func (cs *Consults) takeVetted(id uint64) (plan string, known bool) {
	plan, known = cs.vetted[id]
	delete(cs.vetted, id)
	return plan, known
}
