package descheduling

import (
	"fmt"

	"github.com/berth-scheduler/berth/pkg/descheduling/policy"
)

// minNodes is the smallest number of nodes for which a run makes sense: with one, there is no other node (upstream
// also skips the cycle).
const minNodes = 2

// Run lets every strategy of every profile pick once: first the deschedule strategies, then the balance strategies,
// as upstream does, so that what is wrong is removed before what remains is balanced.
//
// The steps: make the view of the selected nodes; resolve the protections of every profile; compute the concerns of
// the balance strategies, which the deschedule strategies must respect already; run the strategies in order. A
// strategy that fails is recorded and does not stop the others. Run never calls offer concurrently.
func Run(in Input, offer Offer) Outcome {
	r := &run{
		Input: in, offer: offer, view: NewView(in.Cluster, in.Policy.Nodes, in.Now),
		out: Outcome{Refused: map[Refused]int{}}, concerns: map[policy.Args]concern{},
	}
	r.view.upstream = in.Upstream
	r.out.Nodes = len(r.view.selected)
	if r.out.Nodes < minNodes {
		r.out.Skipped = fmt.Sprintf("%d ready nodes match the policy, at least %d are needed", r.out.Nodes, minNodes)
		return r.out
	}
	guards := make([]*Guard, len(in.Policy.Profiles))
	for i := range in.Policy.Profiles {
		guards[i] = newGuard(&in.Policy.Profiles[i].Evictor, r.view, in.Upstream)
	}
	if !in.Upstream {
		r.collectConcerns(guards)
	}
	for i, p := range in.Policy.Profiles {
		r.strategies(p.Name, p.Deschedule, guards[i])
	}
	for i, p := range in.Policy.Profiles {
		r.strategies(p.Name, p.Balance, guards[i])
	}
	return r.out
}

// strategies runs the strategies of one extension point of a profile, in the order of the policy, and adds a report
// of each to the outcome.
func (r *run) strategies(profile string, list []policy.Strategy, g *Guard) {
	for _, s := range list {
		p := &pass{
			run: r, profile: profile, strategy: s.Name, guard: g, report: StrategyReport{Profile: profile, Strategy: s.Name},
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
		r.out.Reports = append(r.out.Reports, p.report)
	}
}

// pick runs the strategy that the type of the arguments identifies. An error means that the strategy could not run;
// it has picked nothing then.
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

// collectConcerns collects the concerns of all profiles. It runs before any strategy, on the cluster as it is.
func (r *run) collectConcerns(guards []*Guard) {
	for i, profile := range r.Policy.Profiles {
		for _, s := range profile.Balance {
			p := &pass{run: r, profile: profile.Name, strategy: s.Name, guard: guards[i]}
			if c := p.newConcern(s.Args); c != nil {
				r.concerns[s.Args] = c
				r.order = append(r.order, s.Args)
			}
		}
	}
}

// newConcern returns the concern of a strategy; nil if it has none, or cannot determine it.
func (p *pass) newConcern(args policy.Args) concern {
	switch args := args.(type) {
	case *policy.Duplicates:
		return p.newDuplicateIndex(args)
	case *policy.LowUtilization:
		if l, err := p.newLevels(args); err == nil {
			return l
		}
	}
	return nil
}
