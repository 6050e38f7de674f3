package decide

import (
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/services/scheduler/internal/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/internal/record"
	"github.com/berth-scheduler/berth/services/scheduler/internal/search"
	"github.com/berth-scheduler/berth/services/scheduler/internal/txn"
)

const (
	// decisionsPerStep bounds a step, so that facts and results are never far behind.
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

// try takes one attempt as far as it goes now.
func (c *Core) try(a *attempt.Attempt) {
	o := a.Offer
	if _, ok := c.shard.Holds(o.Partition); !ok {
		c.life.GiveBack(a)
		return
	}
	if c.shard.Store.Position().Sequence < o.FactSequence || !c.shard.Usable() || c.terms.MustWait(a) {
		c.life.Defer(a)
		return
	}
	pod, ok := c.shard.View.Pod(o.Pod.UID)
	if !ok || pod.NodeName != "" || pod.Deleting || pod.Gated {
		c.life.GiveBack(a) // the queue sees the same facts and files the pod where it belongs
		return
	}
	if _, _, reserved := c.shard.Ledger.Entry(o.Pod.UID); reserved {
		c.life.GiveBack(a)
		return
	}
	profile, ok := c.shard.Profiles[pod.SchedulerName]
	if !ok {
		c.life.GiveBack(a)
		return
	}
	a.Pod = pod
	c.place(a, profile)
}

// place evaluates the pod and stages it, parks it, or waits for nodes that are behind or for
// what its rules about other nodes need.
func (c *Core) place(a *attempt.Attempt, profile *placement.Profile) {
	volumes, err := c.shard.Claims.Of(a.Pod, profile)
	if err != nil {
		c.life.Fail(a, err.Error())
		return
	}
	if !c.shard.Claims.Free(volumes) {
		c.life.Defer(a)
		return
	}
	concern, err := c.rules.ConcernOf(a.Pod, profile)
	if err != nil {
		c.life.Fail(a, err.Error())
		return
	}
	behind := c.shard.View.Settle()
	c.effects.Behind(behind)
	avoided := c.shard.Avoid.AvoidedBy(a.Pod, c.shard.Now)
	extended := profile.Extended(a.Pod)
	if !concern.Uncertain && !volumes.Any() && !extended && c.preempt.PlaceKept(a, profile, &concern, avoided) {
		return
	}
	result := c.search.Find(a, profile, volumes, &concern, avoided)
	ok := len(result.Feasible) > 0
	if result.Err != nil {
		c.life.Fail(a, result.Err.Error())
		return
	}
	if !ok && behind > 0 || concern.Uncertain {
		c.life.Defer(a)
		return
	}
	if !ok && c.consults.Reconsult(a, result.Diagnosis) || extended && c.consults.AskAboutNodes(a, profile, result) {
		return
	}
	if !ok {
		result.Unsettled = volumes.MaybeLater()
		c.nowhere(a, profile, result, avoided)
		return
	}
	evidence := c.record.Evidence(a, profile, result, behind)
	if a.Turn.Granted {
		c.record.Prefer(evidence, a.Turn.NodeUID)
		search.PreferNode(result.Feasible, a.Turn.NodeUID)
	}
	node, needs := c.rules.Choose(a, &concern, result.Feasible)
	if node == nil {
		c.life.Defer(a)
		return
	}
	volumes, ok, err = c.shard.Claims.Pick(volumes, profile, a.On(node.Node))
	switch {
	case err != nil:
		c.life.Fail(a, err.Error())
		return
	case !ok:
		c.life.Defer(a)
		return
	}
	if !c.terms.Registered(a, needs, volumes) {
		return
	}
	a.Pick = c.life.PickOf(a, node, needs)
	a.Pick.Feasible = result.FeasibleCount
	a.Pick.Evidence = c.record.Chose(evidence)
	a.Pick.Volumes = volumes
	c.reserver.Remember(a, result.Feasible, !concern.None() || volumes.Any() || extended)
	c.shard.View.Stage(a.Pod, a.Pick.NodeName)
	c.performing.Proceed(a)
}

// nowhere ends an attempt that found no node, or makes it wait if it will find one that is
// only left alone for now. Then it is no verdict that an event could change, but an error,
// which the queue repeats after a while.
func (c *Core) nowhere(a *attempt.Attempt, p *placement.Profile, r record.Look, avoided []string) {
	seed := attempt.Seed(a.Pod.UID, a.Offer.Attempt)
	h, held := c.search.HeldBack(p, a, seed, avoided)
	switch {
	case held && h.Brief:
		c.life.Defer(a)
	case held:
		c.life.Fail(a, h.Message)
	default:
		c.reject(a, p, r)
	}
}
