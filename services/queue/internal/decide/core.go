package decide

import (
	"cmp"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Config configures a Core. Every field must be set; package queue holds the defaults.
type Config struct {
	// Queue is this replica's member id.
	Queue string
	// Profiles are the profiles whose pods are queued, by scheduler name.
	Profiles map[string]*placement.Profile
	// InitialBackoff and MaxBackoff bound the wait after a failed attempt. A MaxBackoff of 0 disables it.
	InitialBackoff, MaxBackoff time.Duration
	// Lease is how long a shard may work on an offer without renewing it.
	Lease time.Duration
	// DeliveryLimit is how many leases of one pod in a row may end without an answer before the pod is quarantined.
	DeliveryLimit int
	// ShardTimeout is how long a shard's window counts after its last request.
	ShardTimeout time.Duration
	// ConditionWait bounds the wait for the last verdict's condition to show in the facts.
	ConditionWait time.Duration
	// FlushAfter is the longest time a pod stays parked.
	FlushAfter time.Duration
	// MaxOffers is the largest number of offers in one message.
	MaxOffers int
	// Trace enables PodWaited.
	Trace bool
	// TokenSeed seeds the tokens of this replica's life. It must be random and never used twice.
	TokenSeed uint64
}

// Core is the queue's decision state. It is for one goroutine.
type Core struct {
	cfg Config

	pods map[string]*entry
	bags bags
	// waiting indexes the parked pods by what could wake them; journal holds recent occurrences.
	waiting waiting
	journal journal
	lanes   lanes
	// rejectors counts the pods that each rule holds back; a pod counts once for each of its rejectors.
	rejectors map[Rejector]int
	// settling holds the held pods without a live reservation; see hold.go.
	settling map[*entry]struct{}

	leases  leases
	world   world
	history history
	quotas  quotas

	serial uint64
	clock  clock
	out    output
}

// clock converts between times and moments.
type clock struct {
	origin time.Time
	// now is the latest moment, nextTick the one last requested.
	now, nextTick moment
}

// bags are the pools. A pod in backoff that may be offered early is also in early, by partition.
type bags struct {
	active                                [ledger.Partitions]*bag
	early                                 [ledger.Partitions]*heapOf
	activeCount, earlyCount               int
	gated, backoff, parked, offered, held *bag
	quarantine                            *bag
	// tooLarge holds the gated pods whose owners must still be informed that they are too large.
	tooLarge map[*entry]struct{}
}

// leases holds what is leased, to which shard, and under which term.
type leases struct {
	leading bool
	term    int64
	// decided is where the decisions of earlier leaders end in the log.
	decided uint64
	shards  map[string]*shard
	// order lists the shards by id.
	order  []*shard
	tokens map[string]*entry
	issued uint64
	// balance tracks the load of the shards and which of them should hold which partition.
	balance balance
}

// shard is what the queue knows of one shard, from its requests and the partitions it holds.
type shard struct {
	id     string
	window int
	leased int
	// early counts those leases whose pods left their backoff early.
	early    int
	lastSeen moment
	// alone is the pod that is offered to the shard with no other beside it; see suspect.go.
	alone      *entry
	partitions []int32
	// idleSince and busySince are 0 while the shard is not idle or busy. gave and got are when the queue last moved a
	// partition away from it and to it; see balance.go.
	idleSince, busySince, gave, got moment
}

// world is the position in the facts and in the ledger, and the content of both as far as the core needs it.
type world struct {
	facts    Position
	epochs   epochs
	objects  rule.Objects
	revision int64
	// live holds the pods with a live reservation, whether the queue knows them or not, as last seen (nil: never
	// seen).
	live   map[string]*state.Pod
	owners [ledger.Partitions]string
}

// New returns a core that knows no pod and does not lead.
func New(cfg Config) *Core {
	c := &Core{
		cfg:       cfg,
		pods:      map[string]*entry{},
		waiting:   newWaiting(),
		lanes:     lanes{all: map[string]*lane{}, moved: map[*lane]struct{}{}, heard: map[ruleKey]heard{}},
		rejectors: map[Rejector]int{},
		settling:  map[*entry]struct{}{},
		leases:    leases{shards: map[string]*shard{}, tokens: map[string]*entry{}},
		world:     world{live: map[string]*state.Pod{}},
		history:   history{ghosts: map[string]*entry{}},
		quotas:    newQuotas(),
	}
	for p := range c.bags.active {
		c.bags.active[p] = newBag(PoolActive, before)
		c.bags.early[p] = &heapOf{slot: slotEarly, less: earlyBefore}
	}
	c.bags.tooLarge = map[*entry]struct{}{}
	c.bags.gated = newBag(PoolGated, enteredBefore)
	c.bags.backoff = newBag(PoolBackoff, readyBefore)
	c.bags.parked = newBag(PoolParked, flushedBefore)
	c.bags.quarantine = newBag(PoolParked, enteredBefore)
	c.bags.offered = newBag(PoolOffered, deadlineBefore)
	c.bags.held = newBag(PoolHeld, enteredBefore)
	return c
}

// Step applies one input at a time and returns what to do. If the given time runs backwards, the core's time stands
// still.
func (c *Core) Step(in Input, at time.Time) []Effect {
	c.out = output{}
	now := c.tell(at)
	in.apply(c, now)
	c.settleHolds(now)
	c.expire(now)
	c.flush(now)
	c.endBackoffs(now)
	c.openLanes(now)
	c.admit(now)
	c.tellTooLarge()
	c.dispatch(now)
	c.rebalance(now)
	c.journal.trim(now)
	c.askTick(now)
	return c.out.effects()
}

func (in FactsReset) apply(c *Core, now moment) {
	c.rewind(in.Position, in.Objects)
	// What happened in between is not known: assume that everything did.
	c.journal.clear(in.Position.Sequence)
	c.resetUsage(in)
	known := make(map[string]bool, len(in.Pods))
	for _, p := range byCreation(in.Pods) {
		known[p.UID] = true
		c.podChanged(p, now)
	}
	for uid, e := range c.pods {
		if !known[uid] {
			c.leave(e)
		}
	}
	c.wakeAll(now)
	c.primed()
}

// byCreation sorts pods by creation, so that first come, first served survives a restart to within the API's whole
// seconds.
func byCreation(pods []*state.Pod) []*state.Pod {
	type dated struct {
		*state.Pod
		created time.Time
	}
	list := make([]dated, len(pods))
	for i, p := range pods {
		list[i] = dated{p, p.Created().Time}
	}
	slices.SortFunc(list, func(a, b dated) int {
		if d := a.created.Compare(b.created); d != 0 {
			return d // breaking ties costs as much again
		}
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	sorted := make([]*state.Pod, len(list))
	for i := range list {
		sorted[i] = list[i].Pod
	}
	return sorted
}

func (in FactsApplied) apply(c *Core, now moment) {
	c.advance(in.Position, in.Objects, now)
	for _, o := range in.Changes.Others {
		if o.Kind == events.KindNamespace {
			c.budgetChanged(nameOf(o), o.After)
		}
		c.changed(rule.ObjectChange(o), now)
	}
	for _, n := range in.Changes.Nodes {
		c.changed(rule.NodeChange(n), now)
	}
	for _, p := range in.Changes.Pods {
		c.usageChanged(p.Before, p.After)
		switch {
		case p.After != nil:
			c.podChanged(p.After, now)
		case p.Before != nil:
			if e, ok := c.pods[p.Before.UID]; ok {
				c.leave(e)
			}
		}
		c.changed(rule.PodChange(p), now)
	}
	c.forgetGhosts()
}

// queued reports whether a pod waits to be placed by one of the profiles.
func (c *Core) queued(p *state.Pod) bool {
	return c.cfg.Profiles[p.SchedulerName] != nil && p.NodeName == "" && !p.Terminal && !p.Deleting
}

// podChanged applies a pod as the facts show it now.
func (c *Core) podChanged(p *state.Pod, now moment) {
	e, known := c.pods[p.UID]
	ours := c.queued(p)
	switch {
	case known && !ours:
		if p.NodeName != "" {
			c.bound(e, p, now)
		}
		e.pod = p
		c.leave(e)
	case known:
		c.podUpdated(e, p, now)
	case ours:
		c.podAdded(p, now)
	}
}

func (c *Core) podAdded(p *state.Pod, now moment) {
	e := c.remembered(p.UID)
	c.serial++
	e.pod = p
	e.serial = c.serial
	e.queued = now
	e.seen = now
	e.partition, e.sequence = partitionOf(p), c.world.facts.Sequence
	c.pods[p.UID] = e
	if _, e.hold.live = c.world.live[p.UID]; e.hold.live {
		c.world.live[p.UID] = p
	}
	c.resume(e, now)
}

func (c *Core) podUpdated(e *entry, p *state.Pod, now moment) {
	old := e.pod
	if p.ResourceVersion == old.ResourceVersion {
		return
	}
	e.pod = p
	e.sequence = c.world.facts.Sequence
	if e.hold.live {
		c.world.live[p.UID] = p
	}
	if p.Priority != old.Priority {
		c.reorder(e)
	}
	if e.await.on && e.await.version != 0 && p.ResourceVersion >= e.await.version {
		c.awaited(e)
	}
	switch e.pool() {
	case PoolGated:
		if !p.Gated {
			c.free(e, eventGatesGone, now)
		} else {
			c.gatedUpdated(e, old)
		}
	case PoolActive, PoolBackoff, PoolParked:
		if p.Gated {
			c.gatedLate(e, now)
		} else if e.pool() == PoolParked {
			c.parkedUpdated(e, old, now)
		}
	}
}

// bound reports that a pod is bound.
func (c *Core) bound(e *entry, p *state.Pod, now moment) {
	if !c.leases.leading {
		return
	}
	if e.attempt.flushed {
		c.out.counts.Caught++
	}
	c.out.bound = append(c.out.bound, PodBound{
		Pod: p, Attempts: e.attempt.count,
		Seen: c.timeOf(e.seen), FirstOffer: c.timeOf(e.attempt.firstOffer), Bound: c.timeOf(now),
	})
}

// free puts a pod that nothing detains any more into the pool where it belongs: held if it has a reservation, gated
// if it has gates, parked if an object that it needs does not exist yet, else active. It keeps its place in the
// order.
func (c *Core) free(e *entry, event string, now moment) {
	switch {
	case e.hold.live:
		c.enter(e, c.bags.held, event, now)
	case e.pod.Gated:
		c.enter(e, c.bags.gated, event, now)
	default:
		if plugin, what := c.expects(e); what != "" {
			c.holdBack(e, plugin, what, event, now)
			return
		}
		c.enter(e, c.bags.active[e.partition], event, now)
	}
}

// enter moves a pod into a pool and keeps the indexes of both pools consistent.
func (c *Core) enter(e *entry, to *bag, event string, now moment) {
	c.waited(e, event, now)
	c.detach(e)
	if to.pool != PoolActive && to.pool != PoolOffered {
		c.giveBackPermit(e)
	}
	if to.pool == PoolActive && e.lane != nil && !e.permit {
		to = e.lane.blocked
		c.lanes.moved[e.lane] = struct{}{}
	}
	e.entered = now
	e.late = false
	e.flushAt = e.flushTime(now, c.cfg.FlushAfter)
	e.causedBy(event, now)
	e.in = to
	to.put(e)
	switch {
	case to == c.bags.parked:
		c.waiting.add(e, c.cfg.Profiles[e.pod.SchedulerName])
	case to == c.bags.gated:
		c.countRejectors(e, []string{names.SchedulingGates}, 1)
		c.gatedEntered(e)
	case to == c.bags.backoff:
		c.mayGoEarly(e)
	case to == c.bags.offered:
		c.leases.tokens[e.attempt.token] = e
		e.attempt.shard.leased++
	case to.pool == PoolActive:
		c.bags.activeCount++
	}
	if c.leases.leading {
		c.out.incoming(to.pool, event)
	}
}

// detach removes a pod from its pool, if it is in one.
func (c *Core) detach(e *entry) {
	from := e.in
	if from == nil {
		return
	}
	switch {
	case from == c.bags.parked:
		c.waiting.remove(e)
	case from == c.bags.gated:
		c.countRejectors(e, []string{names.SchedulingGates}, -1)
		c.notEarly(e)
		delete(c.bags.tooLarge, e)
	case from == c.bags.backoff:
		c.notEarly(e)
	case from == c.bags.offered:
		delete(c.leases.tokens, e.attempt.token)
		e.attempt.shard.gaveBack(e)
	case from == c.bags.held:
		delete(c.settling, e)
	case from.pool == PoolActive:
		c.bags.activeCount--
	}
	from.drop(e)
	e.in = nil
}

// reorder restores the order of a pool after a pod's priority changed.
func (c *Core) reorder(e *entry) {
	e.in.fix(e)
	if e.early != nil {
		e.early.fix(e)
		c.headMoved(e)
	}
}

func (c *Core) countRejectors(e *entry, plugins []string, change int) {
	for _, plugin := range plugins {
		r := Rejector{Plugin: plugin, Profile: e.pod.SchedulerName}
		if c.rejectors[r] += change; c.rejectors[r] == 0 {
			delete(c.rejectors, r)
		}
	}
}

// leave forgets a pod that is bound, gone, or no longer one of the queue's.
func (c *Core) leave(e *entry) {
	c.detach(e)
	c.unreject(e)
	c.part(e)
	if e.hold.live {
		c.world.live[e.pod.UID] = e.pod
	}
	delete(c.pods, e.pod.UID)
}

func (in Lead) apply(c *Core, now moment) {
	c.leases.leading = true
	c.leases.term = in.Term
	c.leases.decided = in.Decided
	c.quotas.settles = now.add(quotaSettle) // also if the log is empty: it may have lost everything
	c.turnAll()
}

// apply forgets the leases. Answers of shards to those offers are still believed.
func (StepDown) apply(c *Core, now moment) {
	c.leases.leading = false
	c.forgetUnrecorded()
	c.endTurns()
	for _, e := range slices.SortedFunc(slices.Values(c.bags.offered.all), bySerial) {
		c.free(e, eventTakeover, now)
	}
}

// askTick emits NextTick when the earliest deadline has moved.
func (c *Core) askTick(now moment) {
	at := now.add(c.cfg.FlushAfter)
	if e := c.bags.backoff.first(); e != nil {
		at = min(at, e.ready())
	}
	if e := c.bags.offered.first(); e != nil {
		at = min(at, e.attempt.deadline)
	}
	if e := c.bags.parked.first(); e != nil {
		at = min(at, e.flushAt)
	}
	if c.leases.leading && c.quotas.due > now {
		at = min(at, c.quotas.due)
	}
	if c.leases.leading && c.quotas.settles > now {
		at = min(at, c.quotas.settles)
	}
	if look := c.nextLook(); look != 0 {
		at = min(at, look)
	}
	if c.clock.nextTick > now && at >= c.clock.nextTick {
		return
	}
	c.clock.nextTick = at
	c.out.tick = c.timeOf(at)
}
