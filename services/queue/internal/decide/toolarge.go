package decide

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

// A pod that is too large for the log has events.TooLargeGate in the facts, and waits with the gated pods until it is
// smaller. Its condition and an event explain that, once for each replica that leads.

func tooLargeReason(p *state.Pod) string {
	return fmt.Sprintf("the pod is too large to be scheduled (%s): shorten its spec, labels or annotations",
		cmp.Or(p.Annotation(state.TooLargeAnnotation), "gate "+events.TooLargeGate))
}

// gatedEntered records a pod that now waits for its gates.
func (c *Core) gatedEntered(e *entry) {
	c.quotas.Enter(e.pod, c.timeOf(e.queued), e.serial)
	if e.pod.TooLarge() {
		c.bags.tooLarge[e] = struct{}{}
	}
}

// gatedUpdated records that the gates of a gated pod have changed.
func (c *Core) gatedUpdated(e *entry, old *state.Pod) {
	c.quotas.Update(e.pod)
	if e.pod.TooLarge() && !old.TooLarge() {
		c.bags.tooLarge[e] = struct{}{}
	}
}

// gatedLate moves back to gated a pod that waits to be tried and has gained a gate, which only happens to a pod that
// has grown too large.
func (c *Core) gatedLate(e *entry, now moment) {
	c.detach(e)
	c.unreject(e)
	if e.lane != nil {
		c.lanes.moved[e.lane] = struct{}{}
		c.part(e)
	}
	c.free(e, eventQuarantine, now)
}

// tellTooLarge makes the binder inform the owners of pods that are too large, through a decision.
func (c *Core) tellTooLarge() {
	if len(c.bags.tooLarge) == 0 || !c.leases.leading || !c.history.caughtUp {
		return
	}
	for _, e := range slices.SortedFunc(maps.Keys(c.bags.tooLarge), bySerial) {
		c.out.records = append(c.out.records, Record{Decision: events.Decision{
			Kind: events.DecisionQuarantined, Pod: podRef(e.pod), SchedulerName: e.pod.SchedulerName, Actor: c.cfg.Queue,
			Attempt: e.attempt.count, Token: c.newToken().String(), FactSequence: c.world.facts.Sequence,
			LedgerRevision: c.world.revision, PodResourceVersion: e.pod.ResourceVersion, Message: tooLargeReason(e.pod),
		}})
	}
	clear(c.bags.tooLarge)
}
