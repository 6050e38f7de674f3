package descheduling

import (
	"fmt"
	"time"

	"github.com/berth-scheduler/berth/pkg/descheduling/policy"
)

// minNodes is the smallest number of nodes for which a run makes sense: with one, there is no other node (upstream
// also skips the cycle).
const minNodes = 2

// Candidate is a pod that a strategy would evict.
type Candidate struct {
	Pod *Pod
	// Profile and Strategy are those that picked it.
	Profile, Strategy string
	// Reason explains it to people: "taint gpu:NoSchedule of node a is not tolerated".
	Reason string
	// Better reports whether the strategy would accept the pod's replacement on a node, by name, in the current
	// state. nil means that any node that can take it is acceptable.
	Better func(node string) bool
	// Best reports whether a node that is better creates no work for other strategies; nil if no strategy has
	// concerns.
	Best func(node string) bool
}

// Verdict is the result for a candidate.
type Verdict uint8

const (
	// Kept: the pod stays; the strategy continues.
	Kept Verdict = iota
	// Accepted: the pod will be evicted, as far as this run is concerned.
	Accepted
	// NodeDone: no more pods may be evicted from the candidate's node.
	NodeDone
	// Done: no more pods may be evicted at all.
	Done
)

// Offer decides about one candidate that no protection covers. It returns the reason against it, or nothing, and
// the node where the replacement is expected, if it searched for one. It is called in the order in which strategies
// pick.
type Offer func(Candidate, *Guard) (landing string, against Refusal)

// Input is everything a run depends on.
type Input struct {
	Cluster Cluster
	Policy  *policy.Policy
	// Usage is the actual utilisation, for strategies that need it.
	Usage Usage
	// Now is the time that ages of pods are measured against.
	Now time.Time
	// Upstream decides exactly as sigs.k8s.io/descheduler v0.36 would.
	Upstream bool
	// Kept, if set, is called for every candidate that stays, with the reason.
	Kept func(Candidate, Refusal)
	// Timed, if set, is called when a strategy begins; the function that it returns is called when the strategy has
	// ended.
	Timed func(profile, strategy string) (ended func())
}

// Refused identifies a pod that a strategy of a profile picked and that stays, for counting.
type Refused struct {
	Profile, Strategy, Namespace, Node string
	Reason                             Refusal
}

// Outcome is the result of a run, in addition to what Offer accepted.
type Outcome struct {
	// Refused counts the pods that stay, by the strategy that picked them and the reason.
	Refused map[Refused]int
	// Nodes is how many nodes were considered; Picked is how many pods the strategies picked.
	Nodes, Picked int
	// Skipped explains why there was no run; empty if there was one.
	Skipped string
	// Failed holds the strategies that could not run, with the reason.
	Failed []Failure
	// Told holds the report of each strategy, in the order in which they ran.
	Told []Told
}

// Failure is a strategy that could not run.
type Failure struct {
	Profile, Strategy string
	Err               error
}

// Run lets every strategy of every profile pick once: first the deschedule strategies, then the balance strategies.
func Run(in Input, offer Offer) Outcome {
	r := &run{
		Input: in, offer: offer, view: NewView(in.Cluster, in.Policy.Nodes, in.Now),
		out: Outcome{Refused: map[Refused]int{}}, concerns: map[policy.Args]concern{},
	}
	r.view.upstream = in.Upstream
	r.out.Nodes = len(r.view.looked)
	if r.out.Nodes < minNodes {
		r.out.Skipped = fmt.Sprintf("%d ready nodes match the policy, at least %d are needed", r.out.Nodes, minNodes)
		return r.out
	}
	guards := make([]*Guard, len(in.Policy.Profiles))
	for i := range in.Policy.Profiles {
		guards[i] = newGuard(&in.Policy.Profiles[i].Evictor, r.view, in.Upstream)
	}
	if !in.Upstream {
		r.concerned(guards)
	}
	for i, p := range in.Policy.Profiles {
		r.strategies(p.Name, p.Deschedule, guards[i])
	}
	for i, p := range in.Policy.Profiles {
		r.strategies(p.Name, p.Balance, guards[i])
	}
	return r.out
}

// run is one Run in progress.
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

// pass is one strategy of one profile.
type pass struct {
	*run
	profile, strategy string
	guard             *Guard
	told              Told
	// leftOut counts the pods that the guard excluded from consideration.
	leftOut map[Refusal]int
}

func (r *run) strategies(profile string, list []policy.Strategy, g *Guard) {
	for _, s := range list {
		p := &pass{
			run: r, profile: profile, strategy: s.Name, guard: g, told: Told{Profile: profile, Strategy: s.Name},
		}
		ended := func() {}
		if r.Timed != nil {
			ended = r.Timed(profile, s.Name)
		}
		if err := p.pick(s.Args); err != nil {
			r.out.Failed = append(r.out.Failed, Failure{Profile: profile, Strategy: s.Name, Err: err})
		} else {
			p.conclude(s.Args)
		}
		ended()
		r.out.Told = append(r.out.Told, p.told)
	}
}

func (p *pass) pick(args policy.Args) error {
	switch a := args.(type) {
	case *policy.TooManyRestarts:
		p.tooManyRestarts(a)
	case *policy.PodLifeTime:
		p.podLifeTime(a)
	case *policy.FailedPods:
		p.failedPods(a)
	case *policy.Duplicates:
		p.duplicates(a)
	case *policy.NodeTaints:
		p.nodeTaints(a)
	case *policy.NodeAffinity:
		p.nodeAffinity(a)
	case *policy.InterPodAntiAffinity:
		p.interPodAntiAffinity(a)
	case *policy.TopologySpread:
		p.topologySpread(a)
	case *policy.LowUtilization:
		return p.lowUtilization(a)
	case *policy.HighUtilization:
		return p.highUtilization(a)
	default:
		return fmt.Errorf("strategy %s: arguments of type %T: want those of one of %v", p.strategy, args, policy.Supported())
	}
	return nil
}

// try offers one pod whose replacement may be placed on any node.
func (p *pass) try(pod *Pod, reason string) Verdict {
	verdict, _ := p.propose(Candidate{Pod: pod, Reason: reason})
	return verdict
}

// propose offers a candidate unless a protection covers it. The landing is empty when none was searched for.
func (p *pass) propose(c Candidate) (v Verdict, landing string) {
	c.Profile, c.Strategy = p.profile, p.strategy
	c = p.content(c)
	pod := c.Pod
	p.out.Picked++
	p.told.Picked++
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
