package engine

import (
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

// Timer is notified of each completed part of an evaluation, so that the caller can time the parts: an engine has no
// clock. It is called during the evaluation and must be fast.
type Timer interface {
	// Begin starts the first part of an evaluation under a profile.
	Begin(profile string)
	// Lap ends a part that started where the last one ended: one call of a rule for one node (for a group of like
	// nodes, at PointScore), or, with plugin empty, a whole extension point.
	Lap(point, plugin string, code rule.Code)
}

// RuleCalls identifies a counter of calls of a rule.
type RuleCalls struct{ Profile, Plugin, Point string }

// profiler counts the calls of rules, and forwards the completed parts of the current query to its Laps. The
// counts feed plugin_evaluation_total; upstream counts a call per pod and node, an engine only those that it
// makes.
type profiler struct {
	laps Timer // nil: timing is not requested
	// rulesLeft is how many more calls of rules will be timed, in addition to whole extension points.
	rulesLeft int
	calls     map[RuleCalls]*uint64
}

// counter returns the counter of a rule at a point. Its address does not change, so that plans keep it.
func (w *profiler) counter(a RuleCalls) *uint64 {
	if w.calls == nil {
		w.calls = map[RuleCalls]*uint64{}
	}
	if w.calls[a] == nil {
		w.calls[a] = new(uint64)
	}
	return w.calls[a]
}

// endRule ends the part of one rule, if it is among the first that are timed.
func (w *profiler) endRule(point, plugin string, code rule.Code) {
	if w.rulesLeft > 0 {
		w.rulesLeft--
		w.laps.Lap(point, plugin, code)
	}
}

// endPoint ends the part of an extension point.
func (w *profiler) endPoint(point string, code rule.Code) {
	if w.laps != nil {
		w.laps.Lap(point, "", code)
	}
}

// begin starts a query under a profile; laps is nil if timing is not requested.
func (w *profiler) begin(profile string, laps Timer, timeRules bool) {
	w.laps, w.rulesLeft = laps, 0
	if w.laps != nil && timeRules {
		w.rulesLeft = maxTimed
	}
	if w.laps != nil {
		w.laps.Begin(profile)
	}
}

// end ends a query: other uses of the engine are not timed.
func (w *profiler) end() { w.laps, w.rulesLeft = nil, 0 }

// filterCode returns the result of the Filter point for this many feasible nodes.
func filterCode(feasible int) rule.Code {
	if feasible == 0 {
		return rule.Unschedulable
	}
	return rule.Success
}
