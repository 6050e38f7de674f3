package decide

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/scheduler/internal/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/internal/claims"
	"github.com/berth-scheduler/berth/services/scheduler/internal/record"
	"github.com/berth-scheduler/berth/services/scheduler/internal/txn"
)

const (
	// decisionsPerStep bounds a step, so that facts and results are never far behind.
	decisionsPerStep = 24
	// minHome is how many home nodes a shard must have to try them first: fewer are not a
	// fair sample of the cluster, and in a small cluster a lost race costs little.
	minHome = 64
	// minNarrowed is how many home nodes have to let a pod pass that has rules about where it may go, for it to
	// go to one of them: with fewer there is little to choose from, and the others have as few.
	minNarrowed = 8
	// timedShare: of so many attempts, the rules of one are timed. Source: upstream's
	// pluginMetricsSamplePercent (pkg/scheduler/schedule_one.go) of 10.
	timedShare = 10
)

func (c *Core) hasRoom() bool {
	return c.attempts.Count(attempt.Staged) < txn.BatchPods && !c.shard.Draining && !c.plans.quiet
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
	if !concern.Uncertain && !volumes.Any() && !extended && c.placeKept(a, profile, &concern, avoided) {
		return
	}
	onHold := c.onHold(a.Pod, profile, &concern)
	result := c.evaluateWith(volumes, profile, a, search{avoided: avoided, whole: len(onHold) > 0})
	result = c.besideHolds(a, profile, volumes, result, onHold)
	ok := len(result.Feasible) > 0
	if result.Err != nil {
		c.life.Fail(a, result.Err.Error())
		return
	}
	if !ok && behind > 0 || concern.Uncertain {
		c.life.Defer(a)
		return
	}
	if !ok && c.reconsult(a, result.Diagnosis) || extended && c.consult(a, profile, result) {
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
		preferNode(result.Feasible, a.Turn.NodeUID)
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
	c.proceed(a)
}

// nowhere ends an attempt that found no node, or makes it wait if it will find one that is
// only left alone for now. Then it is no verdict that an event could change, but an error,
// which the queue repeats after a while.
func (c *Core) nowhere(a *attempt.Attempt, p *placement.Profile, r record.Look, avoided []string) {
	seed := attempt.Seed(a.Pod.UID, a.Offer.Attempt)
	h, held := c.heldBack(p, a, seed, avoided)
	switch {
	case held && h.brief:
		c.life.Defer(a)
	case held:
		c.life.Fail(a, h.message)
	default:
		c.reject(a, p, r)
	}
}

// preferNode puts a node first if it is among some.
func preferNode(ranked []placement.Scored, nodeUID string) {
	for i := range ranked {
		if ranked[i].Node.Node.UID == nodeUID {
			ranked[0], ranked[i] = ranked[i], ranked[0]
			return
		}
	}
}

// evaluateWith is evaluate with volumes and devices as they are promised.
func (c *Core) evaluateWith(v claims.Supply, profile *placement.Profile, a *attempt.Attempt, s search) record.Look {
	defer c.shard.LookUp(v)()
	return c.evaluate(profile, a, s)
}

// search is which nodes an evaluation finds.
type search struct {
	// avoided are UIDs of nodes that the pod's workload avoids.
	avoided []string
	// whole: all that pass, not the best of them, nor those that are tried first.
	whole bool
}

// evaluate asks the home nodes first when that costs the pod nothing, then all usable nodes, where home nodes rank
// before others of the same total. Rules that count pods elsewhere see all nodes either way.
func (c *Core) evaluate(profile *placement.Profile, a *attempt.Attempt, s search) record.Look {
	avoided := s.avoided
	basis := c.record.Basis(profile, avoided)
	q := placement.Query{Pod: a.Pod, Seed: attempt.Seed(a.Pod.UID, a.Offer.Attempt), HomeFirst: c.shard.HomeFirst}
	if q.HomeFirst {
		c.markHome()
	}
	if !c.shard.NoEvidence {
		q.Weigh = events.EvidenceCandidates
	}
	if len(avoided) > 0 {
		q.Limit = placement.TopK + len(avoided)
	}
	if profile.Extended(a.Pod) {
		q = c.extends(q, a)
		if q.Opinions != nil {
			basis.Way = events.WayAdvised
		}
	} else if q.HomeFirst && plain(a.Pod) && !s.whole {
		if usable, home := c.shard.Engine.Candidates(); home >= minHome && home < usable {
			home := q
			home.Home = true
			if r := without(avoided, c.query(profile, home)); r.FeasibleCount >= enoughHome(a.Pod) {
				return record.Look{Result: r, Home: true, Basis: basis}
			}
		}
	}
	if s.whole {
		q.Limit, q.Everywhere = -1, true
	}
	return record.Look{Result: without(avoided, c.query(profile, q)), Basis: basis}
}

// without takes nodes out of those that a pod may go to.
func without(avoided []string, r placement.Result) placement.Result {
	if len(avoided) == 0 {
		return r
	}
	before := len(r.Feasible)
	r.Weighed = placement.Weighed{} // its places would not be those of the nodes any more
	r.Feasible = slices.DeleteFunc(r.Feasible, func(s placement.Scored) bool {
		return slices.Contains(avoided, s.Node.Node.UID)
	})
	r.FeasibleCount -= before - len(r.Feasible)
	return r
}

// query asks the engine, and moves on where the next search begins.
func (c *Core) query(profile *placement.Profile, q placement.Query) placement.Result {
	start := &c.start[0]
	if q.Home {
		start = &c.start[1]
	}
	q.Start = *start
	q.Laps, q.TimeRules = c.shard.Laps, q.Seed%timedShare == 0
	r := c.shard.Engine.Evaluate(profile, q)
	if r.NodesTotal > 0 {
		*start = (*start + r.Examined) % r.NodesTotal
	}
	return r
}

// plain says that the pod states no preference among the nodes that it may go to, so that a subset of them
// is as good a choice as all.
func plain(p *state.Pod) bool {
	spec := &p.Template.Spec
	if slices.ContainsFunc(spec.TopologySpreadConstraints, func(s corev1.TopologySpreadConstraint) bool {
		return s.WhenUnsatisfiable != corev1.DoNotSchedule
	}) {
		return false
	}
	about := spec.Affinity
	if about == nil {
		return true
	}
	preferred := 0
	if about.NodeAffinity != nil {
		preferred += len(about.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if about.PodAffinity != nil {
		preferred += len(about.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if about.PodAntiAffinity != nil {
		preferred += len(about.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	return preferred == 0
}

// enoughHome is how many home nodes have to let a plain pod pass for it to go to one of them.
func enoughHome(p *state.Pod) int {
	spec := &p.Template.Spec
	if len(spec.NodeSelector) > 0 || spec.Affinity != nil || len(spec.TopologySpreadConstraints) > 0 {
		return minNarrowed
	}
	return 1
}
