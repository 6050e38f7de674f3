package preempt

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Candidate is a node on which preemption can place a pod, with the pods that would have to be evicted. Extenders
// are asked about it before any pod is evicted. What it points to is shared and must not be changed.
type Candidate struct {
	Node *state.Node
	// Generation is the generation of the NodeInfo it was found on.
	Generation uint64
	// Pods holds all pods on the node, in the order of their UIDs. Victims are those of them that have to be
	// evicted, the most important first.
	Pods, Victims []*state.Pod
	// Violations is the number of victims that exceed disruption budgets; see Cost.
	Violations int
	// Doubted is set if an extender rejects the node as it is and cannot decide whether it would accept it
	// without the victims. Candidates that no extender doubts are preferred.
	Doubted bool
}

// noCandidate is upstream's message when extenders leave no candidate. Source: framework/preemption Preempt.
const noCandidate = "no candidate node for preemption"

// Candidates searches for nodes on which preemption can make room, so that extenders can be asked about
// them. If there are none, the Result explains why. It tries nodes as kube-scheduler does, starting at one that
// the seed selects, until there are enough; it does so even for a profile whose own search is not limited, because
// an extender has to be asked about all of them. Candidates are sorted by node name. All victims are pods of the
// candidate's node.
func Candidates(p *placement.Profile, in Input) ([]Candidate, Result) {
	x, answer, ok := begin(p, in)
	if !ok {
		return nil, answer
	}
	rules, found := *x.Rules, []Plan{}
	rules.OrLimit()
	x.Rules, x.all = &rules, &found
	nodes, err := x.promising()
	if err != nil {
		return nil, Result{Err: err}
	}
	examined := x.search(nodes)
	if x.Found == 0 {
		return nil, x.InVain(examined, len(x.Candidates))
	}
	list := make([]Candidate, len(found))
	for i := range found {
		list[i] = found[i].candidate()
	}
	slices.SortFunc(list, func(a, b Candidate) int { return cmp.Compare(a.Node.Name, b.Node.Name) })
	return list, Result{}
}

// candidate returns the plan in the form that extenders are shown.
func (p *Plan) candidate() Candidate {
	c := Candidate{
		Node: p.node.Node, Generation: p.node.Generation, Violations: p.Cost.Violations,
		Pods: slices.SortedFunc(p.node.Pods(), func(a, b *state.Pod) int { return cmp.Compare(a.UID, b.UID) }),
	}
	for _, s := range p.victims {
		c.Victims = append(c.Victims, s.Pod)
	}
	return c
}

// Among answers as Run does, but evicts all victims of one of the given candidates and no other pod. A candidate
// is not used if the pod would not fit even without its victims, or if one of them must not be evicted (it is as
// important as the pod, protected, or covered by a budget). An extender may have removed victims from a candidate
// or added others; they are checked like those that were found here.
func Among(p *placement.Profile, in Input, given []Candidate) Result {
	x, answer, ok := begin(p, in)
	if !ok {
		return answer
	}
	nodes, err := x.promising()
	if err != nil {
		return Result{Err: err}
	}
	byUID := make(map[string]*state.NodeInfo, len(nodes))
	for _, n := range nodes {
		byUID[n.Node.UID] = n
	}
	for i := range given {
		n, ok := byUID[given[i].Node.UID]
		if !ok {
			continue
		}
		if plan, does := x.planFor(n, &given[i]); does {
			x.offer(plan)
		}
	}
	if x.Found > 0 {
		result := x.Concluded()
		result.Examined, result.Found = len(given), x.Found
		return result
	}
	why := noCandidate
	if len(given) > 0 {
		why = fmt.Sprintf("%s: on %d node(s), those whom extenders have go are not enough, or may not go.",
			noCandidate, len(given))
	}
	return Result{Examined: len(given), Message: MessagePrefix + why}
}

// planFor turns a candidate into a plan, if the candidate is valid: every victim is still on the node and may be
// evicted, the budgets allow it, and the pod fits without them.
func (x *Search) planFor(n *state.NodeInfo, c *Candidate) (Plan, bool) {
	a := &nodeTrial{WhatIf: x.What, search: x, target: n}
	for p := range n.Pods() {
		if !slices.ContainsFunc(c.Victims, func(v *state.Pod) bool { return v.UID == p.UID }) {
			continue
		}
		if !x.evictable(p) || x.budgetProtects(p) {
			return Plan{}, false
		}
		a.victims = append(a.victims, PlacedPodOf(n, p))
	}
	if len(a.victims) == 0 || len(a.victims) < len(c.Victims) {
		return Plan{}, false
	}
	slices.SortFunc(a.victims, ByImportance)
	if x.Rules.PDB == placement.PDBRespect && len(x.ration(a.victims)) < len(a.victims) {
		return Plan{}, false
	}
	for _, s := range a.victims {
		a.Remove(s)
	}
	defer a.Reset()
	if a.Check(n) != placement.VerdictPass {
		return Plan{}, false
	}
	a.violations = c.Violations
	plan := a.found()
	plan.doubted = c.Doubted
	return plan, true
}
