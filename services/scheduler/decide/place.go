package decide

import (
	"github.com/berth-scheduler/berth/pkg/events/evidence"
	"github.com/berth-scheduler/berth/pkg/ledger/guard"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/scheduler/decide/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/decide/claims"
	"github.com/berth-scheduler/berth/services/scheduler/decide/record"
	"github.com/berth-scheduler/berth/services/scheduler/decide/search"
	"github.com/berth-scheduler/berth/services/scheduler/decide/txn"
)

const (
	// decisionsPerStep bounds a step, so that facts and results are applied without much delay.
	decisionsPerStep = 24
)

func (c *Core) hasRoom() bool {
	return c.attempts.Count(attempt.Staged) < txn.BatchPods && !c.shard.Draining && !c.preempt.Quiet()
}

// decide tries pending attempts in order until the next batch is full.
func (c *Core) decide() {
	for n := 0; n < decisionsPerStep && c.attempts.Count(attempt.Pending) > 0 && c.hasRoom(); n++ {
		c.try(c.attempts.Next())
	}
}

// try decides one attempt as far as possible now.
func (c *Core) try(a *attempt.Attempt) {
	t := trial{attempt: a}
	o := c.admit(&t)
	if o.is == open {
		o = c.place(&t)
	}
	c.finish(&t, o)
}

// trial is the state of one attempt while it is decided.
type trial struct {
	attempt *attempt.Attempt
	profile *placement.Profile
	volumes claims.Supply
	concern guard.Concern
	// avoided are the UIDs of nodes that the pod avoids because of its owner; behind is how many nodes cannot be
	// used yet.
	avoided []string
	behind  int
	// found is the result of the search, evidence its record.
	found    record.Look
	evidence *evidence.Evidence
	// node is the choice, with what it needs.
	node  *state.NodeInfo
	needs attempt.Needs
}

// outcome is the result of a trial. why is set for failed.
type outcome struct {
	is  ending
	why string
}

type ending uint8

const (
	// open: not decided yet.
	open ending = iota
	// placed: has a node and counts there.
	placed
	// deferred: is decided again once something has changed.
	deferred
	// failed: ends; the queue backs the pod off.
	failed
	// returned: is given back untried.
	returned
	// rejected: fits nowhere.
	rejected
	// passed: another part has put the attempt where it waits, or has ended it.
	passed
)

func failure(err error) outcome { return outcome{failed, err.Error()} }

// finish puts an attempt where its outcome sends it.
func (c *Core) finish(t *trial, o outcome) {
	a := t.attempt
	switch o.is {
	case placed:
		c.performing.Proceed(a)
	case deferred:
		c.life.Defer(a)
	case failed:
		c.life.Fail(a, o.why)
	case returned:
		c.life.GiveBack(a)
	case rejected:
		c.reject(a, t.profile, t.found)
	case open, passed:
	}
}

// admit reports whether an attempt may be decided now: the shard owns the pod's partition, and its facts show a
// waiting pod.
func (c *Core) admit(t *trial) outcome {
	a := t.attempt
	if _, ok := c.shard.Holds(a.Offer.Partition); !ok {
		return outcome{is: returned}
	}
	if c.shard.Store.Position().Sequence < a.Offer.FactSequence || !c.shard.Usable() || c.terms.MustWait(a) {
		return outcome{is: deferred}
	}
	pod, ok := c.shard.View.Pod(a.Offer.Pod.UID)
	if !ok || pod.NodeName != "" || pod.Deleting || pod.Gated {
		return outcome{is: returned} // the queue sees the same facts and files the pod where it belongs
	}
	if _, _, reserved := c.shard.Ledger.Entry(pod.UID); reserved {
		return outcome{is: returned}
	}
	if t.profile, ok = c.shard.Profile(pod); !ok {
		return outcome{is: returned}
	}
	a.Pod = pod
	return outcome{}
}

// place decides where to place a pod, step by step. The first step with an outcome ends it.
func (c *Core) place(t *trial) outcome {
	o := c.demands(t) // 1. what the pod's claims and its rules about other nodes require
	if o.is == open {
		o = c.takeKept(t) // 2. a place that is kept for it
	}
	if o.is == open {
		o = c.find(t) // 3. the nodes that it may be placed on
	}
	if o.is == open {
		o = c.ask(t) // 4. the opinions of extenders and plugins about them
	}
	if o.is == open {
		o = c.choose(t) // 5. the best node on which its rules can be guaranteed
	}
	if o.is == open {
		o = c.supply(t) // 6. volumes and devices for its claims there, and the registration of its terms
	}
	if o.is == open {
		o = c.stage(t) // 7. counted on that node until its transaction has been answered
	}
	return o
}

// demands determines what a pod needs beyond its node.
func (c *Core) demands(t *trial) outcome {
	var err error
	if t.volumes, err = c.shard.Claims.Of(t.attempt.Pod, t.profile); err != nil {
		return failure(err)
	}
	if !c.shard.Claims.Free(t.volumes) {
		return outcome{is: deferred}
	}
	if t.concern, err = c.rules.ConcernOf(t.attempt.Pod, t.profile); err != nil {
		return failure(err)
	}
	t.behind = c.shard.View.Settle()
	c.effects.Behind(t.behind)
	t.avoided = c.shard.Avoid.AvoidedBy(t.attempt.Pod, c.shard.Now)
	return outcome{}
}

// takeKept stages a pod in a place that is kept for it, if there is one where it fits.
func (c *Core) takeKept(t *trial) outcome {
	if t.concern.Uncertain || t.volumes.Any() || t.profile.Extended(t.attempt.Pod) {
		return outcome{}
	}
	if c.preempt.PlaceKept(t.attempt, t.profile, &t.concern, t.avoided) {
		return outcome{is: passed}
	}
	return outcome{}
}

// find looks for the nodes that a pod may be placed on. If only nodes that are behind are left, it waits for them.
func (c *Core) find(t *trial) outcome {
	t.found = c.search.Find(t.attempt, t.profile, t.volumes, &t.concern, t.avoided)
	if t.found.Err != nil {
		return failure(t.found.Err)
	}
	if len(t.found.Feasible) == 0 && t.behind > 0 || t.concern.Uncertain {
		return outcome{is: deferred}
	}
	return outcome{}
}

// ask makes an attempt wait for extenders and plugins, if they have to be asked.
func (c *Core) ask(t *trial) outcome {
	none := len(t.found.Feasible) == 0
	if none && c.consults.Reconsult(t.attempt, t.found.Diagnosis) ||
		t.profile.Extended(t.attempt.Pod) && c.consults.AskAboutNodes(t.attempt, t.profile, t.found) {
		return outcome{is: passed}
	}
	if none {
		return c.nowhere(t)
	}
	return outcome{}
}

// nowhere returns the outcome of an attempt that found no node. If the pod would fit on a node that it only avoids
// for now, that is no verdict that an event could change: the attempt waits briefly, or fails with an error, and the
// queue retries it after a while.
func (c *Core) nowhere(t *trial) outcome {
	t.found.Unsettled = t.volumes.MaybeLater()
	seed := attempt.Seed(t.attempt.Pod.UID, t.attempt.Offer.Attempt)
	h, held := c.search.HeldBack(t.profile, t.attempt, seed, t.avoided)
	switch {
	case held && h.Brief:
		return outcome{is: deferred}
	case held:
		return outcome{failed, h.Message}
	}
	return outcome{is: rejected}
}

// choose picks the best node for which all pods in its topology domains are counted.
func (c *Core) choose(t *trial) outcome {
	a := t.attempt
	t.evidence = c.record.Evidence(a, t.profile, t.found, t.behind)
	if a.Turn.Granted {
		c.record.Prefer(t.evidence, a.Turn.NodeUID)
		search.PreferNode(t.found.Feasible, a.Turn.NodeUID)
	}
	if t.node, t.needs = c.rules.Choose(a, &t.concern, t.found.Feasible); t.node == nil {
		return outcome{is: deferred}
	}
	return outcome{}
}

// supply picks the volumes and devices for a pod's claims on its node, and gets its terms registered.
func (c *Core) supply(t *trial) outcome {
	v, ok, err := c.shard.Claims.Pick(t.volumes, t.profile, t.attempt.On(t.node.Node))
	switch {
	case err != nil:
		return failure(err)
	case !ok:
		return outcome{is: deferred}
	}
	t.volumes = v
	if !c.terms.Registered(t.attempt, t.needs, v) {
		return outcome{is: passed}
	}
	return outcome{}
}

// stage makes the pod count on its node.
func (c *Core) stage(t *trial) outcome {
	a := t.attempt
	a.Pick = c.life.PickOf(a, t.node, t.needs)
	a.Pick.Feasible = t.found.FeasibleCount
	a.Pick.Evidence = c.record.Chose(t.evidence)
	a.Pick.Volumes = t.volumes
	alone := !t.concern.None() || t.volumes.Any() || t.profile.Extended(a.Pod)
	c.reserver.Remember(a, t.found.Feasible, alone)
	c.shard.View.Stage(a.Pod, a.Pick.NodeName)
	return outcome{is: placed}
}
