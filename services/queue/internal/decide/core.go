package decide

import (
	"cmp"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Config of a Core. Every field must be set; the facade holds the defaults.
type Config struct {
	// Queue is this replica's member id.
	Queue string
	// SchedulerNames are the scheduler names whose pods are queued.
	SchedulerNames []string
	// InitialBackoff and MaxBackoff bound the wait after a failed attempt; a MaxBackoff of
	// 0 switches it off.
	InitialBackoff, MaxBackoff time.Duration
	// Lease is how long a shard may work on an offer without renewing it.
	Lease time.Duration
	// ShardTimeout is how long a shard's window counts after its last request.
	ShardTimeout time.Duration
	// ConditionWait bounds the wait for the last verdict's condition to show in the facts.
	ConditionWait time.Duration
	// FlushAfter is how long a pod stays parked at most.
	FlushAfter time.Duration
	// MaxOffers is the most offers in one message.
	MaxOffers int
	// TokenSeed makes the tokens of this replica's life: random, never used twice.
	TokenSeed uint64
}

// Core is the queue's decision state. For one goroutine.
type Core struct {
	cfg   Config
	names map[string]bool

	pods map[string]*entry
	bags bags
	// parkedBy indexes the parked pods by what could wake them.
	parkedBy map[Cause]map[*entry]struct{}
	// rejectors counts the parked pods by who rejected them; a pod counts for each.
	rejectors map[Rejector]int
	// settling holds the held pods without a live reservation: see hold.go.
	settling map[*entry]struct{}

	leases leases
	world  world
	past   past

	serial uint64
	// nextTick is the time last asked for.
	nextTick time.Time
	out      output
}

type bags struct {
	active                                [ledger.Partitions]*bag
	activeCount                           int
	gated, backoff, parked, offered, held *bag
}

// leases is what is given out, to whom, and under which term.
type leases struct {
	leading bool
	term    int64
	shards  map[string]*shard
	tokens  map[string]*entry
	issued  uint64
}

// shard is what the queue knows of one shard from its requests.
type shard struct {
	id       string
	window   int
	leased   int
	lastSeen time.Time
}

// world is the position in facts and ledger, and what the ledger says.
type world struct {
	facts    Position
	revision int64
	// live holds the pods with a live reservation, known to the queue or not.
	live   map[string]struct{}
	owners [ledger.Partitions]string
}

// past is when each cause happened last: in facts by sequence, in the ledger by revision.
type past struct {
	sequence [causeCount]uint64
	revision int64
}

// New returns a core that knows no pod and does not lead.
func New(cfg Config) *Core {
	c := &Core{
		cfg:       cfg,
		names:     make(map[string]bool, len(cfg.SchedulerNames)),
		pods:      map[string]*entry{},
		parkedBy:  map[Cause]map[*entry]struct{}{},
		rejectors: map[Rejector]int{},
		settling:  map[*entry]struct{}{},
		leases:    leases{shards: map[string]*shard{}, tokens: map[string]*entry{}},
		world:     world{live: map[string]struct{}{}},
	}
	for _, name := range cfg.SchedulerNames {
		c.names[name] = true
	}
	for p := range c.bags.active {
		c.bags.active[p] = &bag{pool: PoolActive, less: before}
	}
	c.bags.gated = &bag{pool: PoolGated, less: enteredBefore}
	c.bags.backoff = &bag{pool: PoolBackoff, less: readyBefore}
	c.bags.parked = &bag{pool: PoolParked, less: enteredBefore}
	c.bags.offered = &bag{pool: PoolOffered, less: deadlineBefore}
	c.bags.held = &bag{pool: PoolHeld, less: enteredBefore}
	return c
}

// Step applies one input at a time and returns what to do. now must not run backwards.
func (c *Core) Step(in Input, now time.Time) []Effect {
	c.out = output{}
	in.apply(c, now)
	c.settleHolds(now)
	c.expire(now)
	c.flush(now)
	c.endBackoffs(now)
	c.dispatch(now)
	c.askTick(now)
	return c.out.effects()
}

func (in FactsReset) apply(c *Core, now time.Time) {
	c.world.facts = in.Position
	// Nothing is known of what happened in between: assume everything did.
	c.happened(causeAny, in.Position.Sequence)
	known := make(map[string]bool, len(in.Pods))
	pods := slices.Clone(in.Pods)
	slices.SortFunc(pods, byCreation)
	for _, p := range pods {
		known[p.UID] = true
		c.podChanged(p, now)
	}
	for uid, e := range c.pods {
		if !known[uid] {
			c.leave(e)
		}
	}
	c.wake(causeAny, eventReset, now)
}

// byCreation makes first come, first served survive a restart, as far as the API's own
// whole seconds tell.
func byCreation(a, b *state.Pod) int {
	created := a.Created()
	return cmp.Or(created.Compare(b.Created().Time),
		cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
}

func (in FactsApplied) apply(c *Core, now time.Time) {
	c.world.facts = in.Position
	for _, change := range in.Changes.Pods {
		switch {
		case change.After != nil:
			c.podChanged(change.After, now)
		case change.Before != nil:
			if e, ok := c.pods[change.Before.UID]; ok {
				c.leave(e)
			}
		}
	}
	for _, w := range causesOf(in.Changes) {
		c.happened(w.cause, in.Position.Sequence)
		c.wake(w.cause, w.event, now)
	}
}

// podChanged takes in a pod as the facts show it now.
func (c *Core) podChanged(p *state.Pod, now time.Time) {
	e, known := c.pods[p.UID]
	ours := c.names[p.SchedulerName] && p.NodeName == "" && !p.Terminal && !p.Deleting
	switch {
	case known && !ours:
		if p.NodeName != "" {
			c.bound(e, p, now)
		}
		c.leave(e)
	case known:
		c.podUpdated(e, p, now)
	case ours:
		c.podAdded(p, now)
	}
}

func (c *Core) podAdded(p *state.Pod, now time.Time) {
	c.serial++
	e := &entry{
		pod: p, serial: c.serial, queued: now, seen: now,
		partition: ledger.PartitionOf(p.UID), sequence: c.world.facts.Sequence,
	}
	_, e.hold.live = c.world.live[p.UID]
	c.pods[p.UID] = e
	c.free(e, eventPodAdd, now)
}

func (c *Core) podUpdated(e *entry, p *state.Pod, now time.Time) {
	old := e.pod
	if p.ResourceVersion == old.ResourceVersion {
		return
	}
	e.pod = p
	e.sequence = c.world.facts.Sequence
	if p.Priority != old.Priority {
		e.in.fix(e)
	}
	if e.await.on && e.await.version != 0 && p.ResourceVersion >= e.await.version {
		c.awaited(e)
	}
	switch {
	case e.pool() == PoolGated:
		if !p.Gated {
			c.free(e, eventGatesGone, now)
		}
	case e.pool() == PoolParked && specMoved(old, p) && e.verdict.interest&CauseOwnUpdate != 0:
		c.requeue(e, eventPodUpdate, now)
	case e.pool() == PoolOffered && specMoved(old, p):
		// The shard may be deciding on the old version: its verdict must not park the pod.
		e.movedAt = c.world.facts.Sequence
	}
}

// bound reports the end of a pod's path.
func (c *Core) bound(e *entry, p *state.Pod, now time.Time) {
	if !c.leases.leading {
		return
	}
	c.out.bound = append(c.out.bound, PodBound{
		Pod: p, Attempts: e.attempt.count,
		Seen: e.seen, FirstOffer: e.attempt.firstOffer, Bound: now,
	})
}

// free puts a pod that nothing keeps where it belongs: held if the ledger holds it, gated
// if it is gated, else active. Its place in the order stays.
func (c *Core) free(e *entry, event string, now time.Time) {
	switch {
	case e.hold.live:
		c.enter(e, c.bags.held, event, now)
	case e.pod.Gated:
		c.enter(e, c.bags.gated, event, now)
	default:
		c.enter(e, c.bags.active[e.partition], event, now)
	}
}

// enter moves a pod into a pool and keeps the indexes of both pools true.
func (c *Core) enter(e *entry, to *bag, event string, now time.Time) {
	c.detach(e)
	e.entered = now
	to.put(e)
	switch to.pool {
	case PoolActive:
		c.bags.activeCount++
	case PoolParked:
		set := c.parkedBy[e.verdict.interest]
		if set == nil {
			set = map[*entry]struct{}{}
			c.parkedBy[e.verdict.interest] = set
		}
		set[e] = struct{}{}
		c.countRejectors(e, 1)
	case PoolOffered:
		c.leases.tokens[e.attempt.token] = e
		c.shardOf(e.attempt.shard).leased++
	}
	if c.leases.leading {
		c.out.incoming(to.pool, event)
	}
}

// detach takes a pod out of its pool, if it is in one.
func (c *Core) detach(e *entry) {
	if e.in == nil {
		return
	}
	switch e.in.pool {
	case PoolActive:
		c.bags.activeCount--
	case PoolParked:
		set := c.parkedBy[e.verdict.interest]
		delete(set, e)
		if len(set) == 0 {
			delete(c.parkedBy, e.verdict.interest)
		}
		c.countRejectors(e, -1)
	case PoolOffered:
		delete(c.leases.tokens, e.attempt.token)
		c.shardOf(e.attempt.shard).leased--
	case PoolHeld:
		delete(c.settling, e)
	}
	e.in.drop(e)
}

func (c *Core) countRejectors(e *entry, change int) {
	for _, plugin := range e.verdict.plugins {
		r := Rejector{Plugin: plugin, Profile: e.pod.SchedulerName}
		if c.rejectors[r] += change; c.rejectors[r] == 0 {
			delete(c.rejectors, r)
		}
	}
}

// leave forgets a pod: bound, gone, or no longer ours.
func (c *Core) leave(e *entry) {
	c.detach(e)
	delete(c.pods, e.pod.UID)
}

func (in Lead) apply(c *Core, now time.Time) {
	c.leases.leading, c.leases.term = true, in.Term
	c.reactivate(now)
}

func (StepDown) apply(c *Core, now time.Time) {
	c.leases.leading = false
	c.reactivate(now)
	clear(c.leases.shards)
}

// reactivate forgets leases, verdicts and waits: every free pod becomes active.
func (c *Core) reactivate(now time.Time) {
	var moved []*entry
	for _, b := range []*bag{c.bags.backoff, c.bags.parked, c.bags.offered} {
		moved = append(moved, b.all...)
	}
	slices.SortFunc(moved, bySerial)
	for _, e := range moved {
		e.await = await{}
		c.free(e, eventTakeover, now)
		e.attempt.token = ""
	}
}

// askTick emits NextTick when the earliest deadline moved.
func (c *Core) askTick(now time.Time) {
	at := now.Add(c.cfg.FlushAfter)
	sooner := func(t time.Time) {
		if t.Before(at) {
			at = t
		}
	}
	if e := c.bags.backoff.first(); e != nil {
		sooner(e.ready())
	}
	if e := c.bags.offered.first(); e != nil {
		sooner(e.attempt.deadline)
	}
	if e := c.bags.parked.first(); e != nil {
		sooner(e.entered.Add(c.cfg.FlushAfter))
	}
	if c.nextTick.After(now) && !at.Before(c.nextTick) {
		return
	}
	c.nextTick = at
	c.out.tick = at
}

// output gathers the effects of a step.
type output struct {
	offers []SendOffers
	bound  []PodBound
	counts Counted
	tick   time.Time
}

func (o *output) incoming(pool Pool, event string) {
	if o.counts.Incoming == nil {
		o.counts.Incoming = map[Incoming]int{}
	}
	o.counts.Incoming[Incoming{Pool: pool, Event: event}]++
}

func (o *output) effects() []Effect {
	var out []Effect
	for _, e := range o.offers {
		out = append(out, e)
	}
	for _, e := range o.bound {
		out = append(out, e)
	}
	n := o.counts
	if n.Incoming != nil || n.Offered+n.Expired+n.Returned+n.Flushed > 0 {
		out = append(out, n)
	}
	if !o.tick.IsZero() {
		out = append(out, NextTick{At: o.tick})
	}
	return out
}
