package preempt

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Input is everything that a preemption depends on in addition to the profile.
type Input struct {
	// Input is that of the Evaluate which found no node. Pods with a reservation count on their nodes like bound
	// pods, so that their place does not count as room. Seed breaks ties and determines where a limited search
	// begins. Start, Limit and Details are ignored.
	placement.Input
	// Budgets holds the disruption budgets; nil for none.
	Budgets *Budgets
	// Protected holds the UIDs of pods that cannot be victims however low their priority is: those claimed as
	// victims of another plan, those that a placement relies on, and reservations that may not be displaced.
	Protected map[string]bool
}

// Result is the result: which pods have to be evicted for a pod, and where it then fits.
type Result struct {
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
	// BlockedByBudgets reports that on some node disruption budgets protect less important pods whose eviction would
	// make room; Node is nil then.
	BlockedByBudgets bool
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

// BudgetUse is how many disruptions to take from one budget. It can exceed what is left where budgets are not
// respected, and by victims whose eviction can only be requested.
type BudgetUse struct {
	Budget      *Budget
	Disruptions int32
}

// Reasons that preemption gives for a node, in addition to those of the rules.
const (
	MessagePrefix = "preemption: "
	notHelpful    = "Preemption is not helpful for scheduling"
	noVictims     = "No preemption victims found for incoming pod"
	keptByBudgets = "node(s) where disruption budgets keep the pods that would have to go"
)

// ReasonNoVictims is the reason for a node that has no less important pods.
var ReasonNoVictims = []string{noVictims}

var reasonKept, reasonNotHelpful = []string{keptByBudgets}, []string{notHelpful}

// Search is one Run in progress.
type Search struct {
	Input
	Rules *placement.PreemptionRules
	// eval holds the compiled rules; its filters have been surveyed for this search alone.
	eval *placement.Evaluation
	// What evaluates the filters on a cluster in which some pods are gone.
	What *placement.WhatIf
	// Reasons counts, by reason, the nodes that were tried without success.
	Reasons map[string]int32
	// needed is a pod that would have to be evicted from a node although the required affinity needs it there.
	needed placement.PlacedPod
	// rejectedByExtenders counts the nodes that extenders reject and the rules do not; withoutVictims counts
	// those of them that have no less important pods.
	rejectedByExtenders, withoutVictims int
	// tooManyBlockers counts the nodes that are blocked by more pods elsewhere than one plan may evict.
	tooManyBlockers int
	// Covered is set when budgets affected the result.
	Covered bool
	// Best is the best plan so far, and Found the number of plans.
	Best  Plan
	Found int
	// all, if not nil, collects all plans found.
	all *[]Plan
}

// Run searches, from scratch, for pods to evict for a pod that fits on no node. Like Evaluate, it is a function
// of its arguments. It returns an error (*FitsError) for a pod that does fit on a node.
//
// It tries the nodes where less important pods could be in the way. On each it removes all of them, and puts them
// back for as long as the pod still fits; the cheapest of these plans wins. If there is none, pods on other nodes
// may also become victims where a rule refers to them (see crossNode).
func Run(p *placement.Profile, in Input) Result {
	x, answer, ok := begin(p, in)
	if !ok {
		return answer
	}
	nodes, err := x.promising()
	if err != nil {
		return Result{Err: err}
	}
	examined := x.search(nodes)
	if x.Found == 0 {
		x.crossNode(nodes)
	}
	if x.Found == 0 {
		return x.InVain(examined, len(x.Candidates))
	}
	result := x.Concluded()
	result.Examined, result.Found = examined, x.Found
	return result
}

// begin prepares a search. If there is nothing to search for, it returns the answer and ok is false.
func begin(p *placement.Profile, in Input) (x *Search, answer Result, ok bool) {
	if in.Candidates == nil {
		in.Candidates = in.Nodes
	}
	in.Objects = rule.OrNone(in.Objects)
	eval := &placement.Evaluation{Input: in.Input, Profile: p, Result: placement.Result{NodesTotal: len(in.Candidates)}}
	if err := eval.Compile(); err != nil {
		return nil, Result{Err: err}, false
	}
	x = &Search{Input: in, Rules: p.PreemptionRules(), eval: eval, Reasons: map[string]int32{}}
	if !x.Rules.Enabled || len(in.Candidates) == 0 {
		return nil, Result{}, false
	}
	if eval.Rejected == nil {
		eval.SurveyFilters()
	}
	if why := x.Ineligible(x.candidate); why != "" {
		return nil, Result{Message: MessagePrefix + why, KeepNomination: true}, false
	}
	x.What = placement.NewWhatIf(eval.Filters)
	if x.Rules.KeepDevices {
		x.What.KeepDevices()
	}
	return x, Result{}, true
}

// Ineligible returns why the pod may not preempt now; empty if it may. find looks up a candidate by name, nil for
// none. Source: plugins/defaultpreemption PodEligibleToPreemptOthers.
func (x *Search) Ineligible(find func(name string) (*state.NodeInfo, rule.Code)) string {
	if IsNever(x.Pod) {
		return "not eligible due to preemptionPolicy=Never."
	}
	name := x.Pod.Status().NominatedNodeName
	if name == "" {
		return ""
	}
	n, code := find(name)
	if n == nil || code == rule.UnschedulableAndUnresolvable {
		return ""
	}
	if waitsForPreempted(x.Pod, n) {
		return "not eligible due to a terminating pod on the nominated node."
	}
	return ""
}

// KeepsNomination reports whether a pod that fits nowhere keeps its nomination although no victims are sought for it:
// upstream does not consider such a pod for preemption, and then leaves the nomination alone. n is the node that the
// pod is nominated to, nil if there is none. The rules for that node are not checked. Source:
// plugins/defaultpreemption PodEligibleToPreemptOthers.
func KeepsNomination(pod *state.Pod, n *state.NodeInfo) bool {
	return IsNever(pod) || n != nil && waitsForPreempted(pod, n)
}

// IsNever reports whether a pod never preempts others: its preemption policy is Never. Shards give such a pod no place
// that is held or kept for another pod either.
func IsNever(pod *state.Pod) bool {
	policy := pod.Template.Spec.PreemptionPolicy
	return policy != nil && *policy == corev1.PreemptNever
}

// waitsForPreempted reports whether pods are leaving a node because a scheduler preempted them, possibly for this pod.
func waitsForPreempted(pod *state.Pod, n *state.NodeInfo) bool {
	for other := range n.Pods() {
		if other.Priority < pod.Priority && isPreempted(other) {
			return true
		}
	}
	return false
}

// candidate returns a candidate by its name, and the result of the rules for it; nil if there is none.
func (x *Search) candidate(name string) (*state.NodeInfo, rule.Code) {
	i := slices.IndexFunc(x.Candidates, func(n *state.NodeInfo) bool { return n.Node.Name == name })
	if i < 0 {
		return nil, rule.UnschedulableAndUnresolvable
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
func (x *Search) code(n *state.NodeInfo) rule.Code {
	if x.eval.Rejected != nil || x.eval.IsNarrowed(n) || x.Opinions[n.Node.Name].Unresolvable {
		return rule.UnschedulableAndUnresolvable
	}
	switch v := x.eval.Verdict(n); {
	case v == placement.VerdictPass:
		return rule.Success
	case v == placement.VerdictExtender:
		return rule.Unschedulable
	case v < 0:
		return rule.UnschedulableAndUnresolvable
	default:
		return x.eval.Filters[v].Filter.Check(n)
	}
}

// promising returns the nodes where evictions could make the pod fit, in the order of the search: it starts at a
// node that the seed selects, so that limited searches of many pods do not all try the same nodes. A node on
// which the pod fits is an error of the caller. Source: framework/preemption findCandidates.
func (x *Search) promising() ([]*state.NodeInfo, error) {
	var nodes []*state.NodeInfo
	for _, n := range x.Candidates {
		switch code := x.code(n); {
		case code == rule.Success:
			return nil, x.ErrFits(n)
		case x.Opinions[n.Node.Name].Spares():
		case code == rule.Unschedulable || x.devicesHelp(n):
			nodes = append(nodes, n)
		}
	}
	if len(nodes) == 0 {
		return nil, nil
	}
	// The search is a circle, so that every node is tried in the end.
	first := int(x.Seed % uint64(len(nodes)))
	return slices.Concat(nodes[first:], nodes[:first]), nil
}

// ErrFits returns the error for a pod that fits on a node.
func (x *Search) ErrFits(n *state.NodeInfo) error {
	return &FitsError{Pod: x.Pod.Key(), Node: n.Node.Name}
}

// FitsError reports a preemption for a pod that does not need one.
type FitsError struct{ Pod, Node string }

// Error implements error.
func (e *FitsError) Error() string {
	return fmt.Sprintf("placement: preemption for pod %s, which fits on node %s: want one that fits nowhere",
		e.Pod, e.Node)
}

// search tries nodes until there are enough plans, at least one of which exceeds no budget. Until there is such a
// plan, further plans that exceed budgets are dropped once there are enough of them. Source: framework/preemption
// DryRunPreemption.
func (x *Search) search(nodes []*state.NodeInfo) (examined int) {
	enough, exceeding := x.Rules.Enough(len(nodes)), 0
	for _, n := range nodes {
		examined++
		plan, reasons, ok := x.OnNode(n)
		switch {
		case !ok:
			x.Refuse(reasons, 1)
		case plan.Cost.Violations == 0:
			x.offer(plan)
		case exceeding < enough:
			exceeding++
			x.offer(plan)
		}
		// At least one plan exceeds no budget.
		if x.Found > exceeding && x.Found >= enough {
			break
		}
	}
	return examined
}

// Refuse counts nodes that were tried without success.
func (x *Search) Refuse(reasons []string, nodes int32) {
	for _, reason := range reasons {
		x.Reasons[reason] += nodes
	}
}

// offer takes a plan into account: it becomes the best if it is better than the best so far.
func (x *Search) offer(plan Plan) {
	if x.Found == 0 || plan.before(&x.Best) {
		x.Best = plan
	}
	x.Found++
	if x.all != nil {
		*x.all = append(*x.all, plan)
	}
}

// OnNode searches for victims among the pods of one node; if there are none, it returns why. The reasons of a
// node on which only budgets prevent a plan differ from those of a node on which evictions do not help.
func (x *Search) OnNode(n *state.NodeInfo) (plan Plan, reasons []string, ok bool) {
	pods, kept := x.potentialVictims(n)
	if len(x.Opinions) > 0 && x.eval.Verdict(n) == placement.VerdictExtender {
		return Plan{}, x.refuseForExtenders(len(pods)+len(kept) == 0), false
	}
	switch {
	case len(pods)+len(kept) == 0:
		return Plan{}, ReasonNoVictims, false
	case len(pods) == 0:
		return Plan{}, reasonKept, false
	}
	a := &nodeTrial{WhatIf: x.What, search: x, target: n}
	if plan, ok = a.selectWithinBudgets(pods); ok {
		return plan, nil, true
	}
	if plan, ok = a.withKeeper(pods); ok {
		return plan, nil, true
	}
	reasons = a.reasons
	// With the protected pods gone as well the pod would fit: budgets are the obstacle.
	if len(kept) > 0 && a.selectVictims(slices.Concat(pods, kept)) {
		reasons = reasonKept
	}
	return Plan{}, reasons, false
}

// refuseForExtenders counts a node that extenders reject and the rules do not. The rules let the pod pass with
// all pods on the node, so no eviction there would change a known result. noVictimsHere reports that the node has
// no less important pods.
func (x *Search) refuseForExtenders(noVictimsHere bool) []string {
	x.rejectedByExtenders++
	if noVictimsHere {
		x.withoutVictims++
		return ReasonNoVictims
	}
	return reasonNotHelpful
}

// evictable reports whether a pod is unimportant enough to be a victim.
func (x *Search) evictable(p *state.Pod) bool {
	return p.Priority < x.Pod.Priority && !x.Protected[p.UID]
}

// potentialVictims returns the pods on a node that may be evicted, and those that only budgets protect.
func (x *Search) potentialVictims(n *state.NodeInfo) (pods, kept []placement.PlacedPod) {
	for p := range n.Pods() {
		switch {
		case !x.evictable(p):
		case x.budgetProtects(p):
			kept = append(kept, PlacedPodOf(n, p))
		default:
			pods = append(pods, PlacedPodOf(n, p))
		}
	}
	return pods, kept
}

// budgetProtects reports whether a budget protects a pod whichever other pods are evicted. The eviction API
// always refuses pods with more than one budget. A pod whose eviction can only be requested is not protected by a
// budget that has nothing left: the controller that answers the request makes it leave without a disruption. It
// records in Covered that budgets affected the result.
func (x *Search) budgetProtects(p *state.Pod) bool {
	if x.Budgets == nil || x.Rules.PDB != placement.PDBRespect || evictionIsFree(p) {
		return false
	}
	covering := len(x.Budgets.Covering(p))
	x.Covered = x.Covered || covering > 0
	if covering > 1 {
		return true
	}
	spent := func(i int) bool { return x.Budgets.all[i].Left <= 0 }
	return covering == 1 && slices.ContainsFunc(x.Budgets.charged(p), spent) && !p.EvictsByRequest()
}

// split sorts pods by how their eviction affects budgets; each group keeps the given order, the most important
// first. As upstream, the first pods are charged to a budget first; where budgets are respected, the last ones are,
// so that less important pods are evicted. Source: plugins/defaultpreemption filterPodsWithPDBViolation.
func (x *Search) split(pods []placement.PlacedPod) (exceeding, others, leaving []placement.PlacedPod) {
	exceeds, left := make([]bool, len(pods)), x.left()
	leaves := func(s placement.PlacedPod) bool { return s.Pod.Deleting && !x.Rules.ChargeLeaving }
	for i := range pods {
		if x.Rules.PDB == placement.PDBRespect {
			i = len(pods) - 1 - i
		}
		exceeds[i] = !leaves(pods[i]) && !x.charge(left, pods[i].Pod)
	}
	for i, s := range pods {
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

// ration returns as many of the pods as the budgets allow, the least important ones, and all whose eviction can only
// be requested; pods is not changed.
func (x *Search) ration(pods []placement.PlacedPod) []placement.PlacedPod {
	left := x.left()
	var allowed []placement.PlacedPod
	sorted := slices.SortedFunc(slices.Values(pods), ByImportance)
	for _, s := range slices.Backward(sorted) {
		if x.charge(left, s.Pod) || x.unlimited(s.Pod) {
			allowed = append(allowed, s)
		}
	}
	return allowed
}

// unlimited reports whether a pod is a victim whatever its only budget has left; see budgetProtects.
func (x *Search) unlimited(p *state.Pod) bool {
	return len(x.Budgets.Covering(p)) < 2 && p.EvictsByRequest()
}

// left returns how many disruptions each budget allows, for a count that changes it; nil without budgets.
func (x *Search) left() []int32 {
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
func (x *Search) charge(left []int32, p *state.Pod) bool {
	enough := true
	for _, i := range x.counted(p) {
		left[i]--
		enough = enough && left[i] >= 0
	}
	return enough
}

// counted returns the budgets that a pod counts in: those that its eviction is charged to or, as in kube-scheduler,
// all that cover it and have not counted it yet.
func (x *Search) counted(p *state.Pod) []int {
	if x.Budgets == nil {
		return nil
	}
	if x.Rules.PDB == placement.PDBRespect {
		return x.Budgets.charged(p)
	}
	covering := x.Budgets.Covering(p)
	x.Covered = x.Covered || len(covering) > 0
	return slices.DeleteFunc(covering, func(i int) bool {
		_, counted := x.Budgets.all[i].disrupted[p.Name]
		return counted
	})
}
