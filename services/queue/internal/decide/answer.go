package decide

import (
	"github.com/berth-scheduler/berth/pkg/explain"
)

// Answer says of a pod, by UID, all that the queue knows: its pool and why, how many are before
// it, and what would wake it. It costs a look at the pods that wait for the same shard.
func (c *Core) Answer(uid string) explain.QueueAnswer {
	pool, reason := c.Where(uid)
	a := explain.QueueAnswer{
		Member: c.cfg.Queue, FactSequence: c.world.facts.Sequence, LedgerRevision: c.world.revision,
		Pool: string(pool), Reason: reason,
	}
	e, ok := c.pods[uid]
	if !ok {
		return a
	}
	a.Partition = e.partition
	a.Shard = c.world.owners[e.partition]
	a.Attempts = e.attempt.count
	a.Since = c.timeOf(e.entered)
	switch pool {
	case PoolActive:
		a.Ahead = c.ahead(e)
	case PoolBackoff:
		a.NotBefore = c.timeOf(e.ready())
	case PoolParked:
		a.Wakes = c.wakes(e)
	}
	return a
}

// ahead counts the active pods that the same shard is offered first.
func (c *Core) ahead(e *entry) int {
	n := 0
	for p := range c.bags.active {
		if c.world.owners[p] != c.world.owners[e.partition] {
			continue
		}
		for _, other := range c.bags.active[p].all {
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

// causedBy notes what brings a pod to its next attempt. That its backoff ends, or that it is
// offered, is no cause.
func (e *entry) causedBy(event string, now moment) {
	if event != eventOffer && event != eventBackoffComplete && event != eventPopFromBackoff {
		e.attempt.cause, e.attempt.since = event, now
	}
}

// waited tells that a pod leaves a pool in which it waited, to be traced.
func (c *Core) waited(e *entry, event string, now moment) {
	if !c.leases.leading || !c.cfg.Trace || e.in == nil || now == e.entered {
		return
	}
	switch pool := e.in.pool; pool {
	case PoolGated, PoolBackoff, PoolParked:
		c.out.waited = append(c.out.waited, PodWaited{
			Pod: e.pod, Pool: pool, Since: c.timeOf(e.entered), Until: c.timeOf(now), Event: event,
			Rejectors: e.verdict.plugins,
		})
	}
}

// Leads says whether this replica gives pods out.
func (c *Core) Leads() bool { return c.leases.leading }
