package decide

import (
	"slices"

	"github.com/cespare/xxhash/v2"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/engine"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/scheduler/internal/claims"
)

const (
	// batchPods bounds the pods of one transaction: large enough to amortise the round trip
	// (30,000 documents a second were measured at 12 a transaction), small enough that one
	// conflict costs little and the first pod does not wait for the last.
	batchPods = 24
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
	return c.attempts.count(staged) < batchPods && !c.draining && !c.plans.quiet
}

// decide tries pending attempts in order until the next batch is full.
func (c *Core) decide(out *Output) {
	for n := 0; n < decisionsPerStep && c.attempts.count(pending) > 0 && c.hasRoom(); n++ {
		c.try(c.attempts.next(), out)
	}
}

// try takes one attempt as far as it goes now.
func (c *Core) try(a *attempt, out *Output) {
	o := a.offer
	if _, ok := c.holds(o.Partition); !ok {
		c.giveBack(a)
		return
	}
	if c.store.Position().Sequence < o.FactSequence || !c.usable() || c.mustWait(a) {
		c.attempts.append(deferred, a)
		return
	}
	pod, ok := c.view.Pod(o.Pod.UID)
	if !ok || pod.NodeName != "" || pod.Deleting || pod.Gated {
		c.giveBack(a) // the queue sees the same facts and files the pod where it belongs
		return
	}
	if _, _, reserved := c.ledger.Entry(o.Pod.UID); reserved {
		c.giveBack(a)
		return
	}
	profile, ok := c.cfg.Profiles[pod.SchedulerName]
	if !ok {
		c.giveBack(a)
		return
	}
	a.pod = pod
	c.place(a, profile, out)
}

// place evaluates the pod and stages it, parks it, or waits for nodes that are behind or for
// what its rules about other nodes need.
func (c *Core) place(a *attempt, profile *placement.Profile, out *Output) {
	volumes, err := c.claims.Of(a.pod, profile)
	if err != nil {
		c.fail(a, err.Error(), out)
		return
	}
	if !c.claims.Free(volumes) {
		c.attempts.append(deferred, a)
		return
	}
	concern, err := c.concernOf(a.pod, profile)
	if err != nil {
		c.fail(a, err.Error(), out)
		return
	}
	behind := c.view.Settle()
	out.Behind = behind
	avoided := c.avoid.AvoidedBy(a.pod, c.now)
	extended := profile.Extended(a.pod)
	if !concern.Uncertain && !volumes.Any() && !extended && c.placeKept(a, profile, &concern, avoided, out) {
		return
	}
	onHold := c.onHold(a.pod, profile, &concern)
	result := c.evaluateWith(volumes, profile, a, search{avoided: avoided, whole: len(onHold) > 0})
	result = c.besideHolds(a, profile, volumes, result, onHold)
	ok := len(result.Feasible) > 0
	if result.Err != nil {
		c.fail(a, result.Err.Error(), out)
		return
	}
	if !ok && behind > 0 || concern.Uncertain {
		c.attempts.append(deferred, a)
		return
	}
	if !ok && c.reconsult(a, result.Diagnosis) || extended && c.consult(a, profile, result, out) {
		return
	}
	if !ok {
		result.unsettled = volumes.MaybeLater()
		c.nowhere(a, profile, result, avoided, out)
		return
	}
	evidence := c.evidence(a, profile, result, behind)
	if a.turn.granted {
		c.prefer(evidence, a.turn.nodeUID)
		preferNode(result.Feasible, a.turn.nodeUID)
	}
	node, needs := c.choose(a, &concern, result.Feasible)
	if node == nil {
		c.attempts.append(deferred, a)
		return
	}
	volumes, ok, err = c.claims.Pick(volumes, profile, a.on(node.Node))
	switch {
	case err != nil:
		c.fail(a, err.Error(), out)
		return
	case !ok:
		c.attempts.append(deferred, a)
		return
	}
	if !c.registered(a, needs, volumes, out) {
		return
	}
	a.pick = c.pickOf(a, node, needs)
	a.pick.feasible = result.FeasibleCount
	a.pick.evidence = c.chose(evidence)
	a.pick.volumes = volumes
	c.rememberOthers(a, result.Feasible, !concern.None() || volumes.Any() || extended)
	c.view.Stage(a.pod, a.pick.nodeName)
	c.proceed(a)
}

// on is the pod of an attempt on a node.
func (a *attempt) on(node *state.Node) claims.Target {
	return claims.Target{Pod: a.pod, Node: node, Seed: Seed(a.pod.UID, a.offer.Attempt)}
}

// pickOf is the choice of a node, with what it rests on.
func (c *Core) pickOf(a *attempt, node *state.NodeInfo, needs needs) pick {
	epoch, _ := c.holds(a.offer.Partition)
	return pick{
		nodeUID: node.Node.UID, nodeName: node.Node.Name, nodeRV: node.Node.ResourceVersion,
		basis: c.ledger.Version(node.Node.UID), epoch: epoch, decided: c.now, needs: needs, total: len(c.view.Nodes()),
		seed: Seed(a.pod.UID, a.offer.Attempt), factSequence: c.store.Position().Sequence,
		returned: c.plans.returned.count,
	}
}

// nowhere ends an attempt that found no node, or makes it wait if it will find one that is
// only left alone for now. Then it is no verdict that an event could change, but an error,
// which the queue repeats after a while.
func (c *Core) nowhere(a *attempt, p *placement.Profile, r looked, avoided []string, out *Output) {
	seed := Seed(a.pod.UID, a.offer.Attempt)
	h, held := c.heldBack(p, a, seed, avoided)
	switch {
	case held && h.brief:
		c.attempts.append(deferred, a)
	case held:
		c.fail(a, h.message, out)
	default:
		c.reject(a, p, r, out)
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
func (c *Core) evaluateWith(v claims.Supply, profile *placement.Profile, a *attempt, s search) looked {
	defer c.lookUp(v)()
	return c.evaluate(profile, a, s)
}

// search is which nodes an evaluation finds.
type search struct {
	// avoided are UIDs of nodes that the pod's workload avoids.
	avoided []string
	// whole: all that pass, not the best of them, nor those that are tried first.
	whole bool
}

// lookUp has the engine look up volumes and devices as they are promised, until done.
func (c *Core) lookUp(v claims.Supply) (done func()) {
	if !v.Promised() {
		return func() {}
	}
	c.engine.Refresh(v.Lookups(c.view.Snapshot()))
	return func() { c.engine.Refresh(c.view.Snapshot()) }
}

// evaluate asks the home nodes first when that costs the pod nothing, then all usable nodes, where home nodes rank
// before others of the same total. Rules that count pods elsewhere see all nodes either way.
func (c *Core) evaluate(profile *placement.Profile, a *attempt, s search) looked {
	avoided := s.avoided
	basis := c.basis(profile, avoided)
	q := engine.Query{Pod: a.pod, Seed: Seed(a.pod.UID, a.offer.Attempt), HomeFirst: c.cfg.HomeFirst}
	if q.HomeFirst {
		c.markHome()
	}
	if !c.cfg.NoEvidence {
		q.Weigh = events.EvidenceCandidates
	}
	if len(avoided) > 0 {
		q.Limit = placement.TopK + len(avoided)
	}
	if profile.Extended(a.pod) {
		q = c.extends(q, a)
		if q.Opinions != nil {
			basis.Way = events.WayAdvised
		}
	} else if q.HomeFirst && plain(a.pod) && !s.whole {
		if usable, home := c.engine.Candidates(); home >= minHome && home < usable {
			home := q
			home.Home = true
			if r := without(avoided, c.query(profile, home)); r.FeasibleCount >= enoughHome(a.pod) {
				return looked{Result: r, home: true, basis: basis}
			}
		}
	}
	if s.whole {
		q.Limit, q.Everywhere = -1, true
	}
	return looked{Result: without(avoided, c.query(profile, q)), basis: basis}
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
func (c *Core) query(profile *placement.Profile, q engine.Query) placement.Result {
	start := &c.start[0]
	if q.Home {
		start = &c.start[1]
	}
	q.Start = *start
	q.Laps, q.TimeRules = c.cfg.Laps, q.Seed%timedShare == 0
	r := c.engine.Evaluate(profile, q)
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

func (c *Core) decision(kind events.DecisionKind, a *attempt) events.Decision {
	return events.Decision{
		Kind: kind, Pod: a.offer.Pod, SchedulerName: a.pod.SchedulerName, Actor: c.cfg.Shard,
		Attempt: a.offer.Attempt, Token: a.offer.Token, PodResourceVersion: a.pod.ResourceVersion,
		TraceParent: a.offer.TraceParent,
	}
}

// Seed is what breaks ties in one attempt at one pod: the same for the same attempt, so
// that a decision can be rerun.
func Seed(podUID string, attempt int32) uint64 {
	d := xxhash.NewWithSeed(uint64(attempt))
	_, _ = d.WriteString(podUID) // a hash never fails
	return d.Sum64()
}

// entryOf is the reservation an attempt asks for.
func (c *Core) entryOf(a *attempt) (ledger.Entry, error) {
	token, err := ledger.ParseToken(a.offer.Token)
	if err != nil {
		return ledger.Entry{}, err
	}
	e := ledger.Entry{
		PodUID: a.pod.UID, Namespace: a.pod.Namespace, Name: a.pod.Name,
		Role: ledger.RoleReservation, State: ledger.Committed,
		Priority: a.pod.Priority, PodRV: a.pod.ResourceVersion, Wish: a.pod.Wish(), Token: token,
		Shard: c.cfg.Shard, SchedulerName: a.pod.SchedulerName,
		Requests:   a.pod.Requests.Map(),
		Volumes:    a.pick.volumes.Volumes,
		Devices:    a.pick.volumes.Devices,
		NonZeroCPU: a.pod.NonZero.MilliCPU, NonZeroMemory: a.pod.NonZero.Memory,
	}
	switch {
	case a.deal == nil:
	case a.deal.later:
		e.State, e.Plan = ledger.Held, ledger.PreparedPlan(token)
	default:
		e.Delegated = a.deal.delegate(a.pick.volumes)
	}
	if a.offer.Partition != e.Partition() {
		e.GroupPartition = a.offer.Partition + 1
	}
	for _, p := range a.pod.Ports {
		e.Ports = append(e.Ports, ledger.HostPort{IP: p.IP, Protocol: p.Protocol, Port: p.Port})
	}
	return e, nil
}
