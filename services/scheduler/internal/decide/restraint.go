package decide

import (
	"maps"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
)

// why a node is left alone although the facts and the ledger would let it be used.
type why uint8

const (
	// inQuarantine: what this shard and the ledger or the binders think of it keeps differing.
	inQuarantine why = iota + 1
	// doubted: its kubelet counts less room than we do.
	doubted
	// anothersTurn: another shard has asked to be alone there for a moment.
	anothersTurn
)

// reasons are what a pod's message says of nodes that are left alone, in upstream's grammar.
var reasons = map[why]string{
	inQuarantine: "node(s) were in quarantine, because reservations on them keep failing",
	doubted:      "node(s) had just rejected a pod for want of room",
	anothersTurn: "node(s) were in use by another scheduler",
}

// avoidedReason is for nodes that a workload avoids.
const avoidedReason = "node(s) had just rejected a pod of the same owner"

// restraint leaves nodes alone for a while. It stands between the view, which says whether
// a node may be used, and the engine, which is told whether it is to be.
type restraint struct {
	*placement.Engine
	// late are the nodes that may not be used yet as the view has it.
	late map[*state.NodeInfo]struct{}
	// left are the nodes left alone, by UID.
	left map[string]map[why]struct{}
}

func newRestraint(e *placement.Engine) *restraint {
	return &restraint{Engine: e, late: map[*state.NodeInfo]struct{}{}, left: map[string]map[why]struct{}{}}
}

// SetNode implements view.Follower. A node may have been replaced under its name.
func (r *restraint) SetNode(n *state.NodeInfo) {
	r.Engine.SetNode(n)
	r.tell(n)
}

// DropNode implements view.Follower.
func (r *restraint) DropNode(n *state.NodeInfo) {
	delete(r.late, n)
	r.Engine.DropNode(n)
}

// SetUsable implements view.Follower.
func (r *restraint) SetUsable(n *state.NodeInfo, usable bool) {
	delete(r.late, n)
	if !usable {
		r.late[n] = struct{}{}
	}
	r.tell(n)
}

func (r *restraint) tell(n *state.NodeInfo) { r.Engine.SetUsable(n, r.usable(n)) }

// usable says whether a node may be used, and is not left alone.
func (r *restraint) usable(n *state.NodeInfo) bool {
	_, late := r.late[n]
	return !late && len(r.left[n.Node.UID]) == 0
}

// words are the reasons as labels of a metric.
var words = map[why]string{inQuarantine: "quarantine", doubted: "doubt", anothersTurn: "turn"}

// LeftAlone counts the nodes that are left alone, by every reason there is: "quarantine" (what
// is reserved there does not stand), "doubt" (its kubelet has rejected a pod for want of room)
// and "turn" (another shard places there).
func (c *Core) LeftAlone() map[string]int {
	counts := make(map[string]int, len(words))
	for w, word := range words {
		counts[word] = 0
		for _, because := range c.restraint.left {
			if _, is := because[w]; is {
				counts[word]++
			}
		}
	}
	return counts
}

// leave leaves a node alone; letGo ends that. Both may be said again.
func (c *Core) leave(nodeUID string, w why) {
	r := c.restraint
	if r.left[nodeUID] == nil {
		r.left[nodeUID] = map[why]struct{}{}
	}
	r.left[nodeUID][w] = struct{}{}
	c.tellEngine(nodeUID)
}

func (c *Core) letGo(nodeUID string, w why) {
	r := c.restraint
	delete(r.left[nodeUID], w)
	if len(r.left[nodeUID]) == 0 {
		delete(r.left, nodeUID)
	}
	c.tellEngine(nodeUID)
	c.stirred = true
}

func (c *Core) tellEngine(nodeUID string) {
	if n, ok := c.view.Node(nodeUID); ok {
		c.restraint.tell(n)
	}
}

// held is what keeps a pod from nodes that would take it.
type held struct {
	message string
	nodes   int
	// brief: it will be over in less than the queue takes to offer the pod again.
	brief bool
}

// heldBack says whether a pod that found no node would fit some that are left alone or that
// its workload avoids. Others are not counted in its message, as those are not whose facts are
// not there yet.
func (c *Core) heldBack(p *placement.Profile, a *attempt, seed uint64, avoided []string) (held, bool) {
	if len(c.restraint.left)+len(avoided) == 0 {
		return held{}, false
	}
	excluded := map[string]string{}
	brief := true
	for uid, because := range c.restraint.left {
		w := slices.Min(slices.Collect(maps.Keys(because)))
		excluded[uid], brief = reasons[w], brief && w == anothersTurn
	}
	for _, uid := range avoided {
		excluded[uid], brief = avoidedReason, false
	}
	in := placement.Input{
		Pod: a.pod, Nodes: c.view.Nodes(), Objects: c.view.Snapshot(), Seed: seed, Limit: -1,
		Candidates: []*state.NodeInfo{}, Opinions: a.counsel.opinions,
	}
	for _, n := range in.Nodes {
		if _, is := excluded[n.Node.UID]; is {
			in.Candidates = append(in.Candidates, n)
		}
	}
	fit := p.Evaluate(in)
	if len(fit.Feasible) == 0 {
		return held{}, false
	}
	open := map[string]string{}
	for _, s := range fit.Feasible {
		open[s.Node.Node.UID] = excluded[s.Node.Node.UID]
	}
	in.Candidates, in.Excluded = nil, open
	all := p.Evaluate(in)
	return held{message: all.Diagnosis.Message(), nodes: all.NodesTotal, brief: brief}, true
}

// pause is a time of leaving something alone that gets longer when it has to begin anew soon
// after.
type pause struct {
	until time.Time
	// last is when it began last, times how often in a row.
	last  time.Time
	times int
}

// span is how long a pause is the first time, and at most; forgets is after how long
// without one the next is a first again.
type span struct{ first, most, forgets time.Duration }

// begin starts the pause, twice as long as the last time if that was not long ago.
func (p *pause) begin(now time.Time, s span) {
	if now.Sub(p.last) > s.forgets {
		p.times = 0
	}
	d := s.most
	if p.times < maxDoublings {
		d = min(s.first<<p.times, s.most)
	}
	p.times, p.last, p.until = p.times+1, now, now.Add(d)
}

// maxDoublings keeps the shift from overflowing; every span is at its most long before.
const maxDoublings = 16

func (p *pause) on(now time.Time) bool { return now.Before(p.until) }

// over says that it has ended, and so long ago that the next would be a first one.
func (p *pause) over(now time.Time, s span) bool { return !p.on(now) && now.Sub(p.last) > s.forgets }
