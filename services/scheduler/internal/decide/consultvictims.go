package decide

import (
	"errors"
	"time"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/scheduler/internal/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/internal/step"
)

// Where extenders have a say in where a pod may go, nobody is evicted for it whom they have not been asked about.
// The search for victims comes in two looks, as that for nodes: the first finds candidates, a Consult about them
// goes out, and with what is left of them the attempt stands in line again. The second look is kept to these, and
// asks the rules once more. A node that has changed meanwhile is one that nobody has been asked about; if no other
// will do, there is another question.
//
// Custom plugins do not take part: nobody is evicted for pods of their profiles.
//
// When the victims have gone, and before the place becomes the pod's own, extenders with a filter are asked about
// its node: only now they can say whether the pod may go there. Upstream asks them then because it begins a new
// cycle.

// victimsAgain is how long after extenders have failed to answer about victims the pod is tried again, if nothing
// wakes it before.
const victimsAgain = 10 * time.Second

// maxConsults reports whether there are as many questions out as there may be.
func (c *Core) maxConsults() bool {
	return c.attempts.Count(attempt.Consulting)+len(c.consults.vetted) >= MaxConsults
}

// isConsulted: others have a say in where a pod goes, or in who goes for it. It takes no place of another then: about
// that nobody can ask them.
func isConsulted(p *placement.Profile, pod *state.Pod) bool {
	return p.Extended(pod) || p.AdvisedOnVictims(pod)
}

// advisedPlan is who could go for a pod, of those whom extenders let go, if they are to be asked; false while
// they are asked, or when the attempt has come to its end.
func (c *Core) advisedPlan(s seeker, q placement.PreemptQuery) (placement.Preemption, bool) {
	a := s.Attempt
	q.Opinions = a.Counsel.Opinions
	if !s.profile.AdvisedOnVictims(s.pod) {
		return c.preempt(s, q), true
	}
	if a.Counsel.Victims.Answered {
		current := c.asFound(a.Counsel.Victims.Left)
		plan := c.victimsFor(s, func() placement.Preemption { return c.shard.Engine.PreemptAmong(s.profile, q, current) })
		if plan.Node != nil || plan.Err != nil || len(current) == len(a.Counsel.Victims.Left) {
			return plan, true
		}
	}
	var list []placement.Candidate
	plan := c.victimsFor(s, func() (plan placement.Preemption) {
		list, plan = c.shard.Engine.PreemptCandidates(s.profile, q)
		return plan
	})
	if len(list) == 0 {
		a.Counsel.Victims = attempt.VictimCounsel{}
		return plan, true
	}
	c.consultVictims(s, list)
	return placement.Preemption{}, false
}

// asFound are the candidates whose nodes are as they were when they were found.
func (c *Core) asFound(given []placement.Candidate) (list []placement.Candidate) {
	for _, one := range given {
		if n, ok := c.shard.View.Node(one.Node.UID); ok && n.Generation == one.Generation {
			list = append(list, one)
		}
	}
	return list
}

// consultVictims has an attempt wait for what extenders say of candidates.
func (c *Core) consultVictims(s seeker, list []placement.Candidate) {
	a := s.Attempt
	a.Counsel.Victims = attempt.VictimCounsel{}
	switch {
	case c.maxConsults():
		c.life.Defer(a)
		return
	case a.Counsel.Questions >= maxQuestions:
		c.life.Fail(a, "the pods that would have to go were others each time that extenders had answered")
		return
	}
	a.Counsel.Questions++
	r := s.Rejection
	a.Verdict = &r
	c.consults.questions++
	q := step.Consult{
		ID: c.consults.questions, Shard: c.shard.ID, SchedulerName: s.pod.SchedulerName, Pod: s.pod, Candidates: list,
	}
	c.attempts.Ask(a, attempt.Consulting, q.ID)
	c.effects.Consult(q)
}

// advisedOnVictims takes in what extenders have left of candidates, and has who asked stand in line again. When
// they have failed, the pod has the verdict that it had, so that whoever adds nodes for pods sees it.
func (c *Core) advisedOnVictims(a *attempt.Attempt, advice step.Advice) {
	r := *a.Verdict
	a.Counsel.Victims = attempt.VictimCounsel{}
	if advice.Err != nil {
		r.Decision.Message += " preemption: " + advice.Err.Error()
		r.Decision.RetryAfter = victimsAgain
		c.life.Unplaceable(r)
		return
	}
	a.Counsel.Victims.Answered, a.Counsel.Victims.Left = true, advice.Candidates
	c.lineUp(r)
}

// vetting is a question to extenders about the place that is held for a pod.
type vetting struct {
	// id is that of the question that is out; 0 for none.
	id uint64
	// answered: opinion is what they think of the node, or err why there is none.
	answered bool
	opinion  placement.Opinion
	err      error
	// unstorable is why the store does not take the promotion of the place; empty if that is not so.
	unstorable string
}

// vet asks the extenders that filter whether a pod may have the place that is held for it, and acts on a no; 0 if
// the pod may have it. An extender that does not answer is asked again until patience ends: pods have gone for it.
func (c *Core) vet(s standing, profile *placement.Profile, node *state.Node) look {
	v := &s.vetting
	switch {
	case ledger.IsPrepared(s.plan) || !profile.FilteredByExtenders(s.pod):
		return 0
	case v.id != 0:
		return lookLater
	case v.answered && v.err != nil && c.shard.Now.Sub(s.moved) > holdPatience:
		return c.giveUp(s, end{reason: v.err.Error()})
	case v.answered && v.err == nil && v.opinion.Rejected:
		return c.giveUp(s, end{reason: refusedBy(v.opinion), failed: true})
	case v.answered && v.err == nil:
		return 0
	case c.maxConsults():
		return lookAgain
	}
	c.consults.questions++
	*v = vetting{id: c.consults.questions}
	c.consults.vetted[v.id] = s.plan
	c.effects.Consult(step.Consult{
		ID: v.id, Shard: c.shard.ID, SchedulerName: s.pod.SchedulerName, Pod: s.pod, Nodes: []*state.Node{node},
	})
	return lookLater
}

// refusedBy says why a pod may not have its place.
func refusedBy(o placement.Opinion) string {
	if len(o.Reasons) == 0 {
		return "an extender turns it down"
	}
	return "an extender turns it down: " + o.Reasons[0]
}

// vetted takes in what extenders say of a place that is held.
func (c *Core) vetted(advice step.Advice) {
	plan, waits := c.consults.vetted[advice.ID]
	delete(c.consults.vetted, advice.ID)
	h, held := c.plans.byPlan[plan]
	if !waits || !held || h.vetting.id != advice.ID {
		return
	}
	h.vetting = vetting{answered: true, err: advice.Err}
	if advice.Err != nil {
		return // with a heartbeat it is asked again
	}
	doc, _ := c.shard.Ledger.Doc(h.nodeUID)
	var ok bool
	if h.vetting.opinion, ok = advice.Opinions[doc.NodeName]; !ok {
		h.vetting.err = errors.New("extenders have said nothing about node " + doc.NodeName)
		return
	}
	c.plans.due[h.podUID] = struct{}{}
}
