package placement

import (
	"fmt"
	"strings"

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
	Budgets *Budgets
	// Opinions are those of the Evaluate that found no node; nil for none.
	Opinions map[string]Opinion
}

// SetProtected replaces the set of pods on a node that cannot be victims (see PreemptInput.Protected). It is
// dropped together with the node.
func (e *Engine) SetProtected(n *state.NodeInfo, uids []string) {
	slot, known := e.columns.slots[n]
	if !known {
		return
	}
	for _, uid := range e.guarded[n] {
		delete(e.protected, uid)
	}
	delete(e.guarded, n)
	if len(uids) > 0 {
		e.guarded[n] = append([]string(nil), uids...)
	}
	for _, uid := range uids {
		e.protected[uid] = true
	}
	e.columns.journal.move(move{slot, noKind, 0})
}

// Preempt answers as p.Preempt does with the usable nodes as candidates. For pods without hard rules about other
// nodes, or with hard spread only, it keeps the result of trying every node, per class and priority (and shortage),
// and tries only nodes again that changed since. Other pods are decided from scratch.
func (e *Engine) Preempt(p *Profile, q PreemptQuery) Preemption {
	if q.Pod == nil || q.Pod.Template == nil {
		return Preemption{Err: errNoObject}
	}
	c, err := e.classOf(p, Query{Pod: q.Pod})
	late := wantsDevices(q.Pod, e.objects) // the class does not know about devices
	if err == nil && !late {
		err = c.plan.err
	}
	if err != nil {
		return Preemption{Err: err}
	}
	if e.columns.marks.usable == 0 || !p.preemptionRules().enabled {
		return Preemption{}
	}
	if late || c.plan.scratch || c.plan.rejected != nil || p.preemptionRules().limited || len(q.Opinions) > 0 {
		return Preempt(p, e.preemptInput(q))
	}
	c.catchUp(e)
	c.wide.prepare(e)
	e.cache.settle(c, e.columns.nodes())
	judge, known := c.wide.hardRule()
	if !known {
		return Preempt(p, e.preemptInput(q))
	}
	result, ok := e.preemptByOutlook(c, judge, q)
	if !ok || judge != nil && result.Node == nil && result.Err == nil && !result.KeepNomination {
		// Pods on other nodes may have to be evicted.
		return Preempt(p, e.preemptInput(q))
	}
	return result
}

// preemptInput returns the equivalent input for Profile.Preempt.
func (e *Engine) preemptInput(q PreemptQuery) PreemptInput {
	return PreemptInput{
		Input:   e.input(Query{Pod: q.Pod, Seed: q.Seed, Opinions: q.Opinions}),
		Budgets: q.Budgets, Protected: e.protected,
	}
}

// preemptByOutlook answers from the results of trying each node; ok is false if there are too many different
// shortages. judge is that of hard spread, nil for none.
func (e *Engine) preemptByOutlook(c *class, judge *spreadJudge, q PreemptQuery) (result Preemption, ok bool) {
	x := &preemption{
		PreemptInput: PreemptInput{Input: Input{Pod: q.Pod, Seed: q.Seed}, Budgets: q.Budgets, Protected: e.protected},
		rules:        c.key.profile.preemptionRules(),
		reasons:      map[string]int32{},
	}
	s := outlooks{engine: e, class: c, judge: judge, search: x}
	why := x.ineligible(func(name string) (*state.NodeInfo, Code) {
		for slot, n := range e.columns.infos {
			if n == nil || n.Node.Name != name || !c.candidate(e, slot) {
				continue
			}
			o, known := s.at(slot)
			if ok = known; !ok {
				return nil, UnschedulableAndUnresolvable
			}
			return n, o.code(e, c, slot)
		}
		return nil, UnschedulableAndUnresolvable
	})
	if why != "" {
		return Preemption{Message: prefix + why, KeepNomination: true}, true
	}
	best, examined := spot{slot: -1}, 0
	for slot := range e.columns.infos {
		o, known := s.at(slot)
		if !known {
			return Preemption{}, false
		}
		switch p := o.prospectOf(e, c, x, slot); {
		case p.outcome == prospectFits:
			return Preemption{Err: x.errFits(e.columns.infos[slot])}, true
		case p.outcome == prospectRoom:
			examined++
			x.found++
			if one := (spot{o, slot}); best.slot < 0 || one.before(e, best, q.Seed) {
				best = one
			}
		case p.outcome >= 0:
			examined++
			x.refuse(o.reasons[p.outcome], 1)
		}
	}
	if best.slot < 0 {
		return x.inVain(examined, e.columns.marks.usable), true
	}
	node := e.columns.infos[best.slot]
	x.what = best.what
	if x.best, _, ok = x.onNode(node); !ok {
		return Preemption{Err: fmt.Errorf("placement: no room on node %s any more, though nothing there has moved",
			node.Node.Name)}, true
	}
	result = x.concluded()
	result.Examined, result.Found = examined, x.found
	return result, true
}

// outlooks are the outlooks that one query uses.
type outlooks struct {
	engine *Engine
	class  *class
	judge  *spreadJudge
	search *preemption
	// asked holds those used so far.
	asked []*outlook
}

// at returns the outlook for a slot; ok is false if there are too many.
func (s *outlooks) at(slot int) (*outlook, bool) {
	var short shortage
	if s.judge != nil {
		var ok bool
		if short, ok = s.judge.shortageOf(s.class.wide, slot); !ok {
			return nil, false
		}
	}
	for _, o := range s.asked {
		if o.short == short {
			return o, true
		}
	}
	if len(s.asked) == maxShortages {
		return nil, false
	}
	o := s.class.outlookFor(s.search.Pod.Priority, short)
	o.ask(s.search)
	s.asked = append(s.asked, o)
	return o, true
}

// spot is a node in its outlook.
type spot struct {
	*outlook
	slot int
}

// outlook is a class's cached state about preemption by pods of one priority on nodes with one shortage.
type outlook struct {
	priority  int32
	short     shortage
	budgets   *Budgets
	prospects []prospect
	// what evaluates the rules about one node, and hard spread for the given shortage. spread is the filter of the
	// latter, nil for none; after is its position among all filters.
	what   *whatIf
	spread *shortFilter
	after  int16
	// reasons are the lists of reasons for which nodes were refused, numbered as in prospects.
	reasons [][]string
	numbers map[string]int32
	// trial tries nodes that lack only resources; nil if other rules depend on the pods too. lacking maps its
	// results to numbers of reasons.
	trial   *fitTrial
	lacking map[uint64]int32
}

// prospect is the result of trying one node.
type prospect struct {
	cost Cost
	// tried is the journal time as of which the result is valid, 0 for never.
	tried uint64
	// outcome is one of the constants below, or the number of the reasons.
	outcome int32
	// covered is set when budgets affected the result.
	covered bool
}

const (
	prospectAbsent int32 = -1 - iota
	prospectHelpless
	prospectFits
	prospectRoom
)

// maxOutlooks bounds the combinations of priority and shortage for which one class keeps an outlook.
const maxOutlooks = 4 + maxShortages

// outlookFor finds or creates an outlook. If there are too many, the least recently used one is replaced.
func (c *class) outlookFor(priority int32, short shortage) *outlook {
	for i, o := range c.outlooks {
		if o.priority == priority && o.short == short {
			copy(c.outlooks[1:i+1], c.outlooks[:i])
			c.outlooks[0] = o
			return o
		}
	}
	o := &outlook{
		priority: priority, short: short, numbers: map[string]int32{},
		trial: c.plan.newFitTrial(), lacking: map[uint64]int32{},
	}
	filters := c.plan.narrow(short)
	o.what = newWhatIf(filters)
	for i, f := range c.plan.filters {
		if _, ok := f.filter.(*spreadFilter); ok {
			o.after = int16(i)
		}
	}
	for _, f := range filters {
		if spread, ok := f.filter.(*shortFilter); ok {
			o.spread = spread
		}
	}
	c.outlooks = append([]*outlook{o}, c.outlooks[:min(len(c.outlooks), maxOutlooks-1)]...)
	return o
}

// ask prepares the outlook for a query: if the budgets have changed, results that budgets affected are discarded.
func (o *outlook) ask(x *preemption) {
	if x.Budgets == o.budgets {
		return
	}
	all := !x.Budgets.coversLike(o.budgets)
	o.budgets = x.Budgets
	for slot := range o.prospects {
		if p := &o.prospects[slot]; all || p.covered {
			p.tried = 0
		}
	}
}

// prospectOf returns the result of trying a node; it tries the node if it has changed since the last time.
func (o *outlook) prospectOf(e *Engine, c *class, x *preemption, slot int) *prospect {
	if lack := e.columns.len() - len(o.prospects); lack > 0 {
		o.prospects = growBy(o.prospects, lack, prospect{})
	}
	p := &o.prospects[slot]
	if p.tried == 0 || p.tried < e.columns.journal.moved[slot] {
		o.try(e, c, x, slot)
		p.tried = e.columns.journal.now
	}
	return p
}

// code returns the result of the rules for a node as it is, without rules about other nodes except hard spread.
func (o *outlook) code(e *Engine, c *class, slot int) Code {
	v := c.cells[slot].verdict
	if v < 0 && v != verdictPass {
		return UnschedulableAndUnresolvable
	}
	if o.spread != nil && (v == verdictPass || o.after < v) {
		if code := o.spread.Check(e.columns.infos[slot]); code != Success {
			return code
		}
	}
	if v == verdictPass {
		return Success
	}
	return c.plan.filters[v].filter.Check(e.columns.infos[slot])
}

// try searches for room on one node.
func (o *outlook) try(e *Engine, c *class, x *preemption, slot int) {
	p := &o.prospects[slot]
	*p = prospect{outcome: prospectAbsent}
	x.what = o.what
	if e.columns.infos[slot] == nil || !c.candidate(e, slot) {
		return
	}
	switch o.code(e, c, slot) {
	case Success:
		p.outcome = prospectFits
		return
	case UnschedulableAndUnresolvable:
		p.outcome = prospectHelpless
		return
	}
	if o.tryFit(e, c, x, slot) {
		return
	}
	x.covered = false
	plan, reasons, ok := x.onNode(e.columns.infos[slot])
	p.covered = x.covered
	if ok {
		p.cost, p.outcome = plan.cost, prospectRoom
		return
	}
	p.outcome = o.number(reasons)
}

// number returns the number of a list of reasons.
func (o *outlook) number(reasons []string) int32 {
	key := strings.Join(reasons, "\x00")
	id, ok := o.numbers[key]
	if !ok {
		id = int32(len(o.reasons))
		o.numbers[key] = id
		o.reasons = append(o.reasons, reasons)
	}
	return id
}

// before is room.before for two nodes on which room can be made.
func (a spot) before(e *Engine, b spot, seed uint64) bool {
	if d := a.prospects[a.slot].cost.Compare(b.prospects[b.slot].cost); d != 0 {
		return d < 0
	}
	if s, t := tieBreak(seed, e.columns.hashes[a.slot]), tieBreak(seed, e.columns.hashes[b.slot]); s != t {
		return s > t
	}
	return e.columns.infos[a.slot].Node.UID < e.columns.infos[b.slot].Node.UID
}

func (o *outlook) bytes() int64 {
	const perSlot = 64
	return int64(len(o.prospects)) * perSlot
}

// PreemptCandidates answers as p.PreemptCandidates does, restricted to usable nodes.
func (e *Engine) PreemptCandidates(p *Profile, q PreemptQuery) ([]Candidate, Preemption) {
	if q.Pod == nil || q.Pod.Template == nil {
		return nil, Preemption{Err: errNoObject}
	}
	if e.columns.marks.usable == 0 {
		return nil, Preemption{}
	}
	return PreemptCandidates(p, e.preemptInput(q))
}

// PreemptAmong answers as p.PreemptAmong does, for candidates whose nodes have not changed since (Generation).
func (e *Engine) PreemptAmong(p *Profile, q PreemptQuery, given []Candidate) Preemption {
	if q.Pod == nil || q.Pod.Template == nil {
		return Preemption{Err: errNoObject}
	}
	if e.columns.marks.usable == 0 {
		return Preemption{}
	}
	return PreemptAmong(p, e.preemptInput(q), given)
}
