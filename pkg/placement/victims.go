package placement

import (
	"cmp"
	"slices"

	"github.com/berth-scheduler/berth/pkg/state"
)

// room is a plan to make room on one node.
type room struct {
	node    *state.NodeInfo
	victims []seat // by importance
	cost    Cost
	tie     uint64
	// doubted: see Candidate.
	doubted bool
}

// before reports whether plan p is better than q: a plan that no extender doubts, then the cheaper one, then ties
// as in the ranking.
func (p *room) before(q *room) bool {
	if p.doubted != q.doubted {
		return q.doubted
	}
	return cmp.Or(
		p.cost.Compare(q.cost),
		cmp.Compare(q.tie, p.tie),
		cmp.Compare(p.node.Node.UID, q.node.Node.UID),
	) < 0
}

// attempt is a search for victims that make room on one node. Its view of the cluster is in the whatIf.
type attempt struct {
	*whatIf
	search  *preemption
	target  *state.NodeInfo
	victims []seat
	// violations is the number of victims that exceed budgets as kube-scheduler counts them.
	violations int
	// failed is the filter that rejected the node when all seats were removed.
	failed  int16
	reasons []string
}

// take searches for the fewest of the seats that have to be evicted. Source: plugins/defaultpreemption
// SelectVictimsOnNode: all are removed, and then put back if the pod still fits, first those whose eviction exceeds
// a budget, and the more important before the less important. Pods that are terminating anyway come last, unless
// the profile charges for them.
func (a *attempt) take(seats []seat) bool {
	for _, s := range seats {
		a.remove(s)
	}
	defer a.reset()
	if a.failed = a.check(a.target); a.failed != verdictPass {
		a.reasons = a.filters[a.failed].filter.Explain(a.at(a.target))
		return false
	}
	seats = slices.Clone(seats)
	slices.SortFunc(seats, byImportance)
	exceeding, others, leaving := a.search.split(seats)
	a.victims = a.victims[:0]
	a.violations = a.reprieve(exceeding)
	a.reprieve(others)
	a.reprieve(leaving)
	slices.SortFunc(a.victims, byImportance)
	return len(a.victims) > 0
}

// reprieve puts pods back for as long as the pod fits, and returns how many it could not.
func (a *attempt) reprieve(seats []seat) (lost int) {
	for _, s := range seats {
		a.restore(s)
		if a.check(a.target) != verdictPass {
			a.remove(s)
			a.victims = append(a.victims, s)
			lost++
		}
	}
	return lost
}

// found returns the plan after take has found victims.
func (a *attempt) found() room {
	return room{
		node: a.target, victims: slices.Clone(a.victims),
		cost: costOf(a.victims, a.violations, a.search.rules.ChargeLeaving),
		tie:  tieBreak(a.search.Seed, a.target.Node.UIDHash),
	}
}

// makeRoom is take within the budgets. If the victims exceed a budget, it tries again with only as many of its pods
// as it has left, the least important ones.
func (a *attempt) makeRoom(seats []seat) (room, bool) {
	if !a.take(seats) {
		return room{}, false
	}
	if a.search.rules.PDB == PDBRespect {
		a.violations = 0
		if rationed := a.search.ration(a.victims); len(rationed) < len(a.victims) && !a.take(a.search.ration(seats)) {
			a.reasons = reasonKept
			return room{}, false
		}
		a.violations = 0
	}
	return a.found(), true
}

// withKeeper tries again when the pod's required affinity needs one of the pods that would be evicted: it keeps one
// of them, then another. It tries the most important first, and among equally important ones the one with the
// smallest requests.
func (a *attempt) withKeeper(seats []seat) (best room, ok bool) {
	f := a.affinity()
	if a.search.rules.NoKeepers || f == nil || len(f.affinity) == 0 || a.failed < 0 ||
		a.filters[a.failed].filter != Filter(f) {
		return room{}, false
	}
	var keepers []seat
	for _, s := range seats {
		if matchesAll(f.affinity, s.pod) {
			keepers = append(keepers, s)
		}
	}
	slices.SortFunc(keepers, func(x, y seat) int {
		return cmp.Or(
			cmp.Compare(y.pod.Priority, x.pod.Priority),
			cmp.Compare(x.pod.Requests.MilliCPU, y.pod.Requests.MilliCPU),
			cmp.Compare(x.pod.Requests.Memory, y.pod.Requests.Memory),
			byImportance(x, y),
		)
	})
	reasons := a.reasons
	for _, k := range keepers[:min(len(keepers), a.search.rules.KeeperChoices)] {
		others := slices.DeleteFunc(slices.Clone(seats), func(s seat) bool { return s.pod == k.pod })
		if found, fits := a.makeRoom(others); fits && (!ok || found.before(&best)) {
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
func (x *preemption) devicesHelp(n *state.NodeInfo) bool {
	if x.rules.KeepDevices || x.eval.rejected != nil || x.eval.isNarrowed(n) {
		return false
	}
	v := x.eval.verdict(n)
	if v < 0 {
		return false
	}
	d, ok := x.eval.filters[v].filter.(*deviceDemand)
	if !ok || d.judge(n.Node).why != cannotAllocate {
		return false
	}
	for p := range n.Pods() {
		if x.mayGo(p) && p.Template != nil && hasDeviceClaims(&p.Template.Spec) {
			return true
		}
	}
	return false
}
