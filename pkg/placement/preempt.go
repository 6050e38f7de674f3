package placement

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/state"
)

// PreemptInput is all that a preemption depends on besides the profile.
type PreemptInput struct {
	// Input is that of the Evaluate which found no node. What is reserved stands on the nodes
	// like pods that are bound, so that nobody's place is counted as room. Seed breaks ties,
	// and says where a limited search begins. Start, Limit and Details mean nothing.
	Input
	// Budgets are the disruption budgets; nil for none.
	Budgets *Budgets
	// Protected are the UIDs of pods that cannot be victims however unimportant they are: those
	// claimed as victims of another plan, those that a placement relies on, and reservations
	// that may not be displaced.
	Protected map[string]bool
}

// Preemption is the answer: which pods have to go for a pod, and where it fits then.
type Preemption struct {
	// Node is where the pod fits when all Victims are gone, and not before; nil if preemption
	// does not help.
	Node *state.NodeInfo
	// Victims have to go, the most important first. Not all need be on Node.
	Victims []Victim
	// Keepers are pods that the required affinity relies on, one for each of its terms at
	// most, on Node if possible. They must not go as long as the pod has not been placed.
	Keepers []Keeper
	// Budgets are what evicting the victims takes from disruption budgets.
	Budgets []BudgetUse
	Cost    Cost
	// Examined is how many nodes were tried, Found on how many of them there was room to make.
	Examined, Found int
	// Waiting: all victims leave already. There is nothing to evict, only to wait for.
	Waiting bool
	// Message is what upstream adds to the message of a pod that preemption does not help,
	// beginning with "preemption: "; empty otherwise, and when the profile does not preempt.
	Message string
	// Advice is sentences for people about what stands in the way, beyond Message.
	Advice []string
	// Kept: on some node, disruption budgets keep less important pods, without which there would
	// be room (no Node).
	Kept bool
	// KeepNomination: the pod may not preempt now, and a node it is nominated to stays so.
	// Without Node and without this, a nomination is to be cleared.
	KeepNomination bool
	// Err: the attempt failed for a reason that is no answer. Everything else is then empty.
	Err error
}

// Victim is a pod that has to go.
type Victim struct {
	Node *state.NodeInfo
	Pod  *state.Pod
	// Leaving: it is being deleted already. Reserved: it is not bound, so that there is
	// nothing to evict; its reservation is to be taken back or displaced.
	Leaving, Reserved bool
	// Budgets are those that evicting it takes from.
	Budgets []*Budget
}

// Keeper is a pod that must stay, and its node.
type Keeper struct {
	Node *state.NodeInfo
	Pod  *state.Pod
}

// BudgetUse is how many disruptions to take from one budget. More than are left only where
// budgets are not respected.
type BudgetUse struct {
	Budget      *Budget
	Disruptions int32
}

// Reasons that preemption gives for a node, besides those of rules.
const (
	prefix        = "preemption: "
	notHelpful    = "Preemption is not helpful for scheduling"
	noVictims     = "No preemption victims found for incoming pod"
	keptByBudgets = "node(s) where disruption budgets keep the pods that would have to go"
)

var reasonNoVictims, reasonKept, reasonNotHelpful = []string{noVictims}, []string{keptByBudgets}, []string{notHelpful}

// preemption is one Preempt under way.
type preemption struct {
	PreemptInput
	rules *preempting
	eval  *evaluation
	what  *whatIf
	// reasons counts the nodes that were tried in vain by why.
	reasons map[string]int32
	// needed is a pod that would have to go, of a node where the required affinity needs it.
	needed seat
	// opposed counts those that extenders turn down and the rules do not, deserted those of them without pods that
	// are less important.
	opposed, deserted int
	// crowded counts those that more pods elsewhere block than one plan may take.
	crowded int
	// covered is set when budgets had a say.
	covered bool
	best    room
	found   int
	// all are the plans found, if they are asked for.
	all *[]room
}

// Preempts says whether the profile preempts at all.
func (p *Profile) Preempts() bool { return p.preemption.enabled }

// ExceedsBudgets says whether the profile takes disruption budgets for a wish: what it decides
// may take more from one than is left.
func (p *Profile) ExceedsBudgets() bool { return p.preemption.PDB == PDBBestEffort }

// Preempt looks for pods that have to go for one that fits nowhere, from scratch. It is a
// function of its arguments, as Evaluate is. A pod that does fit somewhere is refused
// (*FitsError).
//
// Nodes are tried on which less important pods could be in the way. On each all of them go,
// and come back as long as the pod fits; the cheapest of these plans is taken. If there is
// none, pods on other nodes may be victims too, where a rule names them (see crossNode).
func (p *Profile) Preempt(in PreemptInput) Preemption {
	x, answer, ok := p.beginPreemption(in)
	if !ok {
		return answer
	}
	nodes, err := x.promising()
	if err != nil {
		return Preemption{Err: err}
	}
	examined := x.search(nodes)
	if x.found == 0 {
		x.crossNode(nodes)
	}
	if x.found == 0 {
		return x.inVain(examined, len(x.Candidates))
	}
	result := x.concluded()
	result.Examined, result.Found = examined, x.found
	return result
}

// beginPreemption readies a search; !ok with the answer where there is nothing to look for.
func (p *Profile) beginPreemption(in PreemptInput) (x *preemption, answer Preemption, ok bool) {
	if in.Candidates == nil {
		in.Candidates = in.Nodes
	}
	in.Objects = orNoObjects(in.Objects)
	eval := &evaluation{Input: in.Input, profile: p, result: Result{NodesTotal: len(in.Candidates)}}
	if err := eval.compile(); err != nil {
		return nil, Preemption{Err: err}, false
	}
	x = &preemption{PreemptInput: in, rules: &p.preemption, eval: eval, reasons: map[string]int32{}}
	if !x.rules.enabled || len(in.Candidates) == 0 {
		return nil, Preemption{}, false
	}
	if eval.rejected == nil {
		eval.surveyFilters()
	}
	if why := x.ineligible(x.candidate); why != "" {
		return nil, Preemption{Message: prefix + why, KeepNomination: true}, false
	}
	x.what = newWhatIf(eval.filters)
	if x.rules.KeepDevices {
		x.what.keepDevices()
	}
	return x, Preemption{}, true
}

// ineligible says why the pod may not preempt now; empty if it may. find looks a candidate up
// by name, nil for none. Source: plugins/defaultpreemption PodEligibleToPreemptOthers.
func (x *preemption) ineligible(find func(name string) (*state.NodeInfo, Code)) string {
	if policy := x.Pod.Template.Spec.PreemptionPolicy; policy != nil && *policy == corev1.PreemptNever {
		return "not eligible due to preemptionPolicy=Never."
	}
	name := x.Pod.Status().NominatedNodeName
	if name == "" {
		return ""
	}
	n, code := find(name)
	if n == nil || code == UnschedulableAndUnresolvable {
		return ""
	}
	for other := range n.Pods() {
		if other.Priority < x.Pod.Priority && isPreempted(other) {
			return "not eligible due to a terminating pod on the nominated node."
		}
	}
	return ""
}

// candidate finds a candidate by its name.
func (x *preemption) candidate(name string) (*state.NodeInfo, Code) {
	i := slices.IndexFunc(x.Candidates, func(n *state.NodeInfo) bool { return n.Node.Name == name })
	if i < 0 {
		return nil, UnschedulableAndUnresolvable
	}
	return x.Candidates[i], x.code(x.Candidates[i])
}

// isPreempted tells whether a pod is leaving because a scheduler preempted it.
func isPreempted(p *state.Pod) bool {
	if !p.Deleting {
		return false
	}
	conditions := p.Status().Conditions
	i := slices.IndexFunc(conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.DisruptionTarget })
	return i >= 0 && conditions[i].Status == corev1.ConditionTrue &&
		conditions[i].Reason == corev1.PodReasonPreemptionByScheduler
}

// code is what the rules and, of nodes that they let pass, extenders say of a node as it is. What an extender
// finds hopeless is so, whatever the rules say by now.
func (x *preemption) code(n *state.NodeInfo) Code {
	if x.eval.rejected != nil || x.eval.isNarrowed(n) || x.Opinions[n.Node.Name].Unresolvable {
		return UnschedulableAndUnresolvable
	}
	switch v := x.eval.verdict(n); {
	case v == verdictPass:
		return Success
	case v == verdictExtender:
		return Unschedulable
	case v < 0:
		return UnschedulableAndUnresolvable
	default:
		return x.eval.filters[v].filter.Check(n)
	}
}

// promising are the nodes that pods leaving could make fit, in the order of the search.
func (x *preemption) promising() ([]*state.NodeInfo, error) {
	var nodes []*state.NodeInfo
	for _, n := range x.Candidates {
		switch code := x.code(n); {
		case code == Success:
			return nil, x.errFits(n)
		case code == Unschedulable || !x.Opinions[n.Node.Name].Unresolvable && x.devicesHelp(n):
			nodes = append(nodes, n)
		}
	}
	if len(nodes) == 0 {
		return nil, nil
	}
	first := int(x.Seed % uint64(len(nodes)))
	return slices.Concat(nodes[first:], nodes[:first]), nil
}

func (x *preemption) errFits(n *state.NodeInfo) error {
	return &FitsError{Pod: x.Pod.Key(), Node: n.Node.Name}
}

// FitsError reports a preemption for a pod that needs none.
type FitsError struct{ Pod, Node string }

func (e *FitsError) Error() string {
	return fmt.Sprintf("placement: preemption for pod %s, which fits on node %s: want one that fits nowhere",
		e.Pod, e.Node)
}

// search tries nodes until there are enough plans, at least one of which exceeds no budget.
// Until there is one, plans that exceed budgets are dropped when there are enough of them.
// Source: framework/preemption DryRunPreemption.
func (x *preemption) search(nodes []*state.NodeInfo) (examined int) {
	enough, exceeding := x.rules.enough(len(nodes)), 0
	for _, n := range nodes {
		examined++
		plan, reasons, ok := x.onNode(n)
		switch {
		case !ok:
			x.refuse(reasons, 1)
		case plan.cost.Violations == 0:
			x.offer(plan)
		case exceeding < enough:
			exceeding++
			x.offer(plan)
		}
		if x.found > exceeding && x.found >= enough {
			break
		}
	}
	return examined
}

// refuse counts nodes that were tried in vain.
func (x *preemption) refuse(reasons []string, nodes int32) {
	for _, reason := range reasons {
		x.reasons[reason] += nodes
	}
}

func (x *preemption) offer(plan room) {
	if x.found == 0 || plan.before(&x.best) {
		x.best = plan
	}
	x.found++
	if x.all != nil {
		*x.all = append(*x.all, plan)
	}
}

// onNode looks for room among the pods of one node; if there is none, it says why.
func (x *preemption) onNode(n *state.NodeInfo) (plan room, reasons []string, ok bool) {
	seats, kept := x.seatsOn(n)
	if len(x.Opinions) > 0 && x.eval.verdict(n) == verdictExtender {
		return room{}, x.opposedBecause(len(seats)+len(kept) == 0), false
	}
	switch {
	case len(seats)+len(kept) == 0:
		return room{}, reasonNoVictims, false
	case len(seats) == 0:
		return room{}, reasonKept, false
	}
	a := &attempt{whatIf: x.what, search: x, target: n}
	if plan, ok = a.makeRoom(seats); ok {
		return plan, nil, true
	}
	if plan, ok = a.withKeeper(seats); ok {
		return plan, nil, true
	}
	reasons = a.reasons
	if len(kept) > 0 && a.take(slices.Concat(seats, kept)) {
		reasons = reasonKept
	}
	return room{}, reasons, false
}

// opposedBecause counts a node that extenders turn down and the rules do not: the rules let the pod pass with all
// who are there, so that nobody going would change anything that is known.
func (x *preemption) opposedBecause(nobody bool) []string {
	x.opposed++
	if nobody {
		x.deserted++
		return reasonNoVictims
	}
	return reasonNotHelpful
}

// mayGo tells whether a pod is unimportant enough to be a victim.
func (x *preemption) mayGo(p *state.Pod) bool {
	return p.Priority < x.Pod.Priority && !x.Protected[p.UID]
}

// seatsOn are the pods on a node that may go, and those that only budgets keep.
func (x *preemption) seatsOn(n *state.NodeInfo) (seats, kept []seat) {
	for p := range n.Pods() {
		switch {
		case !x.mayGo(p):
		case x.isKept(p):
			kept = append(kept, seatOf(n, p))
		default:
			seats = append(seats, seatOf(n, p))
		}
	}
	return seats, kept
}

// isKept tells whether a budget keeps a pod whoever else goes. The eviction API refuses pods
// with more than one budget for good.
func (x *preemption) isKept(p *state.Pod) bool {
	if x.Budgets == nil || x.rules.PDB != PDBRespect || goesFreely(p) {
		return false
	}
	covering := len(x.Budgets.covering(p))
	x.covered = x.covered || covering > 0
	if covering > 1 {
		return true
	}
	spent := func(i int) bool { return x.Budgets.all[i].Left <= 0 }
	return covering == 1 && slices.ContainsFunc(x.Budgets.charged(p), spent)
}

// split sorts pods by what their going does to budgets, each group in the order in which they
// are given: the most important first. These are the first to take from a budget, as upstream
// has it; where budgets are respected the last are, so that the less important go.
// Source: plugins/defaultpreemption filterPodsWithPDBViolation.
func (x *preemption) split(seats []seat) (exceeding, others, leaving []seat) {
	exceeds, left := make([]bool, len(seats)), x.left()
	leaves := func(s seat) bool { return s.pod.Deleting && !x.rules.ChargeLeaving }
	for i := range seats {
		if x.rules.PDB == PDBRespect {
			i = len(seats) - 1 - i
		}
		exceeds[i] = !leaves(seats[i]) && !x.charge(left, seats[i].pod)
	}
	for i, s := range seats {
		switch {
		case leaves(s):
			leaving = append(leaving, s)
		case exceeds[i]:
			exceeding = append(exceeding, s)
		default:
			others = append(others, s)
		}
	}
	return exceeding, others, leaving
}

// ration returns as many of the pods as the budgets allow, the least important; seats are
// not changed.
func (x *preemption) ration(seats []seat) []seat {
	left := x.left()
	var allowed []seat
	sorted := slices.SortedFunc(slices.Values(seats), byImportance)
	for _, s := range slices.Backward(sorted) {
		if x.charge(left, s.pod) {
			allowed = append(allowed, s)
		}
	}
	return allowed
}

func (x *preemption) left() []int32 {
	if x.Budgets == nil {
		return nil
	}
	left := make([]int32, len(x.Budgets.all))
	for i := range left {
		left[i] = x.Budgets.all[i].Left
	}
	return left
}

// charge takes a pod from the budgets that it counts in; false if one of them has nothing
// left.
func (x *preemption) charge(left []int32, p *state.Pod) bool {
	enough := true
	for _, i := range x.counted(p) {
		left[i]--
		enough = enough && left[i] >= 0
	}
	return enough
}

// counted are the budgets that a pod counts in: those that its eviction takes from or, as for
// kube-scheduler, all that cover it and have not counted it yet.
func (x *preemption) counted(p *state.Pod) []int {
	if x.Budgets == nil {
		return nil
	}
	if x.rules.PDB == PDBRespect {
		return x.Budgets.charged(p)
	}
	covering := x.Budgets.covering(p)
	x.covered = x.covered || len(covering) > 0
	return slices.DeleteFunc(covering, func(i int) bool {
		_, counted := x.Budgets.all[i].disrupted[p.Name]
		return counted
	})
}
