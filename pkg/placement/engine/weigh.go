package engine

import (
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/internal/fit"
	"github.com/berth-scheduler/berth/pkg/placement/names"
)

// This file explains a decision of the engine: how many points each rule gave the best nodes, and how many nodes
// each rule rejected. It is for records, and adds a fraction of a microsecond to a decision that requests it,
// because all of the data is already available.

// weigh fills in Result.Weighed, for limit of the best nodes, and Result.Rejected; nothing if limit is 0.
func (e *Engine) weigh(c *class, limit int, result *placement.Result) {
	if limit <= 0 {
		return
	}
	result.Rejected = e.rejected(c, result)
	if !e.rating.weighed.compared {
		return // only one node, which is not scored
	}
	w := &e.rating.weighed
	w.points, w.cells = w.points[:0], w.cells[:0]
	best := e.shortlist.list[:min(limit, len(e.shortlist.list))]
	w.cells = slices.Grow(w.cells, len(best)*len(c.plan.stages.list))
	for i := range best {
		from := len(w.cells)
		w.cells = e.appendPoints(w.cells, c, best[i].Index)
		w.points = append(w.points, w.cells[from:len(w.cells):len(w.cells)])
	}
	result.Weighed = placement.Weighed{Plugins: c.plan.stages.names, Points: w.points}
}

// appendPoints appends what each stage added for the node of a slot. Points of the usage scores are computed
// again, because the cell only holds their sum.
func (e *Engine) appendPoints(to []int64, c *class, slot int) []int64 {
	var room [fit.UsualDemands]fit.Share
	entry := slices.Index(e.rating.feasible.ids, c.group[slot])
	usage, r := &c.plan.usage, &e.columns.Resources
	for _, s := range c.plan.stages.list {
		var points int64
		switch s.source {
		case fromFit:
			points = usage.fitWeight * usage.fitScorer.OfShares(usage.fit.read(room[:0], r, slot))
		case fromBalance:
			points = usage.balanceWeight * usage.balanceScorer.OfShares(usage.balance.read(room[:0], r, slot))
		case fromImage:
			points = int64(c.bonus.points(c.plan.image, c.cells[slot].held))
		case fromScaled:
			points = e.rating.weighed.gained(s.index, entry, e.rating.feasible.sums)
		case fromTally:
			points = e.rating.weighed.gained(len(c.scaled)+s.index, entry, e.rating.feasible.sums)
		}
		to = append(to, points)
	}
	return to
}

// rejected counts nodes by the first rule that rejected them. Which of the rules beyond one node it was is not
// recorded: their share is the remainder of the total.
func (e *Engine) rejected(c *class, result *placement.Result) []placement.RejectedBy {
	list := e.rating.weighed.rejected[:0]
	beyond := int32(result.NodesTotal-result.FeasibleCount) - c.narrowed
	if c.narrowed > 0 {
		list = append(list, placement.RejectedBy{Plugin: strings.Join(c.plan.onlyBy, ","), Nodes: c.narrowed})
	}
	for i, nodes := range c.refused {
		if nodes == 0 {
			continue
		}
		beyond -= nodes
		list = append(list, placement.RejectedBy{Plugin: c.plan.filters[i].Plugin, Nodes: nodes})
	}
	var together []string
	for _, j := range c.plan.crossNode {
		together = append(together, c.plan.filters[j].Plugin)
	}
	if e.late != nil {
		together = append(together, names.DynamicResources)
	}
	if beyond > 0 && len(together) > 0 && result.Examined+int(c.narrowed) == result.NodesTotal {
		list = append(list, placement.RejectedBy{Plugin: strings.Join(together, ","), Nodes: beyond})
	}
	e.rating.weighed.rejected = list
	return list
}
