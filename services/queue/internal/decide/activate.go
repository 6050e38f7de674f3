package decide

// activate has a pod tried at once that waits for an event or for its backoff to end, whatever its lane knows; one that
// is being tried goes into backoff where it would be parked after. What else is known of the pod stays in force: gates,
// quarantine, and the wait until the facts show its last condition. Source: PriorityQueue.Activate in
// pkg/scheduler/backend/queue/scheduling_queue.go.
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
