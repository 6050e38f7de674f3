package advice

import (
	"maps"
	"strings"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/engine"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/scheduler/internal/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/internal/lifecycle"
	"github.com/berth-scheduler/berth/services/scheduler/internal/record"
	"github.com/berth-scheduler/berth/services/scheduler/internal/shard"
	"github.com/berth-scheduler/berth/services/scheduler/internal/step"
)

// A pod that custom plugins or extenders have a say in (Profile.Extended) is decided in two looks. The first finds
// the nodes that the rules let pass, and asks about them: a Consult goes out, and the attempt waits for its Advice
// while others go on. Plugins that have a say before nodes are looked at (Profile.Guided) are asked even if there
// are none, and those that may hold the pod back (Config.Gates), or have something to do if it fits nowhere
// (Config.PostFilters), in any case. The second is made on what is true
// then, with the opinions: rules are asked again, the others are not. A node that has come to pass meanwhile is
// none to choose, as no extender has been asked about it; if no other is left, there is another question.
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
	// maxQuestions is how often one attempt may ask. It asks more than once where it has been
	// nominated to a node that an extender turns down, where a race was lost, and where the nodes
	// that pass are others by the time of the answer.
	maxQuestions = 8
)

// notAsked is the reason that a node is not chosen without an opinion of it.
const notAsked = "node(s) that plugins and extenders have not been asked about"

// notAskedOnly is the list of it, shared.
var notAskedOnly = []string{notAsked}

// Consults is what extenders and plugins are asked.
type Consults struct {
	shard    *shard.State
	attempts *attempt.Queues
	record   *record.Recorder
	effects  *step.Effects
	life     *lifecycle.Attempts
	// gatesFor are the scheduler names of profiles with plugins that may hold pods back.
	gatesFor   map[string]bool
	performing *Plugins
	plans      Plans

	// vetted are the plans of held places that extenders are asked about.
	vetted map[uint64]string
	// questions counts them, for their IDs.
	questions uint64
	// shown are the copies of nodes that custom plugins were last shown, by name, for the question of that ID.
	shown    map[string]*state.NodeInfo
	shownFor uint64
}

// NewConsults returns the questions of a shard; none is under way. gates holds the scheduler names whose plugins decide
// whether a pod may be tried.
func NewConsults(life *lifecycle.Attempts, by *Plugins, p Plans, gates map[string]bool) *Consults {
	return &Consults{
		shard: life.Shard, attempts: life.Attempts, record: life.Record, effects: life.Record.Effects, life: life,
		gatesFor: gates, performing: by, plans: p, vetted: map[uint64]string{},
	}
}

// Extend adds to a query what others have said, or asks for all nodes that they have to be
// asked about.
func (cs *Consults) Extend(q engine.Query, a *attempt.Attempt) engine.Query {
	q.Everywhere = a.Counsel.Everywhere
	if a.Counsel.Shown != nil && a.Counsel.ShownFor != cs.shownFor {
		a.Counsel.Forget() // another attempt has been shown nodes since, and may stand on one of them
	}
	if a.Counsel.Opinions == nil {
		q.Limit = -1
		return q
	}
	q.Opinions, q.Guidance = maps.Clone(a.Counsel.Opinions), a.Counsel.Guidance
	for _, n := range cs.shard.View.Nodes() {
		if o, asked := q.Opinions[n.Node.Name]; !asked || !o.Rejected && a.Counsel.Outdated(n) {
			q.Opinions[n.Node.Name] = placement.Opinion{Rejected: true, Reasons: notAskedOnly}
		}
	}
	return q
}

// AskAboutNodes makes an attempt wait for what extenders and plugins say of the nodes that a look has found; false if
// they have been asked, or need not be.
func (cs *Consults) AskAboutNodes(a *attempt.Attempt, p *placement.Profile, r record.Look) bool {
	gateOnly := len(r.Feasible) == 0 && (!p.Guided() || r.Diagnosis.Everywhere())
	switch {
	case a.Counsel.Opinions != nil, gateOnly && !cs.gatesFor[a.Pod.SchedulerName] &&
		!cs.performing.postFiltersFor[a.Pod.SchedulerName]:
		return false
	case cs.Full() || p.Custom() && cs.showing(), !cs.performing.preparable(p, a.Pod):
		cs.life.Defer(a)
		return true
	case a.Counsel.Questions >= maxQuestions:
		cs.life.Fail(a, "the nodes that fit were others each time that plugins and extenders had answered")
		return true
	}
	a.Counsel.Questions++
	a.Counsel.From = cs.life.Standpoint()
	a.Counsel.Alone = !a.Counsel.Everywhere && len(r.Feasible) == 1 &&
		a.Pod.Status().NominatedNodeName == r.Feasible[0].Node.Node.Name
	cs.questions++
	q := step.Consult{
		ID: cs.questions, Shard: cs.shard.ID, SchedulerName: a.Pod.SchedulerName, Pod: a.Pod,
		GateOnly: gateOnly,
	}
	for _, s := range r.Feasible {
		q.Nodes = append(q.Nodes, s.Node.Node)
	}
	if p.Custom() {
		q.Cluster = cs.show()
		cs.shownFor = q.ID
		a.Counsel.Shown, a.Counsel.ShownFor = cs.shown, q.ID
	}
	cs.attempts.Ask(a, attempt.Consulting, q.ID)
	cs.effects.Consult(q)
	return true
}

// showing reports whether custom plugins are being asked, or act on what they have answered.
func (cs *Consults) showing() bool {
	if cs.attempts.Count(attempt.Reserving, attempt.Filtering) > 0 || cs.performing.inCycle() {
		return true
	}
	for _, a := range cs.attempts.Asked[attempt.Consulting] {
		if a.Counsel.Shown != nil {
			return true
		}
	}
	return false
}

// show is all nodes as they are now, for those who look at them meanwhile. What has not changed since is not
// copied again.
func (cs *Consults) show() []*state.NodeInfo {
	nodes := cs.shard.View.Nodes()
	list, now := make([]*state.NodeInfo, len(nodes)), make(map[string]*state.NodeInfo, len(nodes))
	for i, n := range nodes {
		shown, ok := cs.shown[n.Node.Name]
		if !ok || shown.Generation != n.Generation {
			shown = n.Clone()
		}
		list[i], now[n.Node.Name] = shown, shown
	}
	cs.shown = now
	return list
}

// Reconsult has an attempt ask again that fits nowhere but, perhaps, on nodes that nobody has been
// asked about; and one that has asked about the nominated node alone, as upstream does.
func (cs *Consults) Reconsult(a *attempt.Attempt, d placement.Diagnosis) bool {
	if a.Counsel.Opinions == nil || !a.Counsel.Alone && d.Reasons()[notAsked] == 0 {
		return false
	}
	a.Counsel.Everywhere = true
	cs.life.Again(a)
	return true
}

// Advised takes in an answer, and has who asked decided before all others, who may have to ask, too. Who asked
// may have been given back since.
func (cs *Consults) Advised(advice step.Advice) {
	a, waits := cs.attempts.Answered(attempt.Consulting, advice.ID)
	if !waits {
		if plan, known := cs.takeVetted(advice.ID); known {
			cs.plans.Vetted(plan, advice)
		}
		return
	}
	switch {
	case a.Verdict != nil:
		cs.advisedOnVictims(a, advice)
		return
	case advice.HeldBack != nil:
		cs.holdBack(a, advice.HeldBack)
		return
	case advice.Err != nil && a.Counsel.Alone:
		a.Counsel.Everywhere = true // as upstream, for which the nominated node is only a first try
	case advice.Err != nil:
		cs.life.Fail(a, advice.Err.Error())
		return
	}
	a.Counsel.Opinions, a.Counsel.Guidance = advice.Opinions, advice.Guidance
	cs.attempts.Prepend(attempt.Deferred, a)
}

// holdBack ends the attempt at a pod that a plugin does not want tried yet; that is as old as the question.
func (cs *Consults) holdBack(a *attempt.Attempt, by *step.Refusal) {
	d, from := cs.record.Decision(events.DecisionHeldBack, a), a.Counsel.From
	d.FactSequence = from.Facts.Sequence
	d.FactEpoch = from.Facts.Epoch
	d.LedgerRevision = from.Ledger
	d.Message, d.Plugins = strings.Join(by.Reasons, ", "), []string{by.Plugin}
	cs.effects.Decide(d)
	cs.life.Drop(a)
}

// Dismiss gives back the attempts that wait for extenders.
func (cs *Consults) Dismiss() {
	for _, a := range cs.attempts.TakeAll(attempt.Consulting) {
		cs.life.GiveBack(a)
	}
	clear(cs.vetted)
}
