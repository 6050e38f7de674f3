package placement

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/berth-scheduler/berth/pkg/state"
)

// Candidate is a node on which preemption can make room for a pod, with the pods that would have to be evicted.
// Extenders are asked about it before any pod is evicted. What it points to is shared and must not be changed.
type Candidate struct {
	Node *state.Node
	// Generation is the generation of the NodeInfo it was found on.
	Generation uint64
	// Standing holds all pods on the node, in the order of their UIDs. Victims are those of them that have to be
	// evicted, the most important first.
	Standing, Victims []*state.Pod
	// Violations is the number of victims that exceed disruption budgets; see Cost.
	Violations int
	// Doubted is set if an extender rejects the node as it is and cannot tell whether it would accept it without
	// the victims. Candidates that no extender doubts are preferred.
	Doubted bool
}

// noCandidate is upstream's message when extenders leave no candidate. Source: framework/preemption Preempt.
const noCandidate = "no candidate node for preemption"

// PreemptCandidates searches for nodes on which preemption can make room, so that extenders can be asked about
// them. If there are none, the Preemption explains why. It tries nodes as kube-scheduler does, starting at one that
// the seed selects, until there are enough; it does so even for a profile whose own search is not limited, because
// an extender has to be asked about all of them. Candidates are sorted by node name. All victims are pods of the
// candidate's node.
func PreemptCandidates(p *Profile, in PreemptInput) ([]Candidate, Preemption) {
	x, answer, ok := begin(p, in)
	if !ok {
		return nil, answer
	}
	rules, found := *x.rules, []room{}
	rules.orLimit()
	x.rules, x.all = &rules, &found
	nodes, err := x.promising()
	if err != nil {
		return nil, Preemption{Err: err}
	}
	examined := x.search(nodes)
	if x.found == 0 {
		return nil, x.inVain(examined, len(x.Candidates))
	}
	list := make([]Candidate, len(found))
	for i := range found {
		list[i] = found[i].candidate()
	}
	slices.SortFunc(list, func(a, b Candidate) int { return cmp.Compare(a.Node.Name, b.Node.Name) })
	return list, Preemption{}
}

func (p *room) candidate() Candidate {
	c := Candidate{
		Node: p.node.Node, Generation: p.node.Generation, Violations: p.cost.Violations,
		Standing: slices.SortedFunc(p.node.Pods(), func(a, b *state.Pod) int { return cmp.Compare(a.UID, b.UID) }),
	}
	for _, s := range p.victims {
		c.Victims = append(c.Victims, s.pod)
	}
	return c
}

// PreemptAmong answers as Preempt does, but evicts all victims of one of the given candidates and no other pod. A
// candidate is not used if the pod would not fit even without its victims, or if one of them must not be evicted
// (it is as important as the pod, protected, or covered by a budget).
func PreemptAmong(p *Profile, in PreemptInput, given []Candidate) Preemption {
	x, answer, ok := begin(p, in)
	if !ok {
		return answer
	}
	nodes, err := x.promising()
	if err != nil {
		return Preemption{Err: err}
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
		if plan, does := x.does(n, &given[i]); does {
			x.offer(plan)
		}
	}
	if x.found > 0 {
		result := x.concluded()
		result.Examined, result.Found = len(given), x.found
		return result
	}
	why := noCandidate
	if len(given) > 0 {
		why = fmt.Sprintf("%s: on %d node(s), those whom extenders have go are not enough, or may not go.",
			noCandidate, len(given))
	}
	return Preemption{Examined: len(given), Message: prefix + why}
}

// does turns a candidate into a plan, if the candidate is valid.
func (x *preemption) does(n *state.NodeInfo, c *Candidate) (room, bool) {
	a := &attempt{whatIf: x.what, search: x, target: n}
	for p := range n.Pods() {
		if !slices.ContainsFunc(c.Victims, func(v *state.Pod) bool { return v.UID == p.UID }) {
			continue
		}
		if !x.mayGo(p) || x.isKept(p) {
			return room{}, false
		}
		a.victims = append(a.victims, seatOf(n, p))
	}
	if len(a.victims) == 0 || len(a.victims) < len(c.Victims) {
		return room{}, false
	}
	slices.SortFunc(a.victims, byImportance)
	if x.rules.PDB == PDBRespect && len(x.ration(a.victims)) < len(a.victims) {
		return room{}, false
	}
	for _, s := range a.victims {
		a.remove(s)
	}
	defer a.reset()
	if a.check(n) != verdictPass {
		return room{}, false
	}
	a.violations = c.Violations
	plan := a.found()
	plan.doubted = c.Doubted
	return plan, true
}
