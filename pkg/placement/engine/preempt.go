package engine

import (
	"fmt"
	"slices"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/devices"
	"github.com/berth-scheduler/berth/pkg/placement/engine/internal/columns"
	"github.com/berth-scheduler/berth/pkg/placement/engine/internal/fittrial"
	"github.com/berth-scheduler/berth/pkg/placement/internal/spread"
	"github.com/berth-scheduler/berth/pkg/placement/preempt"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// PreemptQuery is the input of a preemption in addition to the cluster and the profile.
type PreemptQuery struct {
	// Pod is the pod that fits on no node.
	Pod *state.Pod
	// Seed breaks ties and determines where a limited search begins.
	Seed uint64
	// Budgets holds the disruption budgets; nil for none. After a change of the pointer, every node with pods that
	// a budget covers is tried again, so keep it while the budgets do not change.
	Budgets *preempt.Budgets
	// Opinions are those of the Evaluate that found no node; nil for none.
	Opinions map[string]placement.Opinion
}

// Preempt answers as preempt.Run does with the usable nodes as candidates. For pods without hard rules about
// other nodes, or with hard spread only, it keeps the result of trying every node, per class and priority (and
// shortage), and tries only nodes again that changed since. Other pods are decided from scratch.
//
// The call must follow an Evaluate that found no node. A pod that fits on a node gets an error
// (*preempt.FitsError).
func (e *Engine) Preempt(p *placement.Profile, q PreemptQuery) preempt.Result {
	if q.Pod == nil || q.Pod.Template == nil {
		return preempt.Result{Err: placement.ErrNoObject}
	}
	c, err := e.classOf(p, q.Pod, false)
	late := devices.Wanted(q.Pod, e.objects) // the class does not know about devices
	if err == nil && !late {
		err = c.plan.err
	}
	if err != nil {
		return preempt.Result{Err: err}
	}
	if e.columns.Marks.Usable == 0 || !p.PreemptionRules().Enabled {
		return preempt.Result{}
	}
	if late || c.plan.scratch || c.plan.rejected != nil || p.PreemptionRules().Limited || len(q.Opinions) > 0 {
		return preempt.Run(p, e.preemptInput(q))
	}
	// The same preparation as in Evaluate: verdicts and tallies must be current.
	c.catchUp(&e.columns)
	c.crossNode.prepare(&e.columns)
	e.cache.enforceBudget(c, e.columns.Nodes())
	hard, known := c.crossNode.hardRule()
	if !known {
		return preempt.Run(p, e.preemptInput(q))
	}
	result, ok := e.preemptFromCache(c, hard, q)
	if !ok || hard != nil && result.Node == nil && result.Err == nil && !result.KeepNomination {
		// Pods on other nodes may have to be evicted.
		return preempt.Run(p, e.preemptInput(q))
	}
	return result
}

// preemptInput returns the equivalent input for preempt.Run. It allocates lists of all nodes.
func (e *Engine) preemptInput(q PreemptQuery) preempt.Input {
	return preempt.Input{
		Input:   e.input(Query{Pod: q.Pod, Seed: q.Seed, Opinions: q.Opinions}),
		Budgets: q.Budgets, Protected: e.protected,
	}
}

// preemptFromCache answers from the results of trying each node; ok is false if there are too many different
// shortages. hard is the filter of hard spread, nil for none.
//
// The steps are those of preempt.Run: whether the pod may preempt at all, then every node, then the best plan.
// The last step tries the chosen node once more, because a cached result has the cost of the plan but not its
// victims: these would take memory for every node, and are needed for one.
func (e *Engine) preemptFromCache(c *class, hard *spreadTallyFilter, q PreemptQuery) (result preempt.Result, ok bool) {
	x := &preempt.Search{
		Input:   preempt.Input{Input: placement.Input{Pod: q.Pod, Seed: q.Seed}, Budgets: q.Budgets, Protected: e.protected},
		Rules:   c.key.profile.PreemptionRules(),
		Reasons: map[string]int32{},
	}
	s := preemptionCaches{engine: e, class: c, hard: hard, search: x}
	// A terminating victim on the nominated node makes the pod wait for it. Source: PodEligibleToPreemptOthers.
	why := x.Ineligible(func(name string) (*state.NodeInfo, rule.Code) {
		for slot, n := range e.columns.Infos {
			if n == nil || n.Node.Name != name || !c.candidate(&e.columns, slot) {
				continue
			}
			o, known := s.at(slot)
			if ok = known; !ok {
				return nil, rule.UnschedulableAndUnresolvable
			}
			return n, o.code(e, c, slot)
		}
		return nil, rule.UnschedulableAndUnresolvable
	})
	if why != "" {
		return preempt.Result{Message: preempt.MessagePrefix + why, KeepNomination: true}, true
	}
	best, examined := cachedNode{slot: -1}, 0
	for slot := range e.columns.Infos {
		o, known := s.at(slot)
		if !known {
			return preempt.Result{}, false
		}
		switch p := o.resultOf(e, c, x, slot); {
		case p.outcome == resultFits:
			return preempt.Result{Err: x.ErrFits(e.columns.Infos[slot])}, true
		case p.outcome == resultPlan:
			examined++
			x.Found++
			if one := (cachedNode{o, slot}); best.slot < 0 || one.before(e, best, q.Seed) {
				best = one
			}
		case p.outcome >= 0:
			examined++
			x.Refuse(o.reasons[p.outcome], 1)
		}
	}
	// No node has a plan: the message counts the nodes by their reasons.
	if best.slot < 0 {
		return x.InVain(examined, e.columns.Marks.Usable), true
	}
	node := e.columns.Infos[best.slot]
	x.What = best.what
	if x.Best, _, ok = x.OnNode(node); !ok {
		return preempt.Result{Err: fmt.Errorf("placement: no room on node %s any more, though nothing there has moved",
			node.Node.Name)}, true
	}
	result = x.Concluded()
	result.Examined, result.Found = examined, x.Found
	return result, true
}

// preemptionCaches are the caches that one query uses: one per shortage that it meets, a single one for a pod
// without hard spread.
type preemptionCaches struct {
	engine *Engine
	class  *class
	hard   *spreadTallyFilter
	search *preempt.Search
	// used holds those used so far.
	used []*preemptionCache
}

// at returns the cache for a slot; ok is false if there are too many shortages or one is too large.
func (s *preemptionCaches) at(slot int) (*preemptionCache, bool) {
	var short shortage
	if s.hard != nil {
		var ok bool
		if short, ok = s.hard.shortageOf(s.class.crossNode, slot); !ok {
			return nil, false
		}
	}
	for _, o := range s.used {
		if o.short == short {
			return o, true
		}
	}
	if len(s.used) == maxShortages {
		return nil, false
	}
	o := s.class.preemptionCacheFor(s.search.Pod.Priority, short)
	o.setBudgets(s.search)
	s.used = append(s.used, o)
	return o, true
}

// cachedNode is a node together with the cache that holds its result.
type cachedNode struct {
	*preemptionCache
	slot int
}

// preemptionCacheFor finds or creates a cache and moves it to the front. If there are too many, the least
// recently used one is replaced.
func (c *class) preemptionCacheFor(priority int32, short shortage) *preemptionCache {
	for i, o := range c.preemption {
		if o.priority == priority && o.short == short {
			copy(c.preemption[1:i+1], c.preemption[:i])
			c.preemption[0] = o
			return o
		}
	}
	o := &preemptionCache{
		priority: priority, short: short, numbers: map[string]int32{},
		trial: c.plan.newFitTrial(), lacking: map[uint64]int32{},
	}
	filters := c.plan.narrow(short)
	o.what = placement.NewWhatIf(filters)
	for i, f := range c.plan.filters {
		if _, ok := f.Filter.(*spread.Filter); ok {
			o.after = int16(i)
		}
	}
	for _, f := range filters {
		if spread, ok := f.Filter.(*shortFilter); ok {
			o.spread = spread
		}
	}
	c.preemption = append([]*preemptionCache{o}, c.preemption[:min(len(c.preemption), maxPreemptionCaches-1)]...)
	return o
}

// resultOf returns the result of trying a node; it tries the node if it has changed since the last time.
func (o *preemptionCache) resultOf(e *Engine, c *class, x *preempt.Search, slot int) *nodeResult {
	if lack := e.columns.Len() - len(o.results); lack > 0 {
		o.results = columns.GrowBy(o.results, lack, nodeResult{})
	}
	p := &o.results[slot]
	if !e.columns.Journal.IsCurrent(slot, p.tried) {
		o.try(e, c, x, slot)
		p.tried = e.columns.Journal.Time()
	}
	return p
}

// code returns the result of the rules for a node as it is, without rules about other nodes except hard spread.
// It mostly reads the class's verdict; only the code of the rejecting rule (whether evictions could help) is
// asked for.
func (o *preemptionCache) code(e *Engine, c *class, slot int) rule.Code {
	v := c.cells[slot].verdict
	if v < 0 && v != placement.VerdictPass {
		return rule.UnschedulableAndUnresolvable
	}
	if o.spread != nil && (v == placement.VerdictPass || o.after < v) {
		if code := o.spread.Check(e.columns.Infos[slot]); code != rule.Success {
			return code
		}
	}
	if v == placement.VerdictPass {
		return rule.Success
	}
	return c.plan.filters[v].Filter.Check(e.columns.Infos[slot])
}

// try searches for victims on one node and stores the result. The cheap answers come first: nodes that are no
// candidates, that fit, or that no eviction helps. Then, if only resources are lacking, the search in plain
// numbers; and only then the general one, which clones the node.
func (o *preemptionCache) try(e *Engine, c *class, x *preempt.Search, slot int) {
	p := &o.results[slot]
	*p = nodeResult{outcome: resultAbsent}
	x.What = o.what
	if e.columns.Infos[slot] == nil || !c.candidate(&e.columns, slot) {
		return
	}
	switch o.code(e, c, slot) {
	case rule.Success:
		p.outcome = resultFits
		return
	case rule.UnschedulableAndUnresolvable:
		p.outcome = resultUnresolvable
		return
	}
	if o.tryFit(e, c, x, slot) {
		return
	}
	x.Covered = false
	plan, reasons, ok := x.OnNode(e.columns.Infos[slot])
	p.covered = x.Covered
	if ok {
		p.cost, p.outcome = plan.Cost, resultPlan
		return
	}
	p.outcome = o.number(reasons)
}

// before reports whether a node is preferred: by cost, then by the tie-break of the ranking, then by UID, as
// preempt.Plan.before does.
func (a cachedNode) before(e *Engine, b cachedNode, seed uint64) bool {
	if d := a.results[a.slot].cost.Compare(b.results[b.slot].cost); d != 0 {
		return d < 0
	}
	mine, other := e.columns.Hashes[a.slot], e.columns.Hashes[b.slot]
	if s, t := placement.TieBreak(seed, mine), placement.TieBreak(seed, other); s != t {
		return s > t
	}
	return e.columns.Infos[a.slot].Node.UID < e.columns.Infos[b.slot].Node.UID
}

// PreemptCandidates answers as preempt.Candidates does, restricted to usable nodes. Nothing is cached: it is for
// pods whose extenders are asked about victims, and the round trip to an extender takes longer.
func (e *Engine) PreemptCandidates(p *placement.Profile, q PreemptQuery) ([]preempt.Candidate, preempt.Result) {
	if q.Pod == nil || q.Pod.Template == nil {
		return nil, preempt.Result{Err: placement.ErrNoObject}
	}
	if e.columns.Marks.Usable == 0 {
		return nil, preempt.Result{}
	}
	return preempt.Candidates(p, e.preemptInput(q))
}

// PreemptAmong answers as preempt.Among does, for candidates whose nodes have not changed since (Generation); the
// caller has to compare generations.
func (e *Engine) PreemptAmong(p *placement.Profile, q PreemptQuery, given []preempt.Candidate) preempt.Result {
	if q.Pod == nil || q.Pod.Template == nil {
		return preempt.Result{Err: placement.ErrNoObject}
	}
	if e.columns.Marks.Usable == 0 {
		return preempt.Result{}
	}
	return preempt.Among(p, e.preemptInput(q), given)
}

// tryFit is try for a node that lacks only resources; it returns false if numbers alone cannot decide: protected
// pods, budgets or terminating victims need the general search. Entries are sorted by importance, so that the
// possible victims are the tail that begins with the first pod of lower priority.
func (o *preemptionCache) tryFit(e *Engine, c *class, x *preempt.Search, slot int) bool {
	n := e.columns.Infos[slot]
	if o.trial == nil || c.cells[slot].static != placement.VerdictPass || len(e.guarded[n]) > 0 {
		return false
	}
	if o.spread != nil && o.spread.Check(n) != rule.Success {
		return false
	}
	entries := e.byImportance.At(&e.columns, slot)
	first, _ := slices.BinarySearchFunc(entries, x.Pod.Priority, func(r fittrial.Entry, priority int32) int {
		if r.Pod.Priority >= priority {
			return -1
		}
		return 1
	})
	entries = entries[first:]
	// Budgets and terminating pods change the order in which pods are put back.
	for i := range entries {
		p := entries[i].Pod
		if p.Deleting && !x.Rules.ChargeLeaving || x.Budgets != nil && len(x.Budgets.Covering(p)) > 0 {
			return false
		}
	}
	result := &o.results[slot]
	if len(entries) == 0 {
		result.outcome = o.number(preempt.ReasonNoVictims)
		return true
	}
	o.trial.Begin(n)
	if lacks := o.trial.Take(entries); lacks != 0 {
		number, ok := o.lacking[lacks]
		if !ok {
			number = o.number(o.trial.Reasons(lacks))
			o.lacking[lacks] = number
		}
		result.outcome = number
		return true
	}
	result.cost, result.outcome = preempt.CostOf(o.trial.Victims, 0, x.Rules.ChargeLeaving), resultPlan
	return true
}
