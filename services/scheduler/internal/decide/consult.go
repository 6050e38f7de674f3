package decide

import (
	"maps"
	"strings"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/engine"
	"github.com/berth-scheduler/berth/pkg/placement/preempt"
	"github.com/berth-scheduler/berth/pkg/state"
)

// A pod that custom plugins or extenders have a say in (Profile.Extended) is decided in two looks. The first finds
// the nodes that the rules let pass, and asks about them: a Consult goes out, and the attempt waits for its Advice
// while others go on. Plugins that have a say before nodes are looked at (Profile.Guided) are asked even if there
// are none, and those that may hold the pod back (Config.Gates), or have something to do if it fits nowhere
// (Config.PostFilters), in any case. The second is made on what is true
// then, with the opinions: rules are asked again, the others are not. A node that has come to pass meanwhile is
// none to choose, as nobody has been asked about it; if no other is left, there is another question.
//
// An opinion is as old as its question. An attempt that loses its node, or has to be decided again
// for another reason, asks again; one that fits nowhere has its verdict as of the question, so that
// everything later wakes the pod.
//
// Custom plugins look at what stands on nodes, and upstream asks them about one pod after the other. So there
// is one question to them at a time, its answer is used before the next goes out, and a node that they let
// pass, and on which something has changed since it was shown, counts as one that nobody has been asked
// about. What they have turned down stays so: asked again whenever a node changes, a pod that fits nowhere in a
// large cluster would never come to its end.

const (
	// MaxConsults is how many attempts of a shard wait for extenders at once: some, as most of the
	// time goes into waiting; few, as an extender may have been written for a caller that asks
	// about one pod after the other.
	MaxConsults = 8
	// maxQuestions is how often one attempt may ask. It asks more than once where it has been
	// nominated to a node that an extender turns down, where a race was lost, and where the nodes
	// that pass are others by the time of the answer.
	maxQuestions = 8
)

// notAsked is the reason that a node is not chosen without an opinion of it.
const notAsked = "node(s) that plugins and extenders have not been asked about"

// notAskedOnly is the list of it, shared.
var notAskedOnly = []string{notAsked}

// Consult asks the custom plugins and the extenders of a profile about a pod; the answer comes back as an
// Advice with its ID. With Candidates it is about them, and not about nodes (see consultvictims.go). All that it
// points to is shared, not to be changed.
type Consult struct {
	ID            uint64
	Shard         string
	SchedulerName string
	Pod           *state.Pod
	// GateOnly asks only whether the pod is to be tried: the rules let it nowhere.
	GateOnly bool
	// Nodes are those that the rules let pass, in no order.
	Nodes []*state.Node
	// Cluster is all nodes, in the order of their names, with what counts on them; nil for a profile
	// without custom plugins. A node that has not changed is the same pointer as in other questions.
	Cluster []*state.NodeInfo
	// Candidates are nodes on which the pod fits when others have gone, and who these are, for extenders to say
	// who may.
	Candidates []preempt.Candidate
}

// Advice is the answer to a Consult: what plugins say of the pod as a whole, nil for nothing, and an opinion
// of each node, by name; of candidates, those that are left. HeldBack says that the pod is not to be tried yet. Err
// ends the attempt.
type Advice struct {
	ID       uint64
	HeldBack *Refusal
	Guidance *placement.Guidance
	Opinions map[string]placement.Opinion
	// Candidates are those of the question on which extenders have left victims, perhaps others.
	Candidates []preempt.Candidate
	Err        error
}

// consults is what extenders and plugins are asked.
type consults struct {
	// vetted are the plans of held places that extenders are asked about.
	vetted map[uint64]string
	// questions counts them, for their IDs.
	questions uint64
	// shown are the copies of nodes that custom plugins were last shown, by name, for the question of that ID.
	shown    map[string]*state.NodeInfo
	shownFor uint64
}

// counsel is what an attempt has to do with custom plugins and extenders.
type counsel struct {
	// opinions is nil until there is an answer, guidance also if that has none.
	opinions map[string]placement.Opinion
	guidance *placement.Guidance
	// shown are the nodes as custom plugins were shown them, by name, for the question of that ID; nil where
	// there are none.
	shown    map[string]*state.NodeInfo
	shownFor uint64
	// from is what the question was asked on.
	from standpoint
	// questions is how often it has asked; everywhere: not about the nominated node alone, as it has
	// now if alone is set.
	questions         int
	everywhere, alone bool
	victims           victimCounsel
}

// extends adds to a query what others have said, or asks for all nodes that they have to be
// asked about.
func (c *Core) extends(q engine.Query, a *attempt) engine.Query {
	q.Everywhere = a.counsel.everywhere
	if a.counsel.shown != nil && a.counsel.shownFor != c.consults.shownFor {
		a.counsel.forget() // another attempt has been shown nodes since, and may stand on one of them
	}
	if a.counsel.opinions == nil {
		q.Limit = -1
		return q
	}
	q.Opinions, q.Guidance = maps.Clone(a.counsel.opinions), a.counsel.guidance
	for _, n := range c.view.Nodes() {
		if o, asked := q.Opinions[n.Node.Name]; !asked || !o.Rejected && a.counsel.outdated(n) {
			q.Opinions[n.Node.Name] = placement.Opinion{Rejected: true, Reasons: notAskedOnly}
		}
	}
	return q
}

// consult has an attempt wait for what others say of nodes after a look; false if they have been asked, or are not
// to be asked.
func (c *Core) consult(a *attempt, p *placement.Profile, r looked, out *Output) bool {
	gateOnly := len(r.Feasible) == 0 && (!p.Guided() || r.Diagnosis.Everywhere())
	switch {
	case a.counsel.opinions != nil, gateOnly && !c.cfg.Gates[a.pod.SchedulerName] &&
		!c.cfg.PostFilters[a.pod.SchedulerName]:
		return false
	case c.maxConsults() || p.Custom() && c.showing(), !c.preparable(p, a.pod):
		c.attempts.append(deferred, a)
		return true
	case a.counsel.questions >= maxQuestions:
		c.fail(a, "the nodes that fit were others each time that plugins and extenders had answered", out)
		return true
	}
	a.counsel.questions++
	a.counsel.from = c.standpoint()
	a.counsel.alone = !a.counsel.everywhere && len(r.Feasible) == 1 &&
		a.pod.Status().NominatedNodeName == r.Feasible[0].Node.Node.Name
	c.consults.questions++
	q := Consult{
		ID: c.consults.questions, Shard: c.cfg.Shard, SchedulerName: a.pod.SchedulerName, Pod: a.pod,
		GateOnly: gateOnly,
	}
	for _, s := range r.Feasible {
		q.Nodes = append(q.Nodes, s.Node.Node)
	}
	if p.Custom() {
		q.Cluster = c.show()
		c.consults.shownFor = q.ID
		a.counsel.shown, a.counsel.shownFor = c.consults.shown, q.ID
	}
	c.attempts.ask(a, consulting, q.ID)
	out.Consults = append(out.Consults, q)
	return true
}

// forget has an attempt ask anew.
func (c *counsel) forget() {
	c.opinions = nil
	c.guidance = nil
	c.shown = nil
	c.victims = victimCounsel{}
}

// outdated tells whether custom plugins were shown a node otherwise than it is, or do not know all that stands
// there.
func (c *counsel) outdated(n *state.NodeInfo) bool {
	if c.shown == nil {
		return false
	}
	shown, ok := c.shown[n.Node.Name]
	return !ok || shown.Generation != n.Generation || n.UndescribedPods() > 0
}

// showing tells whether custom plugins are being asked, or act on what they have answered.
func (c *Core) showing() bool {
	if c.attempts.count(reserving, filtering) > 0 || c.performing.inCycle() {
		return true
	}
	for _, a := range c.attempts.asked[consulting] {
		if a.counsel.shown != nil {
			return true
		}
	}
	return false
}

// show is all nodes as they are now, for those who look at them meanwhile. What has not changed since is not
// copied again.
func (c *Core) show() []*state.NodeInfo {
	nodes := c.view.Nodes()
	list, now := make([]*state.NodeInfo, len(nodes)), make(map[string]*state.NodeInfo, len(nodes))
	for i, n := range nodes {
		shown, ok := c.consults.shown[n.Node.Name]
		if !ok || shown.Generation != n.Generation {
			shown = n.Clone()
		}
		list[i], now[n.Node.Name] = shown, shown
	}
	c.consults.shown = now
	return list
}

// reconsult has an attempt ask again that fits nowhere but, perhaps, on nodes that nobody has been
// asked about; and one that has asked about the nominated node alone, as upstream does.
func (c *Core) reconsult(a *attempt, d placement.Diagnosis) bool {
	if a.counsel.opinions == nil || !a.counsel.alone && d.Reasons()[notAsked] == 0 {
		return false
	}
	a.counsel.everywhere = true
	c.again(a)
	return true
}

// advised takes in an answer, and has who asked decided before all others, who may have to ask, too. Who asked
// may have been given back since.
func (c *Core) advised(advice Advice, out *Output) {
	a, waits := c.attempts.answered(consulting, advice.ID)
	if !waits {
		c.vetted(advice)
		return
	}
	switch {
	case a.verdict != nil:
		c.advisedOnVictims(a, advice, out)
		return
	case advice.HeldBack != nil:
		c.holdBack(a, advice.HeldBack, out)
		return
	case advice.Err != nil && a.counsel.alone:
		a.counsel.everywhere = true // as upstream, for which the nominated node is only a first try
	case advice.Err != nil:
		c.fail(a, advice.Err.Error(), out)
		return
	}
	a.counsel.opinions, a.counsel.guidance = advice.Opinions, advice.Guidance
	c.attempts.prepend(deferred, a)
}

// holdBack ends the attempt at a pod that a plugin does not want tried yet; that is as old as the question.
func (c *Core) holdBack(a *attempt, by *Refusal, out *Output) {
	d, from := c.decision(events.DecisionHeldBack, a), a.counsel.from
	d.FactSequence = from.facts.Sequence
	d.FactEpoch = from.facts.Epoch
	d.LedgerRevision = from.ledger
	d.Message, d.Plugins = strings.Join(by.Reasons, ", "), []string{by.Plugin}
	out.Decisions = append(out.Decisions, d)
	c.drop(a)
}

// dismissConsults gives back whoever waits for extenders.
func (c *Core) dismissConsults() {
	for _, a := range c.attempts.takeAll(consulting) {
		c.giveBack(a)
	}
	clear(c.consults.vetted)
}
