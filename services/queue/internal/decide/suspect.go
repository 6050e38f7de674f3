package decide

import (
	"fmt"
	"slices"

	"github.com/berth-scheduler/berth/pkg/events"
)

// suspectAfter is how many leases in a row may end without an answer before a pod becomes suspect. A lease that ends
// without an answer may be chance: a message was lost, or the shard was stopped. Or the pod kills every process that
// works on it, and with it the answers to all pods that were being tried with it. A suspect pod is therefore offered
// only to a shard that has no other pod leased, and the shard gets no other until it has answered: this soon
// separates innocent pods from guilty ones. A pod that still gets no answer is quarantined, and only a change of the
// pod itself ends that.
const suspectAfter = 2

func (e *entry) suspect() bool { return e.attempt.lost >= suspectAfter }

// silent reports whether a shard has missed its heartbeats: then its leases did not end because it handed over its
// partitions.
func (c *Core) silent(s *shard, now moment) bool { return s.lastSeen.add(c.cfg.Lease/2) < now }

// lost ends a lease that got no answer.
func (c *Core) lost(e *entry, now moment) {
	c.out.counts.Expired++
	e.attempt.lost++
	if int(e.attempt.lost) < c.cfg.DeliveryLimit {
		// The token stays: a late verdict is still useful.
		c.free(e, eventLeaseExpired, now)
		return
	}
	c.out.counts.Quarantined++
	e.verdict.kind, e.verdict.plugins = events.DecisionQuarantined, nil
	e.verdict.message = fmt.Sprintf("in quarantine: %d attempts in a row ended without an answer of the scheduler, "+
		"the last at %s; change the pod to have it tried again", e.attempt.lost, e.attempt.shard.id)
	c.enter(e, c.bags.quarantine, eventQuarantine, now)
	c.out.records = append(c.out.records, Record{Decision: events.Decision{
		Kind: events.DecisionQuarantined, Pod: podRef(e.pod), SchedulerName: e.pod.SchedulerName, Actor: c.cfg.Queue,
		Attempt: e.attempt.count, Token: c.newToken().String(), FactSequence: c.world.facts.Sequence,
		LedgerRevision: c.world.revision, PodResourceVersion: e.pod.ResourceVersion, Message: e.verdict.message,
	}})
}

// pardon releases a pod from quarantine.
func (c *Core) pardon(e *entry, event string, now moment) {
	e.attempt.lost = 0
	e.attempt.token = ""
	c.requeue(e, event, now)
}

// inOrder lists the pods of a bag by arrival.
func inOrder(b *bag) []*entry { return slices.SortedFunc(slices.Values(b.All()), bySerial) }
