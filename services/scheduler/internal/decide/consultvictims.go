package decide

import (
	"errors"
	"time"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/engine"
	"github.com/berth-scheduler/berth/pkg/placement/preempt"
	"github.com/berth-scheduler/berth/pkg/state"
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

// victimCounsel is what an attempt has to do with extenders that are asked who may go for it.
type victimCounsel struct {
	// answered: left is what they have left of the candidates.
	answered bool
	left     []preempt.Candidate
}

// maxConsults reports whether there are as many questions out as there may be.
func (c *Core) maxConsults() bool {
	return c.attempts.count(consulting)+len(c.consults.vetted) >= MaxConsults
}

// isConsulted: others have a say in where a pod goes, or in who goes for it. It takes no place of another then: about
// that nobody can ask them.
func isConsulted(p *placement.Profile, pod *state.Pod) bool {
	return p.Extended(pod) || p.AdvisedOnVictims(pod)
}

// advisedPlan is who could go for a pod, of those whom extenders let go, if they are to be asked; false while
// they are asked, or when the attempt has come to its end.
func (c *Core) advisedPlan(s seeker, q engine.PreemptQuery, out *Output) (preempt.Result, bool) {
	a := s.attempt
	q.Opinions = a.counsel.opinions
	if !s.profile.AdvisedOnVictims(s.pod) {
		return c.preempt(s, q), true
	}
	if a.counsel.victims.answered {
		current := c.asFound(a.counsel.victims.left)
		plan := c.search(s, func() preempt.Result { return c.engine.PreemptAmong(s.profile, q, current) })
		if plan.Node != nil || plan.Err != nil || len(current) == len(a.counsel.victims.left) {
			return plan, true
		}
	}
	var list []preempt.Candidate
	plan := c.search(s, func() (plan preempt.Result) {
		list, plan = c.engine.PreemptCandidates(s.profile, q)
		return plan
	})
	if len(list) == 0 {
		a.counsel.victims = victimCounsel{}
		return plan, true
	}
	c.consultVictims(s, list, out)
	return preempt.Result{}, false
}

// asFound are the candidates whose nodes are as they were when they were found.
func (c *Core) asFound(given []preempt.Candidate) (list []preempt.Candidate) {
	for _, one := range given {
		if n, ok := c.view.Node(one.Node.UID); ok && n.Generation == one.Generation {
			list = append(list, one)
		}
	}
	return list
}

// consultVictims has an attempt wait for what extenders say of candidates.
func (c *Core) consultVictims(s seeker, list []preempt.Candidate, out *Output) {
	a := s.attempt
	a.counsel.victims = victimCounsel{}
	switch {
	case c.maxConsults():
		c.attempts.append(deferred, a)
		return
	case a.counsel.questions >= maxQuestions:
		c.fail(a, "the pods that would have to go were others each time that extenders had answered", out)
		return
	}
	a.counsel.questions++
	r := s.rejection
	a.verdict = &r
	c.consults.questions++
	q := Consult{
		ID: c.consults.questions, Shard: c.cfg.Shard, SchedulerName: s.pod.SchedulerName, Pod: s.pod, Candidates: list,
	}
	c.attempts.ask(a, consulting, q.ID)
	out.Consults = append(out.Consults, q)
}

// advisedOnVictims takes in what extenders have left of candidates, and has who asked stand in line again. When
// they have failed, the pod has the verdict that it had, so that whoever adds nodes for pods sees it.
func (c *Core) advisedOnVictims(a *attempt, advice Advice, out *Output) {
	r := *a.verdict
	a.counsel.victims = victimCounsel{}
	if advice.Err != nil {
		r.decision.Message += " preemption: " + advice.Err.Error()
		r.decision.RetryAfter = victimsAgain
		c.unplaceable(r, out)
		return
	}
	a.counsel.victims.answered, a.counsel.victims.left = true, advice.Candidates
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
func (c *Core) vet(s standing, profile *placement.Profile, node *state.Node, out *Output) look {
	v := &s.vetting
	switch {
	case ledger.IsPrepared(s.plan) || !profile.FilteredByExtenders(s.pod):
		return 0
	case v.id != 0:
		return lookLater
	case v.answered && v.err != nil && c.now.Sub(s.moved) > holdPatience:
		return c.giveUp(s, end{reason: v.err.Error()}, out)
	case v.answered && v.err == nil && v.opinion.Rejected:
		return c.giveUp(s, end{reason: refusedBy(v.opinion), failed: true}, out)
	case v.answered && v.err == nil:
		return 0
	case c.maxConsults():
		return lookAgain
	}
	c.consults.questions++
	*v = vetting{id: c.consults.questions}
	c.consults.vetted[v.id] = s.plan
	out.Consults = append(out.Consults, Consult{
		ID: v.id, Shard: c.cfg.Shard, SchedulerName: s.pod.SchedulerName, Pod: s.pod, Nodes: []*state.Node{node},
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
func (c *Core) vetted(advice Advice) {
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
	doc, _ := c.ledger.Doc(h.nodeUID)
	var ok bool
	if h.vetting.opinion, ok = advice.Opinions[doc.NodeName]; !ok {
		h.vetting.err = errors.New("extenders have said nothing about node " + doc.NodeName)
		return
	}
	c.plans.due[h.podUID] = struct{}{}
}
