package placement

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/state"
)

// PreemptInput is everything that a preemption depends on in addition to the profile.
type PreemptInput struct {
	// Input is that of the Evaluate which found no node. Pods with a reservation count on their nodes like bound
	// pods, so that their place does not count as room. Seed breaks ties and determines where a limited search
	// begins. Start, Limit and Details are ignored.
	Input
	// Budgets holds the disruption budgets; nil for none.
	Budgets *Budgets
	// Protected holds the UIDs of pods that cannot be victims however low their priority is: those claimed as
	// victims of another plan, those that a placement relies on, and reservations that may not be displaced.
	Protected map[string]bool
}

// Preemption is the result: which pods have to be evicted for a pod, and where it then fits.
type Preemption struct {
	// Node is where the pod fits once all Victims are gone, and not before; nil if preemption does not help.
	Node *state.NodeInfo
	// Victims are the pods to evict, the most important first. Not all of them need be on Node.
	Victims []Victim
	// Keepers are pods that satisfy the required affinity, at most one for each of its terms, on Node if possible.
	// They must not be evicted until the pod has been placed.
	Keepers []Keeper
	// Budgets holds the disruptions that the eviction of the victims takes from each budget.
	Budgets []BudgetUse
	Cost    Cost
	// Examined is how many nodes were tried; Found is on how many of them room can be made.
	Examined, Found int
	// Waiting reports that all victims are already terminating: nothing needs to be evicted, and the pod only has
	// to wait.
	Waiting bool
	// Message is the text that upstream appends to the message of a pod for which preemption does not help,
	// starting with "preemption: "; empty otherwise, and when the profile does not preempt.
	Message string
	// Advice holds sentences for people about the obstacles, in addition to Message.
	Advice []string
	// Kept reports that on some node disruption budgets protect less important pods whose eviction would make room;
	// Node is nil then.
	Kept bool
	// KeepNomination reports that the pod may not preempt now, and that an existing nomination stays. Without Node
	// and without this, a nomination must be cleared.
	KeepNomination bool
	// Err is set if the attempt failed for a reason other than that no plan exists. Everything else is then empty.
	Err error
}

// Victim is a pod that has to be evicted.
type Victim struct {
	Node *state.NodeInfo
	Pod  *state.Pod
	// Leaving reports that the pod is already being deleted. Reserved reports that it is not bound, so that no
	// eviction is needed; its reservation must be taken back or displaced.
	Leaving, Reserved bool
	// Budgets are those that the eviction is charged to.
	Budgets []*Budget
}

// Keeper is a pod that must stay, and its node.
type Keeper struct {
	Node *state.NodeInfo
	Pod  *state.Pod
}

// BudgetUse is how many disruptions to take from one budget. It can exceed what is left only where budgets are not
// respected.
type BudgetUse struct {
	Budget      *Budget
	Disruptions int32
}

// Reasons that preemption gives for a node, in addition to those of the rules.
const (
	prefix        = "preemption: "
	notHelpful    = "Preemption is not helpful for scheduling"
	noVictims     = "No preemption victims found for incoming pod"
	keptByBudgets = "node(s) where disruption budgets keep the pods that would have to go"
)

var reasonNoVictims, reasonKept, reasonNotHelpful = []string{noVictims}, []string{keptByBudgets}, []string{notHelpful}

// preemption is one Preempt in progress.
type preemption struct {
	PreemptInput
	rules *preempting
	eval  *evaluation
	what  *whatIf
	// reasons counts, by reason, the nodes that were tried without success.
	reasons map[string]int32
	// needed is a pod that would have to be evicted from a node although the required affinity needs it there.
	needed seat
	// opposed counts the nodes that extenders reject and the rules do not; deserted counts those of them that have
	// no less important pods.
	opposed, deserted int
	// crowded counts the nodes that are blocked by more pods elsewhere than one plan may evict.
	crowded int
	// covered is set when budgets affected the result.
	covered bool
	best    room
	found   int
	// all, if not nil, collects all plans found.
	all *[]room
}

// Preempt searches, from scratch, for pods to evict for a pod that fits on no node. Like Evaluate, it is a function
// of its arguments. It returns an error (*FitsError) for a pod that does fit on a node.
//
// It tries the nodes where less important pods could be in the way. On each it removes all of them, and puts them
// back for as long as the pod still fits; the cheapest of these plans wins. If there is none, pods on other nodes
// may also become victims where a rule refers to them (see crossNode).
func Preempt(p *Profile, in PreemptInput) Preemption {
	x, answer, ok := begin(p, in)
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

// begin prepares a search. If there is nothing to search for, it returns the answer and ok is false.
func begin(p *Profile, in PreemptInput) (x *preemption, answer Preemption, ok bool) {
	if in.Candidates == nil {
		in.Candidates = in.Nodes
	}
	in.Objects = orNoObjects(in.Objects)
	eval := &evaluation{Input: in.Input, profile: p, result: Result{NodesTotal: len(in.Candidates)}}
	if err := eval.compile(); err != nil {
		return nil, Preemption{Err: err}, false
	}
	x = &preemption{PreemptInput: in, rules: p.preemptionRules(), eval: eval, reasons: map[string]int32{}}
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

// ineligible returns why the pod may not preempt now; empty if it may. find looks up a candidate by name, nil for
// none. Source: plugins/defaultpreemption PodEligibleToPreemptOthers.
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

// candidate returns a candidate by its name.
func (x *preemption) candidate(name string) (*state.NodeInfo, Code) {
	i := slices.IndexFunc(x.Candidates, func(n *state.NodeInfo) bool { return n.Node.Name == name })
	if i < 0 {
		return nil, UnschedulableAndUnresolvable
	}
	return x.Candidates[i], x.code(x.Candidates[i])
}

// isPreempted reports whether a pod is terminating because a scheduler preempted it.
func isPreempted(p *state.Pod) bool {
	if !p.Deleting {
		return false
	}
	conditions := p.Status().Conditions
	i := slices.IndexFunc(conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.DisruptionTarget })
	return i >= 0 && conditions[i].Status == corev1.ConditionTrue &&
		conditions[i].Reason == corev1.PodReasonPreemptionByScheduler
}

// code returns the result of the rules for a node as it is and, if they let it pass, that of the extenders. If an
// extender finds a node unresolvable, it is, whatever the rules now say.
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

// promising returns the nodes where evictions could make the pod fit, in the order of the search.
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

// FitsError reports a preemption for a pod that does not need one.
type FitsError struct{ Pod, Node string }

func (e *FitsError) Error() string {
	return fmt.Sprintf("placement: preemption for pod %s, which fits on node %s: want one that fits nowhere",
		e.Pod, e.Node)
}

// search tries nodes until there are enough plans, at least one of which exceeds no budget. Until there is such a
// plan, further plans that exceed budgets are dropped once there are enough of them. Source: framework/preemption
// DryRunPreemption.
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

// refuse counts nodes that were tried without success.
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

// onNode searches for room among the pods of one node; if there is none, it returns why.
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

// opposedBecause counts a node that extenders reject and the rules do not. The rules let the pod pass with all pods
// on the node, so no eviction there would change a known result. nobody reports that the node has no less important
// pods.
func (x *preemption) opposedBecause(nobody bool) []string {
	x.opposed++
	if nobody {
		x.deserted++
		return reasonNoVictims
	}
	return reasonNotHelpful
}

// mayGo reports whether a pod is unimportant enough to be a victim.
func (x *preemption) mayGo(p *state.Pod) bool {
	return p.Priority < x.Pod.Priority && !x.Protected[p.UID]
}

// seatsOn returns the pods on a node that may be evicted, and those that only budgets protect.
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

// isKept reports whether a budget protects a pod whichever other pods are evicted. The eviction API always refuses
// pods with more than one budget.
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

// split sorts pods by how their eviction affects budgets; each group keeps the given order, the most important
// first. As upstream, the first pods are charged to a budget first; where budgets are respected, the last ones are,
// so that less important pods are evicted. Source: plugins/defaultpreemption filterPodsWithPDBViolation.
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

// ration returns as many of the pods as the budgets allow, the least important ones; seats is not changed.
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

// charge charges a pod to the budgets that it counts in; false if one of them has nothing left.
func (x *preemption) charge(left []int32, p *state.Pod) bool {
	enough := true
	for _, i := range x.counted(p) {
		left[i]--
		enough = enough && left[i] >= 0
	}
	return enough
}

// counted returns the budgets that a pod counts in: those that its eviction is charged to or, as in kube-scheduler,
// all that cover it and have not counted it yet.
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
