package preempt

import (
	"cmp"
	"slices"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/devices"
	"github.com/berth-scheduler/berth/pkg/placement/internal/podaffinity"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Plan is a set of victims that lets the pod fit on one node. It is valid for the state of the cluster that it
// was found in.
type Plan struct {
	node    *state.NodeInfo
	victims []placement.PlacedPod // by importance
	Cost    Cost
	// tie orders plans of equal cost, the highest first; see placement.TieBreak.
	tie uint64
	// doubted: see Candidate.
	doubted bool
}

// before reports whether plan p is better than q: a plan that no extender doubts, then the cheaper one, then ties
// as in the ranking.
func (p *Plan) before(q *Plan) bool {
	if p.doubted != q.doubted {
		return q.doubted
	}
	return cmp.Or(
		p.Cost.Compare(q.Cost),
		cmp.Compare(q.tie, p.tie),
		cmp.Compare(p.node.Node.UID, q.node.Node.UID),
	) < 0
}

// nodeTrial is a search for victims that let the pod fit on one node. Its view of the cluster is in the WhatIf,
// which it resets after each try.
type nodeTrial struct {
	*placement.WhatIf
	search *Search
	target *state.NodeInfo
	// victims are those of the last try, the most important first.
	victims []placement.PlacedPod
	// violations is the number of victims that exceed budgets as kube-scheduler counts them.
	violations int
	// failed is the filter that rejected the node when all pods were removed, and reasons are its reasons.
	failed  int16
	reasons []string
}

// selectVictims searches for the fewest of the pods that have to be evicted. Source: plugins/defaultpreemption
// SelectVictimsOnNode: all are removed, and then put back if the pod still fits, first those whose eviction
// exceeds a budget, and the more important before the less important. Pods that are terminating anyway come last,
// unless the profile charges for them. It is greedy: it does not look for the smallest set of victims.
func (a *nodeTrial) selectVictims(pods []placement.PlacedPod) bool {
	for _, s := range pods {
		a.Remove(s)
	}
	defer a.Reset()
	if a.failed = a.Check(a.target); a.failed != placement.VerdictPass {
		a.reasons = a.Filters[a.failed].Filter.Explain(a.At(a.target))
		return false
	}
	pods = slices.Clone(pods)
	slices.SortFunc(pods, ByImportance)
	exceeding, others, leaving := a.search.split(pods)
	a.victims = a.victims[:0]
	a.violations = a.reprieve(exceeding)
	a.reprieve(others)
	a.reprieve(leaving)
	slices.SortFunc(a.victims, ByImportance)
	return len(a.victims) > 0
}

// reprieve puts pods back for as long as the pod fits, and returns how many it could not put back.
func (a *nodeTrial) reprieve(pods []placement.PlacedPod) (lost int) {
	for _, s := range pods {
		a.Restore(s)
		if a.Check(a.target) != placement.VerdictPass {
			a.Remove(s)
			a.victims = append(a.victims, s)
			lost++
		}
	}
	return lost
}

// found returns the plan after selectVictims has found victims.
func (a *nodeTrial) found() Plan {
	return Plan{
		node: a.target, victims: slices.Clone(a.victims),
		Cost: CostOf(a.victims, a.violations, a.search.Rules.ChargeLeaving),
		tie:  placement.TieBreak(a.search.Seed, a.target.Node.UIDHash),
	}
}

// selectWithinBudgets is selectVictims within the budgets. If the victims exceed a budget, it tries again with
// only as many of its pods as it has left, the least important ones. Where budgets are not respected, violations
// only count in the cost.
func (a *nodeTrial) selectWithinBudgets(pods []placement.PlacedPod) (Plan, bool) {
	if !a.selectVictims(pods) {
		return Plan{}, false
	}
	if a.search.Rules.PDB == placement.PDBRespect {
		a.violations = 0
		if rationed := a.search.ration(a.victims); len(rationed) < len(a.victims) && !a.selectVictims(a.search.ration(pods)) {
			a.reasons = reasonKept
			return Plan{}, false
		}
		a.violations = 0
	}
	return a.found(), true
}

// withKeeper tries again when the pod's required affinity needs one of the pods that would be evicted: it keeps one
// of them, then another. It tries the most important first, and among equally important ones the one with the
// smallest requests.
func (a *nodeTrial) withKeeper(pods []placement.PlacedPod) (best Plan, ok bool) {
	f := a.Affinity()
	if a.search.Rules.NoKeepers || f == nil || len(f.Affinity) == 0 || a.failed < 0 ||
		a.Filters[a.failed].Filter != rule.Filter(f) {
		return Plan{}, false
	}
	var keepers []placement.PlacedPod
	for _, s := range pods {
		if podaffinity.MatchesAll(f.Affinity, s.Pod) {
			keepers = append(keepers, s)
		}
	}
	slices.SortFunc(keepers, func(x, y placement.PlacedPod) int {
		return cmp.Or(
			cmp.Compare(y.Pod.Priority, x.Pod.Priority),
			cmp.Compare(x.Pod.Requests.MilliCPU, y.Pod.Requests.MilliCPU),
			cmp.Compare(x.Pod.Requests.Memory, y.Pod.Requests.Memory),
			ByImportance(x, y),
		)
	})
	reasons := a.reasons
	for _, k := range keepers[:min(len(keepers), a.search.Rules.KeeperChoices)] {
		others := slices.DeleteFunc(slices.Clone(pods), func(s placement.PlacedPod) bool { return s.Pod == k.Pod })
		if found, fits := a.selectWithinBudgets(others); fits && (!ok || found.before(&best)) {
			best, ok = found, true
		}
	}
	if len(keepers) > 0 && !ok {
		a.search.needed = keepers[0]
	}
	a.reasons = reasons
	return best, ok
}

// devicesHelp reports whether, as far as the rules show, a node lacks only devices, and less important pods on it
// hold devices. Upstream considers preemption useless on such a node.
func (x *Search) devicesHelp(n *state.NodeInfo) bool {
	if x.Rules.KeepDevices || x.eval.Rejected != nil || x.eval.IsNarrowed(n) {
		return false
	}
	v := x.eval.Verdict(n)
	if v < 0 {
		return false
	}
	d, ok := x.eval.Filters[v].Filter.(*devices.Demand)
	if !ok || d.Judge(n.Node).Why != devices.CannotAllocate {
		return false
	}
	for p := range n.Pods() {
		if x.evictable(p) && p.Template != nil && rule.HasDeviceClaims(&p.Template.Spec) {
			return true
		}
	}
	return false
}
