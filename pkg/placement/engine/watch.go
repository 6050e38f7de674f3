package engine

import (
	"maps"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
)

// Extension points at which an Engine (at PostFilter: a shard) counts and times rules, with upstream's names
// (pkg/scheduler/metrics/metrics.go).
const (
	PointPreFilter  = "PreFilter"
	PointFilter     = "Filter"
	PointPostFilter = "PostFilter"
	PointPreScore   = "PreScore"
	PointScore      = "Score"
)

// maxTimed bounds the calls of rules that are timed in one evaluation: the first evaluation of a class calls every
// rule for every node, and timing all of these calls would take longer than the calls.
const maxTimed = 100

// Laps is notified of each completed part of an evaluation, so that the caller can time the parts: an engine has no
// clock. It is called during the evaluation and must be fast.
type Laps interface {
	// Begin starts the first part of an evaluation under a profile.
	Begin(profile string)
	// Lap ends a part that started where the last one ended: one call of a rule for one node (for a group of like
	// nodes, at PointScore), or, with plugin empty, a whole extension point.
	Lap(point, plugin string, code rule.Code)
}

// Asked identifies a counter of calls of a rule.
type Asked struct{ Profile, Plugin, Point string }

// watch counts the calls of rules, and forwards the laps of the current query.
type watch struct {
	laps Laps // nil: timing is not requested
	// rules is how many more calls of rules will be timed, in addition to whole extension points.
	rules int
	asked map[Asked]*uint64
}

// Asked visits how often each rule has been called since the last visit: for a pod (PreFilter, PreScore), or for
// one node or one group of like nodes. An engine caches the results of rules, so the numbers grow with what
// changed, not with nodes times pods.
func (e *Engine) Asked(visit func(a Asked, calls uint64)) {
	for a, calls := range maps.All(e.watch.asked) {
		if *calls > 0 {
			visit(a, *calls)
			*calls = 0
		}
	}
}

// counter returns the counter of a rule at a point. Its address does not change.
func (w *watch) counter(a Asked) *uint64 {
	if w.asked == nil {
		w.asked = map[Asked]*uint64{}
	}
	if w.asked[a] == nil {
		w.asked[a] = new(uint64)
	}
	return w.asked[a]
}

// rule ends the part of one rule.
func (w *watch) rule(point, plugin string, code rule.Code) {
	if w.rules > 0 {
		w.rules--
		w.laps.Lap(point, plugin, code)
	}
}

// point ends the part of an extension point.
func (w *watch) point(point string, code rule.Code) {
	if w.laps != nil {
		w.laps.Lap(point, "", code)
	}
}

// begin starts a query.
func (w *watch) begin(p *placement.Profile, q Query) {
	w.laps, w.rules = q.Laps, 0
	if w.laps != nil && q.TimeRules {
		w.rules = maxTimed
	}
	if w.laps != nil {
		w.laps.Begin(p.SchedulerName())
	}
}

// rest ends a query: other uses of the engine are not timed.
func (w *watch) rest() { w.laps, w.rules = nil, 0 }

// begins returns the result of the rules that evaluate only the pod.
func (p *plan) begins() rule.Code {
	if p.rejected != nil {
		return rule.UnschedulableAndUnresolvable
	}
	return rule.Success
}

// found returns the result of an extension point.
func found(feasible int) rule.Code {
	if feasible == 0 {
		return rule.Unschedulable
	}
	return rule.Success
}

// watched is the plan's part of it: a counter per filter, and one per stage of scoring.
type watched struct {
	watch          *watch
	filters, score []*uint64
}

// account creates the counters of a new plan's rules, each of which has been called for the pod.
func (p *plan) account(e *Engine, profile *placement.Profile) {
	p.watched = watched{watch: &e.watch}
	open := func(plugin, before, point string) *uint64 {
		*e.watch.counter(Asked{profile.SchedulerName(), plugin, before})++
		e.watch.rule(before, plugin, rule.Success)
		return e.watch.counter(Asked{profile.SchedulerName(), plugin, point})
	}
	for _, f := range p.filters {
		p.watched.filters = append(p.watched.filters, open(f.Plugin, PointPreFilter, PointFilter))
	}
	for _, plugin := range p.stages.names {
		p.watched.score = append(p.watched.score, open(plugin, PointPreScore, PointScore))
	}
}

// check counts a call of a filter for a node and returns its code.
func (p *plan) check(index int16, code rule.Code) rule.Code {
	*p.watched.filters[index]++
	p.watched.watch.rule(PointFilter, p.filters[index].Plugin, code)
	return code
}

// judged counts the calls of the rules beyond one node, which decide for groups of nodes.
func (p *plan) judged(groups int) {
	for _, index := range p.judges {
		*p.watched.filters[index] += uint64(groups)
		p.watched.watch.rule(PointFilter, p.filters[index].Plugin, rule.Success)
	}
}

// scoredBy counts the calls of a scorer; index is its index among those of its source.
func (p *plan) scoredBy(from source, index, times int) {
	for i, s := range p.stages.list {
		if s.source == from && s.index == index {
			*p.watched.score[i] += uint64(times)
			p.watched.watch.rule(PointScore, p.stages.names[i], rule.Success)
			return
		}
	}
}
