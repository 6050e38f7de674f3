package decide

import (
	"github.com/berth-scheduler/berth/pkg/explain"
	"github.com/berth-scheduler/berth/pkg/placement"

	"github.com/berth-scheduler/berth/services/queue/decide/waiting"
)

// Answer returns all that the queue knows of a pod, by UID: its pool and the reason, how many pods are ahead of it,
// and what would wake it. It visits all active pods of the same shard.
func (c *Core) Answer(uid string) explain.QueueAnswer {
	pool, reason := c.Where(uid)
	a := explain.QueueAnswer{
		Member: c.cfg.Queue, FactSequence: c.world.Facts.Sequence, LedgerRevision: c.world.Revision,
		Pool: string(pool), Reason: reason,
	}
	e, ok := c.backlog.pods[uid]
	if !ok {
		return a
	}
	a.Partition = e.Partition
	a.Shard = c.world.Owners[e.Partition]
	a.Attempts = e.Attempt.Count
	a.Since = c.clock.timeOf(e.Entered)
	switch pool {
	case waiting.PoolActive:
		a.Ahead = c.ahead(e)
	case waiting.PoolBackoff:
		a.NotBefore = c.clock.timeOf(e.Ready())
	case waiting.PoolParked:
		a.Wakes = wakes(e, c.cfg.Profiles[e.Pod.SchedulerName])
	}
	return a
}

// ahead counts the active pods that are offered to the same shard before this pod.
func (c *Core) ahead(e *waiting.Entry) int {
	n := 0
	for p := range c.backlog.pools.Active {
		if c.world.Owners[p] != c.world.Owners[e.Partition] {
			continue
		}
		for _, other := range c.backlog.pools.Active[p].All() {
			if waiting.Before(other, e) {
				n++
			}
		}
	}
	return n
}

// wakes returns what each of the rules that rejected a pod waits for.
func wakes(e *waiting.Entry, profile *placement.Profile) []explain.Wake {
	if profile == nil {
		return nil
	}
	var list []explain.Wake
	for _, plugin := range e.Verdict.Plugins {
		list = append(list, explain.Wake{Plugin: plugin, Events: profile.EventsOf(plugin)})
	}
	return list
}

// Leads reports whether this replica offers pods.
func (c *Core) Leads() bool { return c.leases.leading }
