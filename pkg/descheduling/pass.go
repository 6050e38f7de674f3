package descheduling

import (
	"fmt"
	"slices"

	"github.com/berth-scheduler/berth/pkg/descheduling/policy"
)

// run is one Run in progress. It owns the outcome and the concerns; strategies change them only through pass.
type run struct {
	Input
	offer Offer
	view  *View
	out   Outcome
	// concerns holds the concerns of strategies by their arguments, of which each strategy has its own pointer;
	// order holds those pointers in order.
	concerns map[policy.Args]concern
	order    []policy.Args
}

// pass is one strategy of one profile in progress: the run, seen by that strategy. A new pass is made for each.
type pass struct {
	*run
	profile, strategy string
	guard             *Guard
	report            StrategyReport
	// leftOut counts the pods that the guard excluded from consideration.
	leftOut map[Refusal]int
}

// propose offers a candidate unless a protection covers it. The landing is empty when none was searched for.
//
// The protections are checked first (they cost little, and operators look for their refusals), then
// whether the pod has been accepted in this run already, then the Offer, which may search for a place and count
// limits. A pod whose eviction is already under way counts as accepted, without a landing: the strategy must not
// pick another pod in its place. A limit of the node or of the run is a refusal like any other, but ends the node
// or the strategy.
func (p *pass) propose(c Candidate) (v Verdict, landing string) {
	c.Profile, c.Strategy = p.profile, p.strategy
	c = p.withConcerns(c)
	pod := c.Pod
	p.out.Picked++
	p.report.Picked++
	refusal := p.guard.refuse(pod)
	if refusal == "" && pod.accepted {
		refusal = AskedNow
	}
	if refusal == "" {
		landing, refusal = p.offer(c, p.guard)
	}
	if refusal == "" {
		pod.accepted = true
		p.moved(pod, landing)
		return Accepted, landing
	}
	if p.Kept != nil {
		p.Kept(c, refusal)
	}
	p.out.Refused[Refused{
		Profile: p.profile, Strategy: p.strategy, Namespace: pod.Namespace, Node: pod.NodeName, Reason: refusal,
	}]++
	switch refusal {
	case NodeLimit:
		return NodeDone, ""
	case TotalLimit, CycleFull:
		return Done, ""
	case UnderWay:
		pod.accepted = true
		return Accepted, ""
	default:
		return Kept, ""
	}
}

// try offers one pod whose replacement may be placed on any node.
func (p *pass) try(pod *Pod, reason string) Verdict {
	verdict, _ := p.propose(Candidate{Pod: pod, Reason: reason})
	return verdict
}

// tryAll offers pods of one node in order and reports whether the pass should continue. as makes the candidate of a
// pod immediately before it is offered.
func (p *pass) tryAll(pods []*Pod, as func(*Pod) Candidate) bool {
	for _, pod := range pods {
		switch verdict, _ := p.propose(as(pod)); verdict {
		case NodeDone:
			return true
		case Done:
			return false
		}
	}
	return true
}

// concern is a strategy's restriction on where replacements land, whichever strategy moves the pods. Without it,
// one strategy creates work for another, and pods move twice. Upstream has none.
//
// A concern is also the state of its strategy, which is computed before the first strategy runs and follows all
// moves of the run: when the strategy's turn comes, it continues with that state instead of the original cluster.
type concern interface {
	// accepts reports whether the strategy would accept the pod's replacement on one of the selected nodes.
	accepts(pod *Pod, to *Node) bool
	// moved records that a pod leaves its node for another.
	moved(pod *Pod, to *Node)
	// soft reports whether a node that the strategy does not accept is still preferable to no move at all.
	soft() bool
}

// withConcerns adds the concerns of all strategies to a strategy's judgement of a node. Those that are not
// soft always count, so they narrow Better; soft ones only prefer among better nodes, so they make Best. A
// candidate whose strategy accepts any node is left alone: its pod has to go in any case.
func (r *run) withConcerns(c Candidate) Candidate {
	if c.Better == nil || len(r.concerns) == 0 {
		return c
	}
	better := c.Better
	c.Better = func(name string) bool { return better(name) && r.allows(c.Pod, name, false) }
	c.Best = func(name string) bool { return r.allows(c.Pod, name, true) }
	return c
}

// allows evaluates the soft concerns, or the others. A node that is not in the view, because it is not ready, is
// not restricted: no strategy has counts for it.
func (r *run) allows(pod *Pod, name string, soft bool) bool {
	to := r.view.byName[name]
	return to == nil || !slices.ContainsFunc(r.order, func(a policy.Args) bool {
		c := r.concerns[a]
		return c.soft() == soft && !c.accepts(pod, to)
	})
}

// moved reports a landing to all concerns, if it is known. Without one, because the policy does not require a
// landing or the pod's eviction is already under way, they keep counting the pod where it is.
func (r *run) moved(pod *Pod, landing string) {
	to := r.view.byName[landing]
	if to == nil || to == pod.Node {
		return
	}
	for _, c := range r.concerns {
		c.moved(pod, to)
	}
}

// note adds a sentence to the strategy's report.
func (p *pass) note(format string, args ...any) {
	p.report.Says = append(p.report.Says, fmt.Sprintf(format, args...))
}

// protects is the guard's filter for strategies that exclude protected pods from the start, such as those that
// count pods per domain: a pod that cannot be evicted must not be picked in place of one that can. The excluded
// pods are reported at the end.
func (p *pass) protects(pod *Pod) bool {
	return p.leaveOut(p.guard.filter(pod))
}

// leaveOut counts an excluded pod by its reason, and reports whether there is one.
func (p *pass) leaveOut(r Refusal) bool {
	if r == "" {
		return false
	}
	if p.leftOut == nil {
		p.leftOut = map[Refusal]int{}
	}
	p.leftOut[r]++
	return true
}

// tooManyRules reports, and counts, a pod that is left out because of its rules.
func (p *pass) tooManyRules(pod *Pod) bool {
	return manyRules(pod) && p.leaveOut(TooManyRules)
}

// selectPods returns the pods that a strategy picks, in the given order.
func selectPods(pods []*Pod, picks func(*Pod) bool) []*Pod {
	var picked []*Pod
	for _, pod := range pods {
		if picks(pod) {
			picked = append(picked, pod)
		}
	}
	return picked
}
