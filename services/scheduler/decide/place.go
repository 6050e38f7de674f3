package decide

import (
	"slices"

	"github.com/berth-scheduler/berth/pkg/events/evidence"
	"github.com/berth-scheduler/berth/pkg/ledger/guard"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/scheduler/decide/advice"
	"github.com/berth-scheduler/berth/services/scheduler/decide/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/decide/claims"
	"github.com/berth-scheduler/berth/services/scheduler/decide/crossnode"
	"github.com/berth-scheduler/berth/services/scheduler/decide/gangs"
	"github.com/berth-scheduler/berth/services/scheduler/decide/lifecycle"
	"github.com/berth-scheduler/berth/services/scheduler/decide/preempt"
	"github.com/berth-scheduler/berth/services/scheduler/decide/record"
	"github.com/berth-scheduler/berth/services/scheduler/decide/reserve"
	"github.com/berth-scheduler/berth/services/scheduler/decide/search"
	"github.com/berth-scheduler/berth/services/scheduler/decide/shard"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

// placer decides where to place the pods of attempts, one attempt at a time. It has no state of its own: an attempt
// that is put back is decided from scratch, on the state at that time.
type placer struct {
	shard      *shard.State
	attempts   *attempt.Queues
	effects    *step.Effects
	record     *record.Recorder
	life       *lifecycle.Attempts
	rules      *crossnode.Rules
	terms      *crossnode.Terms
	search     *search.Searcher
	reserver   *reserve.Reserver
	performing *advice.Plugins
	consults   *advice.Consults
	preempt    *preempt.Preemption
	gangs      *gangs.Former
}

// try decides one attempt as far as possible now.
func (p *placer) try(a *attempt.Attempt) {
	t := trial{attempt: a}
	o := p.admit(&t)
	if o.is == undecided {
		if g, gang := p.gangs.Try(a, t.profile); gang {
			o = outcome{is: endings[g.Is], why: g.Why}
		} else {
			o = p.place(&t)
		}
	}
	p.finish(&t, o)
}

// trial is the state of one attempt while it is decided. Each step of place fills in its part. A trial lives for one
// call of try; what must outlive it is in the attempt.
type trial struct {
	attempt *attempt.Attempt
	profile *placement.Profile
	// volumes has the needs of the pod's claims, and from step 6 on their picks. concern are the rules and terms that
	// concern the pod beyond its node.
	volumes claims.Supply
	concern guard.Concern
	// avoided are the UIDs of nodes that the pod avoids because of its owner; behind is how many nodes cannot be
	// used yet.
	avoided []string
	behind  int
	// found is the result of the search, evidence its record.
	found    record.Evaluation
	evidence *evidence.Evidence
	// node is the choice, with what it needs.
	node  *state.NodeInfo
	needs attempt.Needs
}

// outcome is the result of a trial, from a closed set. why is the message for failed and heldBack, and empty otherwise.
// The zero value is undecided: the next step follows.
type outcome struct {
	is  ending
	why string
}

type ending uint8

const (
	// undecided: not decided yet.
	undecided ending = iota
	// placed: has a node and counts there.
	placed
	// deferred: is decided again once something has changed.
	deferred
	// failed: ends; the queue backs the pod off.
	failed
	// heldBack: fits only on nodes that it avoids for now; the queue backs the pod off.
	heldBack
	// returned: is given back untried.
	returned
	// rejected: fits nowhere.
	rejected
	// handedOver: another part has put the attempt where it waits, or has ended it.
	handedOver
)

// failure returns the outcome of an attempt that cannot be decided: the error is in the pod or its objects.
func failure(err error) outcome { return outcome{is: failed, why: err.Error()} }

// finish puts an attempt where its outcome sends it. It is the only place where a trial moves its attempt, but for
// steps that hand the attempt to another part (handedOver).
func (p *placer) finish(t *trial, o outcome) {
	a := t.attempt
	switch o.is {
	case placed:
		p.performing.Proceed(a)
	case deferred:
		p.life.Defer(a)
	case failed:
		p.life.Fail(a, o.why)
	case heldBack:
		p.life.HoldBack(a, o.why, t.found.Withheld)
	case returned:
		p.life.GiveBack(a)
	case rejected:
		p.reject(a, t.profile, t.found)
	case undecided, handedOver:
	}
}

// admit reports whether an attempt may be decided now: the shard owns the pod's partition, and its facts show a
// waiting pod. An attempt of which the facts are older than those of the queue waits for them; otherwise the offer
// and the facts disagree about the pod, and the offer is returned.
func (p *placer) admit(t *trial) outcome {
	a := t.attempt
	if _, ok := p.shard.Holds(a.Offer.Partition); !ok {
		return outcome{is: returned}
	}
	if p.shard.Store.Position().Sequence < a.Offer.FactSequence || !p.shard.Usable() || p.terms.MustWait(a) {
		return outcome{is: deferred}
	}
	pod, ok := p.shard.View.Pod(a.Offer.Pod.UID)
	if !ok || pod.NodeName != "" || pod.Deleting || pod.Gated || pod.Terminal {
		return outcome{is: returned} // the queue sees the same facts and files the pod where it belongs
	}
	if _, _, reserved := p.shard.Ledger.Entry(pod.UID); reserved {
		return outcome{is: returned}
	}
	if t.profile, ok = p.shard.Profiles[pod.SchedulerName]; !ok {
		return outcome{is: returned}
	}
	a.Pod = pod
	return outcome{}
}

// place decides where to place a pod, step by step. The first step with an outcome ends it. Before step 7 (or 2, for
// a kept place) the pod counts nowhere, so that the attempt can be put back after any step. The order matters: a
// kept place is tried before all nodes are evaluated, which is the most expensive step, and questions are asked only
// about nodes that pass.
func (p *placer) place(t *trial) outcome {
	o := p.demands(t) // 1. what the pod's claims and its rules about other nodes require
	if o.is == undecided {
		o = p.takeKept(t) // 2. a place that is kept for it
	}
	if o.is == undecided {
		o = p.find(t) // 3. the nodes that it may be placed on
	}
	if o.is == undecided {
		o = p.askAdvice(t) // 4. the opinions of extenders and plugins about them
	}
	if o.is == undecided {
		o = p.choose(t) // 5. the best node on which its rules can be guaranteed
	}
	if o.is == undecided {
		o = p.supply(t) // 6. volumes and devices for its claims there, and the registration of its terms
	}
	if o.is == undecided {
		o = p.stage(t) // 7. counted on that node until its transaction has been answered
	}
	return o
}

// demands determines what a pod needs beyond its node. A claim for one pod that another pod still uses makes the
// attempt wait, as its end will change the facts. Nodes whose documents are ahead of the facts are left out from
// here on (behind).
func (p *placer) demands(t *trial) outcome {
	var err error
	if t.volumes, err = p.shard.Claims.SupplyFor(t.attempt.Pod, t.profile); err != nil {
		return failure(err)
	}
	if !p.shard.Claims.Available(t.volumes) {
		return outcome{is: deferred}
	}
	if t.concern, err = p.rules.ConcernOf(t.attempt.Pod, t.profile); err != nil {
		return failure(err)
	}
	t.behind = p.shard.View.Settle()
	p.effects.CountBehind(t.behind)
	t.avoided = p.shard.Avoid.AvoidedBy(t.attempt.Pod, p.shard.Now)
	return outcome{}
}

// takeKept stages a pod in a place that is kept for it, if there is one where it fits. Pods with claims or extenders
// take none: it is not checked whether these find what they need there.
func (p *placer) takeKept(t *trial) outcome {
	if t.concern.Uncertain || t.volumes.Any() || t.profile.Extended(t.attempt.Pod) {
		return outcome{}
	}
	if p.preempt.Places.Place(t.attempt, t.profile, &t.concern, t.avoided) {
		return outcome{is: handedOver}
	}
	return outcome{}
}

// find looks for the nodes that a pod may be placed on. If only nodes that are behind are left, it waits for them:
// the verdict that the pod fits nowhere would be premature. So it does while its rules about other pods are
// uncertain.
func (p *placer) find(t *trial) outcome {
	t.found = p.search.Find(t.attempt, t.profile, t.volumes, &t.concern, t.avoided)
	if t.found.Err != nil {
		return failure(t.found.Err)
	}
	if len(t.found.Feasible) == 0 && t.behind > 0 || t.concern.Uncertain {
		return outcome{is: deferred}
	}
	return outcome{}
}

// askAdvice makes an attempt wait for extenders and plugins, if they have to be asked. It is passed twice: without
// answers it sends the question, and in the second trial the search has used the answers. With no node left, the
// pod's fate is decided in outcomeWithoutNode, unless some nodes have not been asked about.
func (p *placer) askAdvice(t *trial) outcome {
	none := len(t.found.Feasible) == 0
	if none && p.consults.Reconsult(t.attempt, t.found.Diagnosis) ||
		t.profile.Extended(t.attempt.Pod) && p.consults.AskAboutNodes(t.attempt, t.profile, t.found) {
		return outcome{is: handedOver}
	}
	if none {
		return p.outcomeWithoutNode(t)
	}
	return outcome{}
}

// outcomeWithoutNode returns the outcome of an attempt that found no node. If the pod would fit on a node that it
// only avoids for now, that is no verdict that an event could change: the attempt waits briefly, or fails with an
// error, and the queue retries it after a while. The record of a pod that is held back has the nodes that would take
// it, for the marks that autoscalers see.
func (p *placer) outcomeWithoutNode(t *trial) outcome {
	t.found.Unsettled = t.volumes.MaybeLater()
	seed := attempt.Seed(t.attempt.Pod.UID, t.attempt.Offer.Attempt)
	h, held := p.search.FitsOnAvoided(t.profile, t.attempt, seed, t.avoided)
	switch {
	case held && h.Transient:
		return outcome{is: deferred}
	case held:
		t.found.Withheld = h.Nodes
		return outcome{is: heldBack, why: h.Message}
	case !t.volumes.Any() && !t.profile.Extended(t.attempt.Pod):
		t.found.Withheld = record.Withheld(slices.Concat(
			t.found.Withheld, p.preempt.Places.Withheld(t.attempt.Pod, t.profile, &t.concern)))
	}
	t.found.Diagnosis = t.found.Diagnosis.Awaiting(h.Plugins)
	return outcome{is: rejected}
}

// choose picks the best node for which all pods in its topology domains are counted. An attempt whose turn has been
// granted prefers the node of its turn, which no other shard uses meanwhile. The evidence is collected before, while
// the engine's result is valid.
func (p *placer) choose(t *trial) outcome {
	a := t.attempt
	t.evidence = p.record.Evidence(a, t.profile, t.found, t.behind)
	if a.Turn.Granted {
		p.record.Prefer(t.evidence, a.Turn.NodeUID)
		search.PreferNode(t.found.Feasible, a.Turn.NodeUID)
	}
	if t.node, t.needs = p.rules.Choose(a, &t.concern, t.found.Feasible); t.node == nil {
		return outcome{is: deferred}
	}
	return outcome{}
}

// supply picks the volumes and devices for a pod's claims on its node, and gets its terms registered. An attempt
// with terms that the ledger does not know yet waits for their registration, and is then decided again.
func (p *placer) supply(t *trial) outcome {
	a := t.attempt
	v, ok, err := p.shard.Claims.Pick(t.volumes, t.profile, claims.Target{
		Pod: a.Pod, Node: t.node.Node, Seed: attempt.Seed(a.Pod.UID, a.Offer.Attempt),
	})
	switch {
	case err != nil:
		return failure(err)
	case !ok:
		return outcome{is: deferred}
	}
	t.volumes = v
	if !p.terms.Registered(a, t.needs, v) {
		return outcome{is: handedOver}
	}
	return outcome{}
}

// stage makes the pod count on its node, in this shard only: other shards see it when the transaction has been
// committed. The next-best nodes are remembered, so that a lost race need not cost another search.
func (p *placer) stage(t *trial) outcome {
	a := t.attempt
	a.Pick = p.life.PickOf(a, t.node, t.needs)
	a.Pick.Feasible = t.found.FeasibleCount
	a.Pick.Evidence = p.record.NumberChoice(t.evidence)
	a.Pick.Volumes = t.volumes
	alone := !t.concern.None() || t.volumes.Any() || t.profile.Extended(a.Pod)
	p.reserver.StoreAlternatives(a, t.found.Feasible, alone)
	p.shard.View.Stage(a.Pod, a.Pick.NodeName)
	return outcome{is: placed}
}

// reject ends an attempt that fits nowhere, as soon as that is certain. The verdict is as of the state that was
// evaluated, or of the question to extenders and plugins if they were asked, so that no event after it is missed.
// PostFilter plugins come before preemption.
func (p *placer) reject(a *attempt.Attempt, profile *placement.Profile, r record.Evaluation) {
	from := p.life.Positions()
	if a.Advice.Opinions != nil {
		from = a.Advice.From
	}
	d := p.life.Verdict(a, from)
	d.Message = r.Diagnosis.Message()
	d.Plugins = r.Diagnosis.Plugins()
	d.Reasons = r.Diagnosis.Reasons()
	d.Withheld = r.Withheld
	d.NodesTotal = int32(r.NodesTotal)
	d.Seed = attempt.Seed(a.Pod.UID, a.Offer.Attempt)
	d.Evidence = p.record.Evidence(a, profile, r, 0)
	rejected := attempt.Rejection{
		Attempt: a, Decision: d, Counted: p.attempts.StagedPods(), Withdrawn: from.Withdrawn, Unsettled: r.Unsettled,
		DependsOnHolds: r.DependsOnHolds,
	}
	if !p.performing.PostFilter(rejected, profile) {
		p.preempt.Reject(rejected)
	}
}
