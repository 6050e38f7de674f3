package placement

import (
	"fmt"
	"strings"

	"github.com/berth-scheduler/berth/pkg/state"
)

// PreemptQuery is what a preemption depends on besides the cluster and the profile.
type PreemptQuery struct {
	// Pod that fits nowhere.
	Pod *state.Pod
	// Seed breaks ties, and says where a limited search begins.
	Seed uint64
	// Budgets are the disruption budgets; nil for none. A new pointer costs a look at every
	// node with pods that one covers, so keep it while nothing about budgets changes.
	Budgets *Budgets
}

// SetProtected says which pods on a node cannot be victims, in the place of those before (see
// PreemptInput.Protected). It is forgotten with the node.
func (e *Engine) SetProtected(n *state.NodeInfo, uids []string) {
	slot, known := e.slots[n]
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
	e.journal.move(move{slot, noKind, 0})
}

// Preempt answers as p.Preempt does with the usable nodes as candidates. For pods without hard
// rules about other nodes it keeps what came of trying every node, per class and priority,
// and tries those again that moved since; others are decided from scratch.
func (e *Engine) Preempt(p *Profile, q PreemptQuery) Preemption {
	total := e.marks.usable
	if total == 0 || !p.preemption.enabled {
		return Preemption{}
	}
	if q.Pod == nil || q.Pod.Template == nil {
		return Preemption{Err: errNoObject}
	}
	c, err := e.classOf(p, Query{Pod: q.Pod})
	if err == nil {
		err = c.plan.err
	}
	if err != nil {
		return Preemption{Err: err}
	}
	if c.plan.scratch || c.plan.rejected != nil || p.preemption.limited {
		return p.Preempt(e.preemptInput(q))
	}
	c.catchUp(e)
	c.wide.prepare(e)
	e.cache.settle(c, e.nodes())
	if c.wide.isHard() {
		return p.Preempt(e.preemptInput(q))
	}
	return e.preemptByOutlook(c, q, total)
}

// preemptInput is the same question for Profile.Preempt.
func (e *Engine) preemptInput(q PreemptQuery) PreemptInput {
	return PreemptInput{
		Input:   e.input(Query{Pod: q.Pod, Seed: q.Seed}),
		Budgets: q.Budgets, Protected: e.protected,
	}
}

// isHard tells whether a rule about other nodes can say no.
func (w *wide) isHard() bool {
	for _, j := range w.judges {
		switch j := j.(type) {
		case *affinityJudge:
			if len(j.affinity)+len(j.antiAffinity)+len(j.repelledBy) > 0 {
				return true
			}
		default:
			return true
		}
	}
	return false
}

// preemptByOutlook answers from what came of trying each node.
func (e *Engine) preemptByOutlook(c *class, q PreemptQuery, total int) Preemption {
	x := &preemption{
		PreemptInput: PreemptInput{Input: Input{Pod: q.Pod, Seed: q.Seed}, Budgets: q.Budgets, Protected: e.protected},
		rules:        &c.key.profile.preemption,
		what:         newWhatIf(c.plan.lone()),
		reasons:      map[string]int32{},
	}
	why := x.ineligible(func(name string) (*state.NodeInfo, Code) {
		for slot, n := range e.infos {
			if n != nil && n.Node.Name == name && c.candidate(e, slot) {
				return n, c.code(e, slot)
			}
		}
		return nil, UnschedulableAndUnresolvable
	})
	if why != "" {
		return Preemption{Message: prefix + why, KeepNomination: true}
	}
	o := c.outlookFor(q.Pod.Priority)
	o.catchUp(e, c, x)
	best, examined := -1, 0
	for slot := range o.prospects {
		switch p := &o.prospects[slot]; {
		case p.outcome == prospectFits:
			return Preemption{Err: x.errFits(e.infos[slot])}
		case p.outcome == prospectRoom:
			examined++
			x.found++
			if best < 0 || o.before(e, slot, best, q.Seed) {
				best = slot
			}
		case p.outcome >= 0:
			examined++
			x.refuse(o.reasons[p.outcome], 1)
		}
	}
	if best < 0 {
		return x.inVain(examined, total)
	}
	var ok bool
	if x.best, _, ok = x.onNode(e.infos[best]); !ok {
		return Preemption{Err: fmt.Errorf("placement: no room on node %s any more, though nothing there has moved",
			e.infos[best].Node.Name)}
	}
	result := x.concluded()
	result.Examined, result.Found = examined, x.found
	return result
}

// lone are the filters about one node.
func (p *plan) lone() []activeFilter {
	list := make([]activeFilter, 0, len(p.filters))
	beyond := p.judges
	for i, f := range p.filters {
		if len(beyond) > 0 && beyond[0] == int16(i) {
			beyond = beyond[1:]
			continue
		}
		list = append(list, f)
	}
	return list
}

// code is what the rules say of a candidate as it is, those beyond one node left out.
func (c *class) code(e *Engine, slot int) Code {
	switch v := c.cells[slot].verdict; {
	case v == verdictPass:
		return Success
	case v < 0:
		return UnschedulableAndUnresolvable
	default:
		return c.plan.filters[v].filter.Check(e.infos[slot])
	}
}

// outlook is what a class keeps about preemption by pods of one priority.
type outlook struct {
	priority int32
	budgets  *Budgets
	// seen is the journal's time up to which prospects are right, by slot.
	seen      uint64
	prospects []prospect
	// reasons are the lists that nodes were refused for, numbered as in prospects.
	reasons [][]string
	numbers map[string]int32
	// trial tries nodes that lack nothing but room, nil if there is more to it; lacking are the
	// numbers of reasons by what it says is lacking.
	trial   *fitTrial
	lacking map[uint64]int32
}

// prospect is what came of trying one node.
type prospect struct {
	cost Cost
	// outcome is one of those below, or the number of the reasons.
	outcome int32
	// covered: budgets had a say.
	covered bool
}

const (
	prospectAbsent int32 = -1 - iota
	prospectHelpless
	prospectFits
	prospectRoom
)

// maxOutlooks bounds the priorities that one class keeps an outlook for.
const maxOutlooks = 4

// outlookFor finds the outlook of a priority or makes one, in the place of the one that was
// asked for longest ago if there are too many.
func (c *class) outlookFor(priority int32) *outlook {
	for i, o := range c.outlooks {
		if o.priority == priority {
			copy(c.outlooks[1:i+1], c.outlooks[:i])
			c.outlooks[0] = o
			return o
		}
	}
	o := &outlook{
		priority: priority, numbers: map[string]int32{}, trial: c.plan.newFitTrial(), lacking: map[uint64]int32{},
	}
	c.outlooks = append([]*outlook{o}, c.outlooks[:min(len(c.outlooks), maxOutlooks-1)]...)
	return o
}

// catchUp tries the nodes that moved since the outlook was last asked for, and those that
// budgets matter to if these changed.
func (o *outlook) catchUp(e *Engine, c *class, x *preemption) {
	if lack := e.len() - len(o.prospects); lack > 0 {
		o.prospects = growBy(o.prospects, lack, prospect{outcome: prospectAbsent})
	}
	if x.Budgets != o.budgets {
		if !x.Budgets.coversLike(o.budgets) {
			o.seen = 0
		}
		o.budgets = x.Budgets
		for slot := range o.prospects {
			if o.prospects[slot].covered && e.journal.moved[slot] <= o.seen {
				o.try(e, c, x, slot)
			}
		}
	}
	if o.seen == 0 || e.journal.isFar(o.seen) {
		for slot, at := range e.journal.moved {
			if at > o.seen {
				o.try(e, c, x, slot)
			}
		}
	} else {
		for at := o.seen + 1; at <= e.journal.now; at++ {
			if slot := int(e.journal.last[at%journalSize].slot); e.journal.moved[slot] == at {
				o.try(e, c, x, slot)
			}
		}
	}
	o.seen = e.journal.now
}

// try looks for room on one node.
func (o *outlook) try(e *Engine, c *class, x *preemption, slot int) {
	p := &o.prospects[slot]
	*p = prospect{outcome: prospectAbsent}
	if e.infos[slot] == nil || !c.candidate(e, slot) {
		return
	}
	switch c.code(e, slot) {
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
	plan, reasons, ok := x.onNode(e.infos[slot])
	p.covered = x.covered
	if ok {
		p.cost, p.outcome = plan.cost, prospectRoom
		return
	}
	p.outcome = o.number(reasons)
}

// number is that of a list of reasons.
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

// before is room.before for two nodes that have room to make.
func (o *outlook) before(e *Engine, a, b int, seed uint64) bool {
	costA, costB := &o.prospects[a].cost, &o.prospects[b].cost
	if d := costA.Compare(*costB); d != 0 {
		return d < 0
	}
	if s, t := tieBreak(seed, e.hashes[a]), tieBreak(seed, e.hashes[b]); s != t {
		return s > t
	}
	return e.infos[a].Node.UID < e.infos[b].Node.UID
}

func (o *outlook) bytes() int64 {
	const perSlot = 56
	return int64(len(o.prospects)) * perSlot
}
