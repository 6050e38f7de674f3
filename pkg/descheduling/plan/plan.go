package plan

import (
	"time"

	"github.com/berth-scheduler/berth/pkg/descheduling"
	"github.com/berth-scheduler/berth/pkg/descheduling/policy"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Input is everything a plan depends on.
type Input struct {
	Cluster *state.Snapshot
	// Nodes are all nodes with what counts on them, promises included. The plan changes them.
	// Nil: those of Cluster, with the pods that it shows.
	Nodes  []*state.NodeInfo
	Policy *policy.Policy
	// Usage is the actual utilisation, for strategies that ask for it.
	Usage descheduling.Usage
	// Placement finds the rules by which a pod of this scheduler would be placed.
	Placement func(schedulerName string) *placement.Profile
	// History of earlier cycles; read only.
	History *History
	// Claimed is how many disruptions of a budget, by UID, have been promised and do not show
	// in its status; nil for none.
	Claimed func(budgetUID string) int32
	// Promised says whether somebody counts on a pod, by UID: as a victim, or as one that stays.
	// nil: nobody does.
	Promised func(podUID string) bool
	// Pinned: landing places are kept for the replacements, as far as it can be told which pods
	// those are (view.ReplacementOf).
	Pinned bool
	// Now is compared with the times in History, and with those of pods.
	Now time.Time
	// Kept, if set, is told of every candidate that stays, and why.
	Kept func(descheduling.Candidate, descheduling.Refusal)
}

// Move is one pod to evict.
type Move struct {
	descheduling.Candidate
	// To is the landing place; nil if the policy does not ask for one. Replacement is the pod
	// as it is expected there.
	To          *state.Node
	Replacement *state.Pod
	// Owner is the UID of the pod's controller, empty if it has none.
	Owner string
	// Budgets are the UIDs of the disruption budgets that the eviction takes from.
	Budgets []string
}

// Plan is what a cycle came to.
type Plan struct {
	descheduling.Outcome
	// Moves in the order in which to make them.
	Moves []Move
}

// Make runs every strategy of the policy once and plans the moves.
func Make(in Input) Plan {
	if in.History == nil {
		in.History = NewHistory()
	}
	p := &planner{
		Input: in, limits: descheduling.NewLimits(in.Policy.Limits),
		budgets: newBudgets(in.Cluster, in.Claimed), owners: newOwners(&in),
	}
	out := descheduling.Run(descheduling.Input{
		Cluster: in.Cluster, Policy: in.Policy, Usage: in.Usage, Now: in.Now, Kept: in.Kept,
	}, p.offer)
	return Plan{Outcome: out, Moves: p.moves}
}

// planner is one Make under way.
type planner struct {
	Input
	moves   []Move
	limits  *descheduling.Limits
	budgets *budgets
	owners  *owners
	// ground is made when first needed.
	ground *ground
}

// offer plans the move of one pod unless something stands against it. What is cheap to know
// comes first; a landing place is looked for, and taken, last.
func (p *planner) offer(c descheduling.Candidate, g *descheduling.Guard) (string, descheduling.Refusal) {
	pod, owner := c.Pod, ownerOf(c.Pod.Pod)
	if r := p.History.refuse(pod.UID, p.Now); r != "" {
		return "", r
	}
	if p.Promised != nil && p.Promised(pod.UID) {
		return "", AnothersPlan
	}
	if r := p.limits.Refuse(pod.NodeName, pod.Namespace); r != "" {
		return "", r
	}
	if most := p.Policy.Berth.MaxPerCycle; most > 0 && len(p.moves) >= most {
		return "", descheduling.CycleFull
	}
	if r := p.owners.refuse(pod.Pod, owner); r != "" {
		return "", r
	}
	budgets, r := p.budgets.refuse(pod.Pod)
	if r != "" {
		return "", r
	}
	m := Move{Candidate: c, Owner: owner, Budgets: budgets}
	if g.WantsNodeFit() {
		if m.To, m.Replacement, r = p.land(&c, g); r != "" {
			return "", r
		}
	}
	p.limits.Take(pod.NodeName, pod.Namespace)
	p.owners.take(owner)
	p.budgets.take(budgets)
	p.moves = append(p.moves, m)
	if m.To == nil {
		return "", ""
	}
	return m.To.Name, ""
}

func (p *planner) land(
	c *descheduling.Candidate, g *descheduling.Guard,
) (*state.Node, *state.Pod, descheduling.Refusal) {
	if p.ground == nil {
		p.ground = newGround(&p.Input)
	}
	return p.ground.land(c, g.Evictor)
}
