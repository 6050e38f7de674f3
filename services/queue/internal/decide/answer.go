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

// ahead counts the active pods that are offered to the same shard before this pod.
func (c *Core) ahead(e *entry) int {
	n := 0
	for p := range c.bags.active {
		if c.world.owners[p] != c.world.owners[e.partition] {
			continue
		}
		for _, other := range c.bags.active[p].All() {
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

// causedBy records the event that brings a pod to its next attempt. The end of its backoff, and the offer itself, are
// not causes.
func (e *entry) causedBy(event string, now moment) {
	if event != eventOffer && event != eventBackoffComplete && event != eventPopFromBackoff {
		e.attempt.cause, e.attempt.since = event, now
	}
}

// waited emits PodWaited, for tracing, when a pod leaves a pool in which it waited.
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

// Leads reports whether this replica offers pods.
func (c *Core) Leads() bool { return c.leases.leading }
