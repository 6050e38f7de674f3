package plan

import (
	"time"

	"github.com/berth-scheduler/berth/pkg/descheduling"
	"github.com/berth-scheduler/berth/pkg/descheduling/policy"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Move is one pod to evict.
type Move struct {
	descheduling.Candidate
	// To is the landing place; nil if the policy does not require one. Replacement is the pod as it is expected
	// there.
	To          *state.Node
	Replacement *state.Pod
	// Owner is the UID of the pod's controller, empty if it has none.
	Owner string
	// Youngest is the creation time of the youngest of the owner's pods; zero without an owner.
	Youngest time.Time
	// Budgets holds the UIDs of the disruption budgets that the eviction is charged to.
	Budgets []string
}

// Plan is the result of a cycle.
type Plan struct {
	descheduling.Outcome
	// Moves holds the moves in the order in which to make them.
	Moves []Move
	// Returned holds the pods that are on the node that the pod they replace had left, by namespace and name. The
	// other pods of their owners stay for MaxCooldown.
	Returned []*state.Pod
}

// Make runs every strategy of the policy once and plans the moves. Owners whose replacements came back are found
// before the strategies run, because none of their pods may be moved in this cycle.
//
// Its cost is that of the strategies, plus a landing search for each candidate that passes the cheaper checks
// (bench_test.go).
func Make(in Input) Plan {
	if in.History == nil {
		in.History = NewHistory()
	}
	p := &planner{
		Input: in, limits: descheduling.NewLimits(in.Policy.Limits),
		budgets: newBudgets(&in), owners: newOwners(&in),
	}
	p.countRequested()
	back := p.owners.findReturned()
	out := descheduling.Run(descheduling.Input{
		Cluster: in.Cluster, Policy: in.Policy, Usage: in.Usage, Now: in.Now, Kept: in.Kept, Timed: in.Timed,
	}, p.offer)
	return Plan{Outcome: out, Moves: p.moves, Returned: back}
}

// planner is one Make in progress.
type planner struct {
	Input
	moves   []Move
	limits  *descheduling.Limits
	budgets *budgets
	owners  *owners
	// cluster, laterRuns and shares are created when first needed: most cycles of a balanced cluster pick no pod.
	cluster   *futureCluster
	laterRuns map[strategyRun]int
	shares    *namespaceShares
}

// offer plans the move of one pod unless a check refuses it. It is the Offer of descheduling.Run.
//
// The order is that of cost: the pod's own past and the limits; claims of other plans; the owner's past and state;
// the time since the pod was moved, for strategies that balance; disruption budgets; and a landing place last,
// because its search evaluates all nodes. A place that is found is occupied at once, so nothing may refuse the pod
// after that. Only an accepted pod is counted anywhere.
func (p *planner) offer(c descheduling.Candidate, g *descheduling.Guard) (string, descheduling.Refusal) {
	if c.Pod.Terminal {
		return "", p.remove(c)
	}
	pod, owner := c.Pod, ownerOf(c.Pod.Pod)
	if pod.InProgress {
		return "", UnderWay // by whichever client it was requested
	}
	if r := p.refuseByLimits(c); r != "" {
		return "", r
	}
	if p.Promised != nil && p.Promised(pod.UID) {
		return "", AnothersPlan
	}
	if r := p.owners.refuse(pod.Pod, owner); r != "" {
		return "", r
	}
	if made := pod.Created().Time; policy.Balances(c.Strategy) && p.Now.Sub(made) < p.Policy.Berth.MaxCooldown &&
		p.History.owners[owner].moved(pod.NodeName, made) {
		return "", MovedLately
	}
	budgets, r := p.budgets.refuse(pod)
	if r != "" {
		return "", r
	}
	m := Move{Candidate: c, Owner: owner.uid, Youngest: p.owners.podsOf(owner).youngest, Budgets: budgets}
	if g.WantsNodeFit() {
		if m.To, m.Replacement, r = p.findLanding(&c, g); r != "" {
			return "", r
		}
	}
	p.count(pod.Pod)
	p.owners.countEviction(owner)
	p.budgets.take(budgets)
	p.moves = append(p.moves, m)
	if m.To == nil {
		return "", ""
	}
	return m.To.Name, ""
}

// refuseByLimits returns a refusal that follows from the pod's past, or from a limit of the cycle: first upstream's
// limits, whose refusals end a node or a strategy, then MaxPerCycle less what is reserved for later strategies,
// then the share of the pod's namespace.
func (p *planner) refuseByLimits(c descheduling.Candidate) descheduling.Refusal {
	if r := p.History.refuse(c.Pod.UID, p.Now); r != "" {
		return r
	}
	if r := p.limits.Refuse(c.Pod.NodeName, c.Pod.Namespace); r != "" {
		return r
	}
	most := p.Policy.Berth.MaxPerCycle
	if most > 0 {
		most -= p.reserved(c.Profile, c.Strategy)
		if len(p.moves) >= most {
			return descheduling.CycleFull
		}
	}
	if p.shares == nil {
		p.shares = newNamespaceShares(&p.Input)
	}
	return p.shares.refuse(c.Pod.Pod, most)
}

// count counts a move against the limits.
func (p *planner) count(pod *state.Pod) {
	p.limits.Take(pod.NodeName, pod.Namespace)
	p.shares.count(pod)
}

// reserved returns how much of a cycle's limit is reserved for the strategies that run after this one, so that a
// strategy which always finds work leaves some to them: a twentieth for each, half of it at most. What they do not
// use stays unused until the next cycle.
func (p *planner) reserved(profile, strategy string) int {
	const share, half = 20, 2
	if p.laterRuns == nil {
		p.laterRuns = countLaterRuns(p.Policy)
	}
	most := p.Policy.Berth.MaxPerCycle
	return min(p.laterRuns[strategyRun{profile, strategy}]*most/share, most/half)
}

// strategyRun identifies one strategy of a profile.
type strategyRun struct{ profile, strategy string }

// countLaterRuns returns how many strategies run after each, in the order of descheduling.Run.
func countLaterRuns(p *policy.Policy) map[strategyRun]int {
	var order []strategyRun
	for _, profile := range p.Profiles {
		for _, s := range profile.Deschedule {
			order = append(order, strategyRun{profile.Name, s.Name})
		}
	}
	for _, profile := range p.Profiles {
		for _, s := range profile.Balance {
			order = append(order, strategyRun{profile.Name, s.Name})
		}
	}
	after := make(map[strategyRun]int, len(order))
	for i, t := range order {
		after[t] = len(order) - 1 - i
	}
	return after
}

// remove plans the deletion of a pod that has ended. Its owner has replaced it already, and no budget counts it: it
// needs no place, and its owner loses nothing.
func (p *planner) remove(c descheduling.Candidate) descheduling.Refusal {
	if r := p.refuseByLimits(c); r != "" {
		return r
	}
	if r := p.owners.refuse(c.Pod.Pod, ownerID{}); r != "" {
		return r
	}
	p.count(c.Pod.Pod)
	p.moves = append(p.moves, Move{Candidate: c})
	return ""
}

// findLanding searches a landing place and occupies it. The future cluster is built for the first search.
func (p *planner) findLanding(
	c *descheduling.Candidate, g *descheduling.Guard,
) (*state.Node, *state.Pod, descheduling.Refusal) {
	if p.cluster == nil {
		p.cluster = newFutureCluster(&p.Input)
	}
	return p.cluster.findLanding(c, g.Evictor)
}
