package placement

import "maps"

// Extension points at which an Engine (at PostFilter: a shard) counts and times rules, in upstream's words
// (pkg/scheduler/metrics/metrics.go).
const (
	PointPreFilter  = "PreFilter"
	PointFilter     = "Filter"
	PointPostFilter = "PostFilter"
	PointPreScore   = "PreScore"
	PointScore      = "Score"
)

// maxTimed bounds the words of rules that are timed in one evaluation: the first of a class asks
// every rule about every node, and to time all of that would take longer than to do it.
const maxTimed = 100

// Laps is told what has just been done, part by part, so that whoever asked can time the
// parts: an engine has no clock. It is called in the evaluation and must be quick.
type Laps interface {
	// Begin begins the first part of an evaluation under a profile.
	Begin(profile string)
	// Lap ends a part that began where the last one ended: one rule's word about one node
	// (about a group of like nodes, at PointScore), or with plugin empty the whole of an
	// extension point.
	Lap(point, plugin string, code Code)
}

// Asked is what an engine counts calls of rules by.
type Asked struct{ Profile, Plugin, Point string }

// watch counts what rules are asked, and passes on the laps of the query at hand.
type watch struct {
	laps Laps // nil: nobody times
	// rules is how many words of rules will still be timed, besides the whole.
	rules int
	asked map[Asked]*uint64
}

// Asked visits how often each rule has been asked since the last call: about a pod (PreFilter,
// PreScore), or about one node or one group of like nodes. An engine keeps what rules said, so
// that this grows by what has moved, not by nodes times pods.
func (e *Engine) Asked(visit func(a Asked, calls uint64)) {
	for a, calls := range maps.All(e.watch.asked) {
		if *calls > 0 {
			visit(a, *calls)
			*calls = 0
		}
	}
}

// counter is the count of a rule at a point. It stays where it is.
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
func (w *watch) rule(point, plugin string, code Code) {
	if w.rules > 0 {
		w.rules--
		w.laps.Lap(point, plugin, code)
	}
}

// point ends the part of an extension point.
func (w *watch) point(point string, code Code) {
	if w.laps != nil {
		w.laps.Lap(point, "", code)
	}
}

// begin begins a query.
func (w *watch) begin(p *Profile, q Query) {
	w.laps, w.rules = q.Laps, 0
	if w.laps != nil && q.TimeRules {
		w.rules = maxTimed
	}
	if w.laps != nil {
		w.laps.Begin(p.schedulerName)
	}
}

// rest ends a query: what the engine is asked besides is not timed.
func (w *watch) rest() { w.laps, w.rules = nil, 0 }

// begins is what the rules say about the pod alone.
func (p *plan) begins() Code {
	if p.rejected != nil {
		return UnschedulableAndUnresolvable
	}
	return Success
}

// found is what an extension point comes to.
func found(feasible int) Code {
	if feasible == 0 {
		return Unschedulable
	}
	return Success
}

// watched is the plan's part in it: a counter per filter, and per stage of scoring.
type watched struct {
	watch          *watch
	filters, score []*uint64
}

// account opens the counts of a new plan's rules, each of which was asked about the pod.
func (p *plan) account(e *Engine, profile *Profile) {
	p.watched = watched{watch: &e.watch}
	open := func(plugin, before, point string) *uint64 {
		*e.watch.counter(Asked{profile.schedulerName, plugin, before})++
		e.watch.rule(before, plugin, Success)
		return e.watch.counter(Asked{profile.schedulerName, plugin, point})
	}
	for _, f := range p.filters {
		p.watched.filters = append(p.watched.filters, open(f.plugin, PointPreFilter, PointFilter))
	}
	for _, plugin := range p.stages.names {
		p.watched.score = append(p.watched.score, open(plugin, PointPreScore, PointScore))
	}
}

// check asks a filter about a node, on the account of the plan.
func (p *plan) check(index int16, code Code) Code {
	*p.watched.filters[index]++
	p.watched.watch.rule(PointFilter, p.filters[index].plugin, code)
	return code
}

// judged puts the rules beyond one node on the account, which say whether groups pass.
func (p *plan) judged(groups int) {
	for _, index := range p.judges {
		*p.watched.filters[index] += uint64(groups)
		p.watched.watch.rule(PointFilter, p.filters[index].plugin, Success)
	}
}

// scoredBy puts a scorer on the account; index is among those of its source.
func (p *plan) scoredBy(from source, index, times int) {
	for i, s := range p.stages.list {
		if s.source == from && s.index == index {
			*p.watched.score[i] += uint64(times)
			p.watched.watch.rule(PointScore, p.stages.names[i], Success)
			return
		}
	}
}
