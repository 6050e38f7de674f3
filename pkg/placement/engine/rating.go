package engine

import (
	"slices"

	"github.com/berth-scheduler/berth/pkg/placement"
)

// rating is one evaluation of the groups of a class: which are feasible, and the points of their nodes. It is
// scratch.
type rating struct {
	// feasible lists the groups that have nodes to choose from and pass all rules.
	feasible groupList
	// points are by group plus one, infeasible for groups that are not feasible. So there is an entry for
	// noGroup, and shortlist.scan has one condition less to check.
	points []int32
	// total is the number of nodes of the feasible groups.
	total int
	// weighed records how the points were composed, if that is requested.
	weighed weighing
}

// list finds the feasible groups. counts holds how many nodes each has: all members, or those of a sample.
func (r *rating) list(c *class, counts []int32) {
	r.feasible.ids = r.feasible.ids[:0]
	r.feasible.nodes = r.feasible.nodes[:0]
	r.total = 0
	r.points = slices.Grow(r.points[:0], len(counts)+1)[:len(counts)+1]
	r.points[0] = infeasible
	for g, n := range counts {
		r.points[g+1] = infeasible
		// A group without nodes to choose from must not influence the scale of scores.
		if n == 0 || !c.crossNode.passes(c.groups.row(g)[maxScaledScores:]) {
			continue
		}
		r.points[g+1] = 0
		r.feasible.ids = append(r.feasible.ids, int32(g))
		r.feasible.nodes = append(r.feasible.nodes, n)
		r.total += int(n)
	}
	if c.crossNode.active {
		c.plan.recordGroupChecks(len(counts))
	}
}

// rate computes the points of the listed groups; weigh records what each step adds. Steps are in the order of the
// scaled scores and then of the scorers beyond one node; the sum does not depend on it.
func (r *rating) rate(c *class, weigh bool) {
	marks := &r.weighed
	marks.compared = weigh
	r.feasible.sums = slices.Grow(r.feasible.sums[:0], len(r.feasible.ids))[:len(r.feasible.ids)]
	r.feasible.raw = slices.Grow(r.feasible.raw[:0], len(r.feasible.ids))[:len(r.feasible.ids)]
	clear(r.feasible.sums)
	for i := range c.scaled {
		if weigh {
			marks.mark(r.feasible.sums)
		}
		// The scale is the largest raw score among the feasible nodes.
		var top int64
		for _, g := range r.feasible.ids {
			top = max(top, c.groups.row(int(g))[i])
		}
		for j, g := range r.feasible.ids {
			r.feasible.sums[j] += c.scaled[i].points(c.groups.row(int(g))[i], top)
		}
		c.plan.recordScores(fromScaled, i, len(r.feasible.ids))
	}
	if c.crossNode.active {
		for i, scorer := range c.crossNode.scorers {
			if weigh {
				marks.mark(r.feasible.sums)
			}
			scorer.rate(c.crossNode, &c.groups, &r.feasible)
			c.plan.recordScores(fromTally, i, len(r.feasible.ids))
		}
	}
	for j, g := range r.feasible.ids {
		r.points[g+1] = int32(r.feasible.sums[j])
	}
}

// weighing is scratch: how the points of the last query that requested it were composed.
type weighing struct {
	// points, cells and rejected back the slices of Result.Weighed and Result.Rejected.
	points   [][]int64
	cells    []int64
	rejected []placement.RejectedBy
	// before holds, per step of rate (scaled scores, then scorers beyond one node), the sum of each listed group
	// before that step; steps is the number of steps.
	before [][]int64
	steps  int
	// compared reports that nodes were rated.
	compared bool
}

// begin starts a new record.
func (w *weighing) begin() { w.steps, w.compared = 0, false }

// mark records the sums of the groups so far. A step added the difference of the marks before and after it.
func (w *weighing) mark(sums []int64) {
	if w.steps == len(w.before) {
		w.before = append(w.before, nil)
	}
	w.before[w.steps] = append(w.before[w.steps][:0], sums...)
	w.steps++
}

// gained returns the points that a step added to a listed group. sums are the final ones, which end the last
// step.
func (w *weighing) gained(step, entry int, sums []int64) int64 {
	switch {
	case step >= w.steps:
		return 0 // the rule had nothing to compare
	case step+1 == w.steps:
		return sums[entry] - w.before[step][entry]
	default:
		return w.before[step+1][entry] - w.before[step][entry]
	}
}
