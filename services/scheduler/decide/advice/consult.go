package advice

import (
	"maps"
	"strings"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/engine"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/scheduler/decide/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/decide/lifecycle"
	"github.com/berth-scheduler/berth/services/scheduler/decide/record"
	"github.com/berth-scheduler/berth/services/scheduler/decide/shard"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

// A pod that custom plugins or extenders take part in (Profile.Extended) is decided in two looks. The first look
// finds the nodes that the rules pass, and asks about them: a Consult is sent, and the attempt waits for its Advice
// while others are decided. Plugins that guide the choice of nodes (Profile.Guided) are asked even if no node
// passes. Plugins that may hold the pod back (Config.Gates), or act if it fits nowhere (Config.PostFilters), are
// asked in any case. The second look uses the state at that time, with the opinions: the rules are evaluated again,
// plugins and extenders are not. A node that passes only now cannot be chosen, as no extender has been asked about
// it; if no other node is left, another question is sent.
//
// An opinion is valid as of its question. An attempt that loses its node, or must be decided again for another
// reason, asks again. An attempt that fits nowhere has its verdict as of the question, so that every later event
// wakes the pod.
//
// Custom plugins look at the pods on nodes, and upstream asks them about one pod after the other. So only one
// question to them is open at a time, and its answer is used before the next is sent. A node that they pass, but
// that has changed since it was shown to them, counts as one that was not asked about. A node that they have
// rejected stays rejected: if they were asked again whenever a node changes, a pod that fits nowhere in a large
// cluster would never get its verdict.

const (
	// maxQuestions is how many questions one attempt may ask. It asks more than one if it was nominated to a node
	// that an extender rejects, if it lost a race, or if the set of nodes that pass has changed by the time of the
	// answer.
	maxQuestions = 8
)

// notAsked is the reason for not choosing a node without an opinion on it.
const notAsked = "node(s) that plugins and extenders have not been asked about"

// notAskedOnly is the list with only that reason, shared.
var notAskedOnly = []string{notAsked}

// Consults sends the questions to extenders and plugins.
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

	// vetted maps a question about a held place to its plan.
	vetted map[uint64]string
	// questions counts the questions, for their IDs.
	questions uint64
	// shown are the copies of nodes that custom plugins were last shown, by name, with question shownFor.
	shown    map[string]*state.NodeInfo
	shownFor uint64
}

// NewConsults returns the Consults of a shard without open questions. gates holds the scheduler names whose plugins
// decide whether a pod may be tried.
func NewConsults(life *lifecycle.Attempts, by *Plugins, p Plans, gates map[string]bool) *Consults {
	return &Consults{
		shard: life.Shard, attempts: life.Attempts, record: life.Record, effects: life.Record.Effects, life: life,
		gatesFor: gates, performing: by, plans: p, vetted: map[uint64]string{},
	}
}

// Extend adds the answers of plugins and extenders to a query, or, without answers, removes its limit, as they must
// be asked about all nodes.
func (cs *Consults) Extend(q engine.Query, a *attempt.Attempt) engine.Query {
	q.Everywhere = q.Everywhere || a.Advice.Everywhere
	if a.Advice.Shown != nil && a.Advice.ShownFor != cs.shownFor {
		a.Advice.Forget() // another attempt has been shown nodes since, and its pod may be on one of them
	}
	if a.Advice.Opinions == nil {
		q.Limit = -1
		return q
	}
	q.Opinions, q.Guidance = maps.Clone(a.Advice.Opinions), a.Advice.Guidance
	for _, n := range cs.shard.View.Nodes() {
		if o, asked := q.Opinions[n.Node.Name]; !asked || !o.Rejected && a.Advice.Outdated(n) {
			q.Opinions[n.Node.Name] = placement.Opinion{Rejected: true, Reasons: notAskedOnly}
		}
	}
	return q
}

// AskAboutNodes makes an attempt wait for the opinions of extenders and plugins on the nodes that a look has found;
// false if they have been asked, or need not be.
func (cs *Consults) AskAboutNodes(a *attempt.Attempt, p *placement.Profile, r record.Evaluation) bool {
	gateOnly := len(r.Feasible) == 0 && (!p.Guided() || r.Diagnosis.Everywhere())
	switch {
	case a.Advice.Opinions != nil, gateOnly && !cs.gatesFor[a.Pod.SchedulerName] &&
		!cs.performing.postFiltersFor[a.Pod.SchedulerName]:
		return false
	case cs.Full() || p.Custom() && cs.cycleInProgress(), !cs.performing.preparable(p, a.Pod):
		cs.life.Defer(a)
		return true
	case a.Advice.Questions >= maxQuestions:
		cs.life.Fail(a, "the nodes that fit were others each time that plugins and extenders had answered")
		return true
	}
	a.Advice.Questions++
	a.Advice.From = cs.life.Positions()
	a.Advice.Alone = !a.Advice.Everywhere && len(r.Feasible) == 1 &&
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
		q.Cluster = cs.copyNodes()
		cs.shownFor = q.ID
		a.Advice.Shown, a.Advice.ShownFor = cs.shown, q.ID
	}
	cs.attempts.Await(a, attempt.Consulting, q.ID)
	cs.effects.Consult(q)
	return true
}

// cycleInProgress reports whether custom plugins are being asked, or act on their answer.
func (cs *Consults) cycleInProgress() bool {
	if cs.attempts.Count(attempt.Reserving, attempt.Filtering) > 0 || cs.performing.undoesInCycle() {
		return true
	}
	for _, a := range cs.attempts.ByQuestion[attempt.Consulting] {
		if a.Advice.Shown != nil {
			return true
		}
	}
	return false
}

// copyNodes returns copies of all nodes as they are now, for plugins that read them concurrently. A node that has not
// changed since the last call is not copied again.
func (cs *Consults) copyNodes() []*state.NodeInfo {
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

// Reconsult makes an attempt ask again if it fits nowhere, but some nodes were not asked about, or if it has asked
// about the nominated node only. The latter is upstream's behavior.
func (cs *Consults) Reconsult(a *attempt.Attempt, d placement.Diagnosis) bool {
	if a.Advice.Opinions == nil || !a.Advice.Alone && d.Reasons()[notAsked] == 0 {
		return false
	}
	a.Advice.Everywhere = true
	cs.life.Requeue(a)
	return true
}

// OnAdvice applies an answer. The attempt that asked is put before all other deferred ones, which may have to ask as
// well. It may have been given back since.
func (cs *Consults) OnAdvice(advice step.Advice) {
	a, waits := cs.attempts.TakeAnswered(attempt.Consulting, advice.ID)
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
	case advice.Err != nil && a.Advice.Alone:
		a.Advice.Everywhere = true // as upstream, which tries the nominated node first and then all nodes
	case advice.Err != nil:
		cs.life.Fail(a, advice.Err.Error())
		return
	}
	a.Advice.Opinions, a.Advice.Guidance = advice.Opinions, advice.Guidance
	cs.attempts.Prepend(attempt.Deferred, a)
}

// holdBack ends the attempt at a pod that a plugin does not want tried yet. The decision is as of the question.
func (cs *Consults) holdBack(a *attempt.Attempt, by *step.Refusal) {
	d, from := cs.record.Decision(events.DecisionHeldBack, a), a.Advice.From
	d.FactSequence = from.Facts.Sequence
	d.FactEpoch = from.Facts.Epoch
	d.LedgerRevision = from.Ledger
	d.Message, d.Plugins = strings.Join(by.Reasons, ", "), []string{by.Plugin}
	cs.effects.Decide(d)
	cs.life.Drop(a)
}

// Dismiss gives back the attempts that wait for extenders or plugins.
func (cs *Consults) Dismiss() {
	for _, a := range cs.attempts.TakeAll(attempt.Consulting) {
		cs.life.GiveBack(a)
	}
	clear(cs.vetted)
}
