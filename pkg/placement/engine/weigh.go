package engine

import (
	"maps"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/internal/fit"
	"github.com/berth-scheduler/berth/pkg/placement/internal/nodes"
	"github.com/berth-scheduler/berth/pkg/placement/internal/podaffinity"
	"github.com/berth-scheduler/berth/pkg/placement/internal/spread"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// This file explains a decision of the engine: how many points each rule gave the best nodes, and how many nodes
// each rule rejected. It is for records, and adds a fraction of a microsecond to a decision that requests it,
// because all of the data is already available.

// stage identifies where the points of one rule come from.
type stage struct {
	source source
	// index is the index among the gauges, or among the rankers.
	index int
}

// stages holds the scorers in the order of the profile, and their names.
type stages struct {
	list  []stage
	names []string
}

type source uint8

const (
	fromFit source = iota
	fromBalance
	fromImage
	fromGauge
	fromRanker
)

// addStage is called before addScorer, with the number of gauges so far.
func (p *plan) addStage(gauges int, s placement.ActiveScorer) {
	at := stage{}
	switch s.Scorer.(type) {
	case fit.Scorer:
		at.source = fromFit
	case fit.BalanceScorer:
		at.source = fromBalance
	case nodes.ImageScorer:
		at.source = fromImage
	case nodes.TaintScorer, nodes.AffinityScorer:
		at.source, at.index = fromGauge, gauges
	case *spread.Scorer, *podaffinity.Scorer:
		at.source = fromRanker
		for _, before := range p.stages.list {
			if before.source == fromRanker {
				at.index++
			}
		}
	default:
		return // the class is decided from scratch
	}
	p.stages.list, p.stages.names = append(p.stages.list, at), append(p.stages.names, s.Plugin)
}

// weighing is scratch: the answer to the last query that requested it.
type weighing struct {
	points   [][]int64
	cells    []int64
	rejected []placement.RejectedBy
	// before holds, per step of rate (gauges, then rankers), the sum of each listed group before that step; steps
	// is the number of steps.
	before [][]int64
	steps  int
	// compared reports that nodes were rated.
	compared bool
}

// begin starts over.
func (w *weighing) begin() { w.steps, w.compared = 0, false }

// mark records the sums of the groups so far.
func (w *weighing) mark(sums []int64) {
	if w.steps == len(w.before) {
		w.before = append(w.before, nil)
	}
	w.before[w.steps] = append(w.before[w.steps][:0], sums...)
	w.steps++
}

// gained returns the points that a step added to a listed group.
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

// weigh fills in Result.Weighed and Result.Rejected.
func (e *Engine) weigh(c *class, q Query, result *placement.Result) {
	if q.Weigh <= 0 {
		return
	}
	result.Rejected = e.rejected(c, result)
	if !e.rating.weighed.compared {
		return // only one node, which is not scored
	}
	w := &e.rating.weighed
	w.points, w.cells = w.points[:0], w.cells[:0]
	best := e.board.list[:min(q.Weigh, len(e.board.list))]
	w.cells = slices.Grow(w.cells, len(best)*len(c.plan.stages.list))
	for i := range best {
		from := len(w.cells)
		w.cells = e.appendPoints(w.cells, c, best[i].Index)
		w.points = append(w.points, w.cells[from:len(w.cells):len(w.cells)])
	}
	result.Weighed = placement.Weighed{Plugins: c.plan.stages.names, Points: w.points}
}

// appendPoints appends what each stage added for the node of a slot.
func (e *Engine) appendPoints(to []int64, c *class, slot int) []int64 {
	var room [fit.UsualDemands]fit.Share
	entry := slices.Index(e.rating.groups, c.group[slot])
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
		case fromGauge:
			points = e.rating.weighed.gained(s.index, entry, e.rating.sums)
		case fromRanker:
			points = e.rating.weighed.gained(len(c.gauges)+s.index, entry, e.rating.sums)
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
	for _, j := range c.plan.judges {
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

// classID returns Result.Class: a hash of everything that distinguishes pods, without any value specific to this
// process.
func classID(key classKey, pod *state.Pod) uint64 {
	d := xxhash.New()
	part := func(text string) {
		_, _ = d.WriteString(text) // a hash never fails
		_, _ = d.WriteString("\x00")
	}
	part(key.profile.SchedulerName())
	part(key.shape)
	part(pod.Namespace)
	for _, name := range slices.Sorted(maps.Keys(pod.Template.Labels)) {
		part(name)
		part(pod.Template.Labels[name])
	}
	if a := pod.Template.Spec.Affinity; a != nil && a.PodAffinity != nil {
		part(rule.BytesOf(pod, a.PodAffinity))
	}
	if a := pod.Template.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		part(rule.BytesOf(pod, a.PodAntiAffinity))
	}
	return max(d.Sum64(), 1) // 0 means unknown
}
