package decide

import (
	"github.com/berth-scheduler/berth/pkg/explain"
)

// Answer returns all that the queue knows of a pod, by UID: its pool and the reason, how many pods are ahead of it,
// and what would wake it. It visits all active pods of the same shard.
func (c *Core) Answer(uid string) explain.QueueAnswer {
	pool, reason := c.Where(uid)
	a := explain.QueueAnswer{
		Member: c.cfg.Queue, FactSequence: c.world.facts.Sequence, LedgerRevision: c.world.revision,
		Pool: string(pool), Reason: reason,
	}
	e, ok := c.backlog.pods[uid]
	if !ok {
		return a
	}
	a.Partition = e.partition
	a.Shard = c.world.owners[e.partition]
	a.Attempts = e.attempt.count
	a.Since = c.clock.timeOf(e.entered)
	switch pool {
	case PoolActive:
		a.Ahead = c.ahead(e)
	case PoolBackoff:
		a.NotBefore = c.clock.timeOf(e.ready())
	case PoolParked:
		a.Wakes = c.wakes(e)
	}
	return a
}

// ahead counts the active pods that are offered to the same shard before this pod.
func (c *Core) ahead(e *entry) int {
	n := 0
	for p := range c.backlog.pools.active {
		if c.world.owners[p] != c.world.owners[e.partition] {
			continue
		}
		for _, other := range c.backlog.pools.active[p].All() {
			if before(other, e) {
				n++
			}
		}
	}
	return n
}

func (c *Core) wakes(e *entry) []explain.Wake {
	profile, ok := c.cfg.Profiles[e.pod.SchedulerName]
	if !ok {
		return nil
	}
	var list []explain.Wake
	for _, plugin := range e.verdict.plugins {
		list = append(list, explain.Wake{Plugin: plugin, Events: profile.Awaits(plugin)})
	}
	return list
}

// Leads reports whether this replica offers pods.
func (c *Core) Leads() bool { return c.leases.leading }
