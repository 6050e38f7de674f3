package decide

import (
	"maps"
	"math"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// changed handles a change in the facts, after the pools have applied what it means for the changed pod itself.
func (c *Core) changed(change rule.Change, now moment) {
	o := occurrence{change: change, sequence: c.world.facts.Sequence, at: now}
	switch {
	case !c.heeds(change):
		return
	case !concernsOthers(change):
		o.own = true
		if !c.ownMatters(change) {
			return
		}
	}
	c.occurred(&o, now)
}

// heeds reports whether any rule of any profile listens to changes of this sort. Most, such as heartbeats, can be
// dropped at once (upstream's isEventOfInterest).
func (c *Core) heeds(change rule.Change) bool {
	for _, p := range c.cfg.Profiles {
		if p.Heeds(change) {
			return true
		}
	}
	return false
}

// concernsOthers reports whether a change can matter to a pod other than the changed one. Of pods, only those count
// that hold a place, or held one (upstream: assigned, or nominated). A change to any other property of such a pod
// helps no other pod.
func concernsOthers(change rule.Change) bool {
	if change.Kind != events.KindPod {
		return true
	}
	return change.Actions != rule.UpdateOther && (holdsPlace(change.OldPod) || holdsPlace(change.NewPod))
}

func holdsPlace(p *state.Pod) bool {
	return p != nil && (p.NodeName != "" || p.Status().NominatedNodeName != "")
}

// ownMatters reports whether a change of a waiting pod can matter to itself.
func (c *Core) ownMatters(change rule.Change) bool {
	if change.OldPod == nil || change.NewPod == nil {
		return false
	}
	_, known := c.pods[change.NewPod.UID]
	return known && specMoved(change.OldPod, change.NewPod)
}

// occurred records an occurrence and wakes the parked pods that it could help.
func (c *Core) occurred(o *occurrence, now moment) {
	c.journal.add(*o)
	if !o.own {
		c.hear(o)
	}
	if o.own || c.waiting.pods == 0 {
		return
	}
	o.change.Objects = c.world.objects
	call := c.waiting.call(o)
	c.out.hinted(call.hints)
	event := eventReleased
	if !o.blind {
		event = o.change.Label()
	}
	for _, e := range call.woken {
		if news(o, &e.verdict) && o.concerns(e) {
			c.woken(e, event, now)
		}
	}
}

// concerns reports whether an occurrence can help a pod of this priority.
func (o *occurrence) concerns(e *entry) bool {
	return o.change.Kind != events.KindDisruptionBudget || !o.blind || e.pod.Priority > o.above ||
		o.above == math.MinInt32
}

// news reports whether an occurrence is later than what a verdict saw: the shard may have been ahead of the queue.
func news(o *occurrence, v *verdict) bool {
	if o.revision != 0 {
		return o.revision > v.ledgerRevision
	}
	return o.sequence > v.factSequence
}

func (c *Core) woken(e *entry, event string, now moment) {
	e.sequence = c.world.facts.Sequence
	c.requeue(e, event, now)
}

// parkedUpdated evaluates what a parked pod's own change means to its rejectors, and reindexes the pod if it stays
// parked. old is the pod as it was.
func (c *Core) parkedUpdated(e *entry, old *state.Pod, now moment) {
	if !specMoved(old, e.pod) {
		return
	}
	change := rule.PodChange(state.PodChange{Before: old, After: e.pod})
	change.Objects = c.world.objects
	profile := c.cfg.Profiles[e.pod.SchedulerName]
	switch {
	case e.in == c.bags.quarantine:
		c.pardon(e, change.Label(), now)
	case profile.Wakes(e.pod, e.verdict.plugins, change):
		c.woken(e, change.Label(), now)
	default:
		c.waiting.remove(e)
		c.waiting.add(e, profile)
	}
}

// missed reports whether something that can help the pod happened after the state from which its verdict was
// computed, so that waiting for it would be in vain.
func (c *Core) missed(e *entry) bool {
	return c.journal.forgot(&e.verdict) || c.sawHelp(e)
}

// sawHelp is missed, limited to what the journal still holds.
func (c *Core) sawHelp(e *entry) bool {
	profile := c.cfg.Profiles[e.pod.SchedulerName]
	helped := false
	c.journal.since(&e.verdict, func(o *occurrence) bool {
		if o.own != (changedPod(o.change) == e.pod.UID) || !o.concerns(e) {
			return true
		}
		change := o.change
		change.Objects = c.world.objects
		if o.blind {
			helped = listensBlind(profile, e.verdict.plugins, change)
		} else {
			helped = profile.Wakes(e.pod, e.verdict.plugins, change)
		}
		return !helped
	})
	return helped
}

// listensBlind reports whether any of the rules listens to a change of which no details are known.
func listensBlind(profile *placement.Profile, plugins []string, change rule.Change) bool {
	for _, plugin := range plugins {
		if profile.Listens(plugin, change) {
			return true
		}
	}
	return len(plugins) == 0
}

// wakeAll requeues every parked pod whose verdict is older than the facts: whatever it waited for may have happened.
func (c *Core) wakeAll(now moment) {
	for _, e := range inOrder(c.bags.parked) {
		if e.verdict.factSequence < c.world.facts.Sequence {
			c.woken(e, eventReset, now)
		}
	}
}

// flush requeues the pods that no event woke for too long, as a safety net for the hints (upstream's
// flushUnschedulablePodsLeftover). If such a pod is then placed, a hint has missed an event.
func (c *Core) flush(now moment) {
	for e := c.bags.parked.first(); e != nil; e = c.bags.parked.first() {
		if e.flushAt > now {
			return
		}
		c.out.counts.Flushed++
		e.attempt.flushed = true
		c.requeue(e, eventTimeout, now)
	}
}

// specMoved reports whether an update of an unbound pod can change where it fits: anything but bookkeeping and its
// status, of which only the device claims made for it count (upstream's isPodUpdated).
func specMoved(before, after *state.Pod) bool {
	if len(after.Template.Spec.ResourceClaims) > 0 && !equality.Semantic.DeepEqual(
		before.Status().ResourceClaimStatuses, after.Status().ResourceClaimStatuses) {
		return true
	}
	if before.NodeName != after.NodeName || !maps.Equal(before.Annotations(), after.Annotations()) {
		return true
	}
	b, a := before.Template, after.Template
	return b != a && (!maps.Equal(b.Labels, a.Labels) || !equality.Semantic.DeepEqual(b.Spec, a.Spec))
}
