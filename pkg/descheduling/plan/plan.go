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

// Make runs every strategy of the policy once and plans the moves.
func Make(in Input) Plan {
	if in.History == nil {
		in.History = NewHistory()
	}
	p := &planner{
		Input: in, limits: descheduling.NewLimits(in.Policy.Limits),
		budgets: newBudgets(&in), owners: newOwners(&in),
	}
	back := p.owners.returns()
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
	// ground, turns and tenants are created when first needed.
	ground  *ground
	turns   map[turn]int
	tenants *tenants
}

// offer plans the move of one pod unless a check refuses it. Cheap checks come first; a landing place is searched
// for, and occupied, last.
func (p *planner) offer(c descheduling.Candidate, g *descheduling.Guard) (string, descheduling.Refusal) {
	if c.Pod.Terminal {
		return "", p.remove(c)
	}
	pod, owner := c.Pod, ownerOf(c.Pod.Pod)
	if r := p.restrained(c); r != "" {
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
	budgets, r := p.budgets.refuse(pod.Pod)
	if r != "" {
		return "", r
	}
	m := Move{Candidate: c, Owner: owner.uid, Youngest: p.owners.crowdOf(owner).youngest, Budgets: budgets}
	if g.WantsNodeFit() {
		if m.To, m.Replacement, r = p.land(&c, g); r != "" {
			return "", r
		}
	}
	p.take(pod.Pod)
	p.owners.take(owner)
	p.budgets.take(budgets)
	p.moves = append(p.moves, m)
	if m.To == nil {
		return "", ""
	}
	return m.To.Name, ""
}

// restrained returns a refusal that follows from the pod's past, or from a limit of the cycle.
func (p *planner) restrained(c descheduling.Candidate) descheduling.Refusal {
	if r := p.History.refuse(c.Pod.UID, p.Now); r != "" {
		return r
	}
	if r := p.limits.Refuse(c.Pod.NodeName, c.Pod.Namespace); r != "" {
		return r
	}
	most := p.Policy.Berth.MaxPerCycle
	if most > 0 {
		most -= p.kept(c.Profile, c.Strategy)
		if len(p.moves) >= most {
			return descheduling.CycleFull
		}
	}
	if p.tenants == nil {
		p.tenants = newTenants(&p.Input)
	}
	return p.tenants.refuse(c.Pod.Pod, most)
}

// take counts a move against the limits.
func (p *planner) take(pod *state.Pod) {
	p.limits.Take(pod.NodeName, pod.Namespace)
	p.tenants.take(pod)
}

// kept returns how much of a cycle's limit is reserved for the strategies that run after this one, so that a
// strategy which always finds work leaves some to them: a twentieth for each, half of it at most. What they do not
// use stays unused until the next cycle.
func (p *planner) kept(profile, strategy string) int {
	const share, half = 20, 2
	if p.turns == nil {
		p.turns = turnsOf(p.Policy)
	}
	most := p.Policy.Berth.MaxPerCycle
	return min(p.turns[turn{profile, strategy}]*most/share, most/half)
}

// turn is one strategy of a profile.
type turn struct{ profile, strategy string }

// turnsOf returns how many strategies run after each.
func turnsOf(p *policy.Policy) map[turn]int {
	var order []turn
	for _, profile := range p.Profiles {
		for _, s := range profile.Deschedule {
			order = append(order, turn{profile.Name, s.Name})
		}
	}
	for _, profile := range p.Profiles {
		for _, s := range profile.Balance {
			order = append(order, turn{profile.Name, s.Name})
		}
	}
	after := make(map[turn]int, len(order))
	for i, t := range order {
		after[t] = len(order) - 1 - i
	}
	return after
}

// remove plans the deletion of a pod that has ended. Its owner has replaced it already, and no budget counts it: it
// needs no place, and its owner loses nothing.
func (p *planner) remove(c descheduling.Candidate) descheduling.Refusal {
	if r := p.restrained(c); r != "" {
		return r
	}
	if r := p.owners.refuse(c.Pod.Pod, ownerID{}); r != "" {
		return r
	}
	p.take(c.Pod.Pod)
	p.moves = append(p.moves, Move{Candidate: c})
	return ""
}

func (p *planner) land(
	c *descheduling.Candidate, g *descheduling.Guard,
) (*state.Node, *state.Pod, descheduling.Refusal) {
	if p.ground == nil {
		p.ground = newGround(&p.Input)
	}
	return p.ground.land(c, g.Evictor)
}
