package decide

import (
	"github.com/berth-scheduler/berth/services/queue/decide/balance"
	"github.com/berth-scheduler/berth/services/queue/decide/waiting"
)

// nextCheck returns when the load of the shards must be checked; 0 for never. It is checked while pods wait, or while
// a request may have to be withdrawn.
func (c *Core) nextCheck() waiting.Moment {
	idle := c.backlog.pools.ActiveCount == 0 && !c.balancer.Requests()
	if !c.leases.leading || !c.decisions.caughtUp || idle {
		return 0
	}
	return c.clock.momentOf(c.balancer.NextCheck(c.clock.timeOf(c.clock.now)))
}

// rebalance checks the load, if it is time, and moves partitions if necessary.
func (c *Core) rebalance(now waiting.Moment) {
	if next := c.nextCheck(); next == 0 || next > now {
		return
	}
	c.out.moves = c.balancer.Moves(balance.Load{
		Shards: c.loads(), Owners: &c.world.Owners,
		Waiting: func(partition int32) int { return c.backlog.pools.Active[partition].Len() },
	}, c.clock.timeOf(now))
}

// loads returns the shards as the balancer sees them. A shard that is offered a suspect pod keeps that pod's
// partition: a move would end the attempt that shows whether the pod is harmless.
func (c *Core) loads() []balance.Shard {
	loads := make([]balance.Shard, 0, len(c.leases.order))
	for _, s := range c.leases.order {
		l := balance.Shard{
			ID: s.id, Window: s.window, Leased: s.leased, Partitions: s.partitions, Pinned: -1, Record: &s.balance,
			Responsive: s.window > 0 && !s.silent(c.cfg.Lease, c.clock.now),
		}
		if s.exclusive != nil {
			l.Pinned = s.exclusive.Partition
		}
		for _, p := range s.partitions {
			l.Pods += c.backlog.pools.Active[p].Len()
		}
		loads = append(loads, l)
	}
	return loads
}
