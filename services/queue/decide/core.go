package decide

import (
	"time"

	"github.com/berth-scheduler/berth/pkg/placement"

	"github.com/berth-scheduler/berth/services/queue/decide/balance"
	"github.com/berth-scheduler/berth/services/queue/decide/quota"
	"github.com/berth-scheduler/berth/services/queue/decide/waiting"
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

// Core is the queue's decision state. It is for one goroutine. It only orders the steps: each part of the state has a
// type of its own, which alone changes it.
type Core struct {
	cfg   Config
	clock clock
	out   output

	// world is how far the facts and the ledger have been applied.
	world waiting.World
	// decisions is how far the log of decisions has been read.
	decisions decisions
	// backlog holds every pod that waits to be placed, and holds applies the ledger's reservations to it.
	backlog *backlog
	holds   *holds
	// leases holds the shards and what is leased to them, and balancer decides which shard should hold which partition.
	leases   *leases
	balancer balance.Balancer
	// budgets limits how many pods leave the quota gate.
	budgets *quota.Budgets
}

// New returns a core that knows no pod and does not lead.
func New(cfg Config) *Core {
	c := &Core{cfg: cfg, leases: newLeases(cfg.TokenSeed), budgets: quota.New()}
	c.out = output{clock: &c.clock, traces: cfg.Trace}
	live, events := reservations{}, waiting.NewJournal(&c.world)
	pools := waiting.NewPools(waiting.Settings{
		Profiles: cfg.Profiles, InitialBackoff: cfg.InitialBackoff, MaxBackoff: cfg.MaxBackoff, FlushAfter: cfg.FlushAfter,
	}, waiting.Ports{Report: &c.out, Gates: quotaGates{c.budgets, &c.clock}, Leases: c.leases}, &c.world, events)
	c.backlog = &backlog{
		cfg: &c.cfg, world: &c.world, journal: events, out: &c.out, live: live, unseen: unseenPods{},
		pods: map[string]*waiting.Entry{}, pools: pools,
	}
	c.holds = &holds{world: &c.world, live: live, backlog: c.backlog}
	return c
}

// Step applies one input at a time and returns what to do. It implements driver.Core. If the given time runs
// backwards, the core's time stands still. A step that has nothing to do returns nil.
func (c *Core) Step(in Input, at time.Time) []Effect {
	c.out.begin()
	now := c.clock.advance(at)
	c.balancer.Begin(c.clock.origin)
	in.apply(c, now)
	c.holds.settle(now)
	c.expire(now)
	c.backlog.flush(now)
	c.backlog.endBackoffs(now)
	c.backlog.pools.Units.Elect(now)
	c.backlog.pools.OpenLanes(now)
	c.admit(now)
	c.reportTooLarge()
	c.dispatch(now)
	c.rebalance(now)
	c.backlog.journal.Trim(now)
	c.requestTick(now)
	return c.out.effects()
}

// requestTick emits NextTick when the earliest deadline has moved.
func (c *Core) requestTick(now waiting.Moment) {
	at := c.backlog.pools.NextDeadline(now.Add(c.cfg.FlushAfter))
	if next := c.budgets.Next(c.clock.timeOf(now)); !next.IsZero() {
		at = min(at, c.clock.momentOf(next))
	}
	if check := c.nextCheck(); check != 0 {
		at = min(at, check)
	}
	if c.clock.nextTick > now && at >= c.clock.nextTick {
		return
	}
	c.clock.nextTick = at
	c.out.tick = c.clock.timeOf(at)
}
