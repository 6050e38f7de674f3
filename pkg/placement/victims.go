package placement

import (
	"cmp"
	"slices"

	"github.com/berth-scheduler/berth/pkg/state"
)

// plan is a way to make room on one node.
type room struct {
	node    *state.NodeInfo
	victims []seat // by importance
	cost    Cost
	tie     uint64
	// doubted: see Candidate.
	doubted bool
}

// before tells whether a plan is the better one: one that nobody doubts, then the cheaper, then as ranking breaks
// ties.
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

// attempt is a search for victims that make room on one node. What it needs of the cluster
// stands in the whatIf.
type attempt struct {
	*whatIf
	search  *preemption
	target  *state.NodeInfo
	victims []seat
	// violations is how many of the victims exceed budgets as kube-scheduler counts them.
	violations int
	// failed is what said no when all seats were gone.
	failed  int16
	reasons []string
}

// take looks for the fewest of the seats that have to go. Source: plugins/defaultpreemption
// SelectVictimsOnNode: all go, and then come back if the pod still fits, those whose going
// exceeds a budget first, the more important before the less important. Those that leave
// anyway come last, unless the profile charges for them.
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

// reprieve brings pods back as long as the pod fits, and returns how many it could not.
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

// found is the plan, given that take has found victims.
func (a *attempt) found() room {
	return room{
		node: a.target, victims: slices.Clone(a.victims),
		cost: costOf(a.victims, a.violations, a.search.rules.ChargeLeaving),
		tie:  tieBreak(a.search.Seed, a.target.Node.UIDHash),
	}
}

// makeRoom is take within the budgets. If the victims exceed one, it tries again with as many
// of its pods as it has left, the least important.
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

// withKeeper tries again when the pod's required affinity needs one of those that would go:
// it keeps one of them, and then another. The most important comes first, of these the one
// that takes the least.
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
