package engine

import (
	"fmt"
	"slices"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/devices"
	"github.com/berth-scheduler/berth/pkg/placement/engine/internal/columns"
	"github.com/berth-scheduler/berth/pkg/placement/engine/internal/walk"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Query is the input of a decision in addition to the cluster and the profile.
type Query struct {
	// Pod is the pod to place; its Template must be set.
	Pod *state.Pod
	// Seed breaks ties.
	Seed uint64
	// Limit is how many feasible nodes to rank: 0 means TopK, a negative value means all.
	Limit int
	// Start is where a profile that samples starts; see Input.Start.
	Start int
	// Home restricts the search to home nodes. HomeFirst ranks them before other nodes with the same total.
	Home, HomeFirst bool
	// Near, if more than 0, ranks the best home node first if it is behind the best node by no more than the points that
	// so many more pods like this one would cost the best node. It has no effect on pods that terms of other pods sway
	// (Result.Swayed), nor where the profile samples or the pod is evaluated from scratch.
	Near int64
	// Opinions holds the results of custom plugins and extenders for nodes, Guidance those of the plugins for the
	// pod; see Input. A query with either is evaluated from scratch.
	Opinions map[string]placement.Opinion
	Guidance *placement.Guidance
	// Everywhere evaluates all nodes even if the pod has been nominated to one; see Input.Everywhere.
	Everywhere bool
	// Unsampled evaluates all nodes even if the profile samples; see Input.Unsampled.
	Unsampled bool
	// Weigh requests Result.Weighed for this many of the best nodes.
	Weigh int
	// Timer, if not nil, is notified of the stages of the evaluation; with TimeRules, also of the results of the
	// first rules.
	Timer     Timer
	TimeRules bool
}

// Evaluate decides about one pod, as p.Evaluate does with the usable nodes as candidates. Result.Feasible and the
// slices of Result.Weighed and Result.Rejected belong to the engine and are valid until the next call.
//
// The steps, in order: find the class of the pod; decide about a pod that needs devices in its own way (from
// scratch, or evaluateClaims); return what the plan alone decides (an error, a rejection on all nodes); evaluate
// from scratch where the class has no results (see plan.scratch); otherwise bring the class up to date, bring the
// cache back to its budget, and decide. The cache is trimmed when the arrays of the class have their size; the
// class is then the most recently used entry, which is never dropped.
func (e *Engine) Evaluate(p *placement.Profile, q Query) placement.Result {
	total := e.columns.Marks.Usable
	if q.Home {
		total = e.columns.Marks.Home
	}
	if total == 0 {
		return placement.Result{}
	}
	if q.Start < 0 {
		return placement.Result{Err: fmt.Errorf("placement: start is %d, want 0 or more", q.Start)}
	}
	if q.Pod == nil || q.Pod.Template == nil {
		return placement.Result{Err: placement.ErrNoObject}
	}
	e.profiler.begin(p.SchedulerName(), q.Timer, q.TimeRules)
	defer e.profiler.end()
	c, err := e.classOf(p, q.Pod, q.Home)
	if err != nil {
		return placement.Result{Err: err}
	}
	if len(devices.BackedResources(q.Pod.Requests, e.objects)) > 0 {
		return c.fromScratch(e.input(q)) // whether a node lists the resource matters to two rules
	}
	if rule.HasDeviceClaims(&q.Pod.Template.Spec) {
		return e.evaluateClaims(c, q, total)
	}
	if c.plan.err != nil {
		return placement.Result{Err: c.plan.err}
	}
	result := placement.Result{NodesTotal: total, Class: c.id}
	e.profiler.endPoint(PointPreFilter, c.plan.preFilterCode())
	if c.plan.rejected != nil {
		result.Diagnosis = c.plan.rejected.Diagnosis(total)
		return result
	}
	// Opinions and guidance belong to this pod alone, so that results kept for its class would not hold.
	if c.plan.scratch || len(q.Opinions) > 0 || q.Guidance != nil {
		return c.fromScratch(e.input(q))
	}
	c.catchUp(&e.columns)
	c.crossNode.prepare(&e.columns)
	e.cache.enforceBudget(c, e.columns.Nodes())
	return e.decide(c, q, result)
}

// decide computes the answer from an up-to-date class. It follows upstream's order: the nominated node first,
// then filtering (rating.list, for the rules beyond one node), then scoring (rating.rate) and selection
// (shortlist). A pod with one feasible node is not scored.
func (e *Engine) decide(c *class, q Query, result placement.Result) placement.Result {
	if slot, ok := e.nominated(c, q.Pod); ok && !q.Everywhere {
		result.FeasibleCount, result.Feasible = 1, e.alone(slot)
		return result
	}
	// A late filter is evaluated node by node, which the walk of a sample does; without sampling, counting the
	// members of the groups is enough.
	sampling := e.late != nil || !q.Unsampled && c.key.profile.SampleSize(result.NodesTotal) < result.NodesTotal
	if sampling {
		result.Examined = e.sample(c, q)
		e.rating.list(c, e.counts)
	} else {
		result.Examined = e.examined(c, result.NodesTotal)
		e.rating.list(c, c.groups.members)
	}
	result.FeasibleCount = e.rating.total
	result.Swayed = (q.Home || q.Near > 0) && c.crossNode.sways()
	e.profiler.endPoint(PointFilter, filterCode(result.FeasibleCount))
	e.rating.weighed.begin()
	switch {
	case result.FeasibleCount == 0 && e.late != nil:
		return result // the class does not know the reason
	case result.FeasibleCount == 0:
		result.Diagnosis = c.diagnose(&e.columns, result.NodesTotal)
		return result
	// A scorer that fails matters only where nodes are compared.
	case result.FeasibleCount > 1 && c.plan.scorerErr != nil:
		return placement.Result{Err: c.plan.scorerErr}
	case result.FeasibleCount > 1:
		e.rating.rate(c, q.Weigh > 0)
	}
	e.shortlist.reset(q.Seed, q.HomeFirst, q.Limit, result.FeasibleCount)
	if sampling {
		for _, slot := range e.sampled {
			total := c.base[slot] + e.rating.points[c.group[slot]+1]
			e.shortlist.offer(placement.Ranked{Total: int64(total), Tie: e.shortlist.tie(int(slot)), Index: int(slot)})
		}
	} else {
		e.shortlist.scan(c, e.rating.points)
		if q.Near > 0 && !result.Swayed {
			e.shortlist.preferHome(c, e.rating.points, q.Near)
		}
	}
	result.Feasible = e.ranked()
	if result.FeasibleCount > 1 {
		e.profiler.endPoint(PointScore, rule.Success)
	}
	e.weigh(c, q.Weigh, &result)
	return result
}

// evaluateClaims is Evaluate for a pod that names device claims. Such pods belong to the class of pods that are
// equal without the claims, because no two of them request the same claims: a class of its own for each would
// evaluate all nodes for one decision. The rule about devices is evaluated last, for the remaining nodes.
// Anything but the usual case is decided from scratch, including the case that no node is left, because the
// answer must then explain why.
func (e *Engine) evaluateClaims(c *class, q Query, total int) placement.Result {
	late, ok := e.lateFilter(c, q)
	if ok {
		e.profiler.endPoint(PointPreFilter, rule.Success)
		c.catchUp(&e.columns)
		c.crossNode.prepare(&e.columns)
		e.cache.enforceBudget(c, e.columns.Nodes())
		e.late = late
		result := e.decide(c, q, placement.Result{NodesTotal: total, Class: c.id})
		e.late = nil
		if result.Err == nil && result.FeasibleCount > 0 {
			return result
		}
	}
	return c.fromScratch(e.input(q))
}

// fromScratch evaluates all nodes with all rules. Whether terms of other pods sway the pod is not known then: it counts
// as not swayed, since a second evaluation, of all nodes, would cost as much again.
func (c *class) fromScratch(in placement.Input) placement.Result {
	result := c.key.profile.Evaluate(in)
	result.Class = c.id
	return result
}

// lateFilter returns the filter of the rule about devices for a pod, or nil if the rule does not apply. ok is
// false if the rule would do more than reject some nodes: reject all of them, name the only ones, or score.
func (e *Engine) lateFilter(c *class, q Query) (late rule.Filter, ok bool) {
	nominated := q.Pod.Status().NominatedNodeName != ""
	if c.plan.err != nil || c.plan.rejected != nil || c.plan.scratch || len(q.Opinions) > 0 || nominated {
		return nil, false
	}
	compiled, err := c.key.profile.CompilePlugin(names.DynamicResources, q.Pod, rule.OrNone(e.objects))
	if err != nil || compiled.Rejection != "" || compiled.OnlyNodes != nil ||
		compiled.Scorer != nil || compiled.ScorerErr != nil {
		return nil, false
	}
	return compiled.Filter, true
}

// passesLate evaluates the late filter for a node that passes all others. It is the most expensive rule,
// therefore the last.
func (e *Engine) passesLate(slot int32) bool {
	return e.late == nil || e.late.Check(e.columns.Infos[slot]) == rule.Success
}

// nominated returns the slot of the node that the pod has been nominated to, if it passes. A rule that narrows
// the nodes down does not exclude that node, so that its verdict is computed again without the narrowing. Source:
// evaluateNominatedNode in pkg/scheduler/schedule_one.go.
func (e *Engine) nominated(c *class, pod *state.Pod) (int32, bool) {
	name := pod.Status().NominatedNodeName
	if name == "" {
		return 0, false
	}
	slot := slices.IndexFunc(e.columns.Infos, func(n *state.NodeInfo) bool { return n != nil && n.Node.Name == name })
	if slot < 0 || !c.candidate(&e.columns, slot) {
		return 0, false
	}
	v := c.cells[slot].verdict
	if v == placement.VerdictNarrowed {
		v, _ = c.plan.nodeVerdict(e.columns.Infos[slot], c.traits[e.columns.Traits.Of[slot]].verdict)
		v = c.plan.usageVerdict(&e.columns, slot, v)
	}
	return int32(slot), v == placement.VerdictPass && c.passesCrossNode(slot)
}

// examined returns how many nodes a search over all nodes judges: those that no rule narrowed out.
func (e *Engine) examined(c *class, total int) int {
	if c.plan.only == nil {
		return total
	}
	n := 0
	for i := range c.cells {
		if v := c.cells[i].verdict; v != placement.VerdictAbsent && v != placement.VerdictNarrowed {
			n++
		}
	}
	return n
}

// alone is the answer when one node is feasible: it is not scored.
func (e *Engine) alone(slot int32) []placement.Scored {
	e.feasible = append(e.feasible[:0], placement.Scored{Node: e.columns.Infos[slot]})
	return e.feasible
}

// ranked returns the shortlist as the answer. The only feasible node has the total 0, as in Profile.Evaluate.
func (e *Engine) ranked() []placement.Scored {
	e.feasible = e.feasible[:0]
	if len(e.shortlist.list) == 1 && e.rating.total == 1 {
		return e.alone(int32(e.shortlist.list[0].Index))
	}
	for _, c := range e.shortlist.list {
		e.feasible = append(e.feasible, placement.Scored{Node: e.columns.Infos[c.Index], Total: c.Total})
	}
	return e.feasible
}

// sample finds as many feasible nodes as the profile wants, stores them in sampled and counts, and returns how
// many it evaluated. It visits nodes in the order of judgeSample and stops where that stops: before the first
// feasible node beyond the sample. counts has the number of sampled nodes per group, so that scores that compare
// nodes see the sample only, as upstream's do.
func (e *Engine) sample(c *class, q Query) (examined int) {
	list := e.order.Walk(&e.columns, q.Home)
	if c.plan.only != nil {
		e.narrowed = e.narrowed[:0]
		for _, slot := range list {
			if c.cells[slot].verdict != placement.VerdictNarrowed {
				e.narrowed = append(e.narrowed, slot)
			}
		}
		list = e.narrowed
	}
	e.sampled = e.sampled[:0]
	e.counts = slices.Grow(e.counts[:0], len(c.groups.members))[:len(c.groups.members)]
	clear(e.counts)
	enough := len(list)
	if !q.Unsampled {
		enough = c.key.profile.SampleSize(len(list))
	}
	for step := range list {
		slot := list[(q.Start%len(list)+step)%len(list)]
		g := c.group[slot]
		if g != noGroup && c.crossNode.passes(c.groups.row(int(g))[maxScaledScores:]) && e.passesLate(slot) {
			if len(e.sampled) == enough {
				break
			}
			e.sampled = append(e.sampled, slot)
			e.counts[g]++
		}
		examined++
	}
	return examined
}

// input returns the equivalent Input for Profile.Evaluate. It allocates lists of all nodes, sorted by name: it is
// for pods that are decided from scratch.
func (e *Engine) input(q Query) placement.Input {
	in := placement.Input{
		Pod: q.Pod, Objects: e.objects, Seed: q.Seed, Start: q.Start, Limit: q.Limit, Weigh: q.Weigh,
		Opinions: q.Opinions, Guidance: q.Guidance, Everywhere: q.Everywhere,
		Unsampled: q.Unsampled,
	}
	if q.HomeFirst {
		in.Home = make(map[string]bool, e.columns.Marks.Home)
	}
	for slot, n := range e.columns.Infos {
		if n == nil {
			continue
		}
		in.Nodes = append(in.Nodes, n)
		usable, home := e.columns.Marks.Of[slot]&columns.MarkUsable != 0, e.columns.Marks.Of[slot]&columns.MarkHome != 0
		if usable && (home || !q.Home) {
			in.Candidates = append(in.Candidates, n)
		}
		if home && q.HomeFirst {
			in.Home[n.Node.UID] = true
		}
	}
	slices.SortFunc(in.Nodes, walk.ByName)
	slices.SortFunc(in.Candidates, walk.ByName)
	return in
}
