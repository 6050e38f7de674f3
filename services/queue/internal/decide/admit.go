package decide

import "github.com/berth-scheduler/berth/pkg/events"

// expects returns an object that must exist before a pod is tried and is still being created, and the rule that
// requires it: claims to devices made from a template appear after the pod. A pod that has waited for too long is
// tried all the same, so that its condition explains what is missing. Source: runPreEnqueuePlugins of
// pkg/scheduler/backend/queue/scheduling_queue.go.
func (c *Core) expects(e *entry) (plugin, what string) {
	if c.world.objects == nil || e.attempt.flushed {
		return "", ""
	}
	return c.cfg.Profiles[e.pod.SchedulerName].Expects(e.pod, c.world.objects)
}

// holdBack parks a pod until an event occurs that the rule listens to, without an attempt, a condition or a backoff.
func (c *Core) holdBack(e *entry, plugin, what, event string, now moment) {
	c.waited(e, event, now)
	c.detach(e)
	c.unreject(e)
	c.part(e)
	v := &e.verdict
	v.kind = events.DecisionHeldBack
	v.message = what
	v.plugins = []string{plugin}
	v.counted = true
	v.factSequence = c.world.facts.Sequence
	v.factEpoch = c.world.facts.Epoch
	v.ledgerRevision = c.world.revision
	c.countRejectors(e, v.plugins, 1)
	c.enter(e, c.bags.parked, event, now)
}
