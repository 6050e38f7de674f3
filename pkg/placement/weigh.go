package placement

import (
	"maps"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/berth-scheduler/berth/pkg/state"
)

// What the engine has to say about a decision beyond the decision: which rule gave the best
// nodes which points, and which rule turned down how many nodes. It is for records, and costs
// a decision that asks for it a fraction of a microsecond, because all of it is at hand.

// stage is where the points of one rule come from.
type stage struct {
	source source
	// index among the gauges, or among the rankers.
	index int
}

// stages are the scorers in the order of the profile, and their names.
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
func (p *plan) addStage(gauges int, s activeScorer) {
	at := stage{}
	switch s.scorer.(type) {
	case fitScorer:
		at.source = fromFit
	case balanceScorer:
		at.source = fromBalance
	case imageScorer:
		at.source = fromImage
	case taintScorer, affinityScorer:
		at.source, at.index = fromGauge, gauges
	case *spreadScorer, *podAffinityScorer:
		at.source = fromRanker
		for _, before := range p.stages.list {
			if before.source == fromRanker {
				at.index++
			}
		}
	default:
		return // the class is decided from scratch
	}
	p.stages.list, p.stages.names = append(p.stages.list, at), append(p.stages.names, s.plugin)
}

// weighing is scratch: the answer to the last query that asked for it.
type weighing struct {
	points   [][]int64
	cells    []int64
	rejected []RejectedBy
	// before is, per step of rate (gauges, then rankers), what each listed group had got until
	// then; steps counts them.
	before [][]int64
	steps  int
	// compared: nodes were rated.
	compared bool
}

// begin starts over.
func (w *weighing) begin() { w.steps, w.compared = 0, false }

// mark keeps what the groups have got so far.
func (w *weighing) mark(sums []int64) {
	if w.steps == len(w.before) {
		w.before = append(w.before, nil)
	}
	w.before[w.steps] = append(w.before[w.steps][:0], sums...)
	w.steps++
}

// gained is what a step gave to a listed group.
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
func (e *Engine) weigh(c *class, q Query, result *Result) {
	if q.Weigh <= 0 {
		return
	}
	result.Rejected = e.rejected(c, result)
	if !e.rating.weighed.compared {
		return // one node, which is not scored
	}
	w := &e.rating.weighed
	w.points, w.cells = w.points[:0], w.cells[:0]
	best := e.board.list[:min(q.Weigh, len(e.board.list))]
	w.cells = slices.Grow(w.cells, len(best)*len(c.plan.stages.list))
	for i := range best {
		from := len(w.cells)
		w.cells = e.appendPoints(w.cells, c, best[i].index)
		w.points = append(w.points, w.cells[from:len(w.cells):len(w.cells)])
	}
	result.Weighed = Weighed{Plugins: c.plan.stages.names, Points: w.points}
}

// appendPoints appends what each stage gave to the node of a slot.
func (e *Engine) appendPoints(to []int64, c *class, slot int) []int64 {
	var room [usualDemands]share
	entry := slices.Index(e.rating.groups, c.group[slot])
	usage, r := &c.plan.usage, &e.resources
	for _, s := range c.plan.stages.list {
		var points int64
		switch s.source {
		case fromFit:
			points = usage.fitWeight * usage.fitScorer.score(usage.fit.read(room[:0], r, slot))
		case fromBalance:
			points = usage.balanceWeight * usage.balanceScorer.score(usage.balance.read(room[:0], r, slot))
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

// rejected counts nodes by the rule that said no first. Which of the rules beyond one node it
// was is not kept: their share is what is missing from the total.
func (e *Engine) rejected(c *class, result *Result) []RejectedBy {
	list := e.rating.weighed.rejected[:0]
	beyond := int32(result.NodesTotal-result.FeasibleCount) - c.narrowed
	if c.narrowed > 0 {
		list = append(list, RejectedBy{strings.Join(c.plan.onlyBy, ","), c.narrowed})
	}
	for i, nodes := range c.refused {
		if nodes == 0 {
			continue
		}
		beyond -= nodes
		list = append(list, RejectedBy{c.plan.filters[i].plugin, nodes})
	}
	var names []string
	for _, j := range c.plan.judges {
		names = append(names, c.plan.filters[j].plugin)
	}
	if e.late != nil {
		names = append(names, DynamicResources)
	}
	if beyond > 0 && len(names) > 0 && result.Examined+int(c.narrowed) == result.NodesTotal {
		list = append(list, RejectedBy{strings.Join(names, ","), beyond})
	}
	e.rating.weighed.rejected = list
	return list
}

// classID is Result.Class: a hash of all that tells pods apart, with nothing in it that is
// this process's own.
func classID(key classKey, pod *state.Pod) uint64 {
	d := xxhash.New()
	part := func(text string) {
		_, _ = d.WriteString(text) // a hash never fails
		_, _ = d.WriteString("\x00")
	}
	part(key.profile.schedulerName)
	part(key.shape)
	part(pod.Namespace)
	for _, name := range slices.Sorted(maps.Keys(pod.Template.Labels)) {
		part(name)
		part(pod.Template.Labels[name])
	}
	if a := pod.Template.Spec.Affinity; a != nil && a.PodAffinity != nil {
		part(bytesOf(pod, a.PodAffinity))
	}
	if a := pod.Template.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		part(bytesOf(pod, a.PodAntiAffinity))
	}
	return max(d.Sum64(), 1) // 0 is not known
}

// weigh fills in Result.Weighed of a decision from scratch.
func (e *evaluation) weigh(order []candidate) {
	if e.Weigh <= 0 || e.columns == nil {
		return
	}
	w := &e.result.Weighed
	for i := range e.scorers {
		w.Plugins = append(w.Plugins, e.scorers[i].plugin)
	}
	for _, c := range order[:min(e.Weigh, len(order))] {
		points := make([]int64, len(e.scorers))
		for i := range e.scorers {
			points[i] = e.scorers[i].weight * e.columns[i][c.index]
		}
		w.Points = append(w.Points, points)
	}
}
