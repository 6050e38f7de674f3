package decide

// activate makes a pod that waits for an event or for the end of its backoff active at once, whatever its lane knows.
// A pod that is being tried goes into backoff where it would otherwise be parked. Everything else that is known of
// the pod stays in force: gates, quarantine, and the wait until the facts show its last condition. Source:
// PriorityQueue.Activate in pkg/scheduler/backend/queue/scheduling_queue.go.
func (c *Core) activate(uid string, now moment) {
	e, ok := c.pods[uid]
	switch {
	case !ok || e.in == c.bags.quarantine:
	case e.pool() == PoolOffered || e.pool() == PoolHeld:
		e.attempt.activated = true
	case e.pool() == PoolParked || e.pool() == PoolBackoff:
		c.waited(e, eventActivate, now)
		c.detach(e)
		c.part(e)
		e.verdict.backoffUntil = 0
		c.woken(e, eventActivate, now)
	}
}
