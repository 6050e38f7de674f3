package decide

import (
	"fmt"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/work"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/services/queue/decide/waiting"
)

// maxEarlyLeases is how many pods that left their backoff early a shard may have leased at the same time. Upstream has
// one, because it decides one pod at a time. Without a limit, ten thousand pods that fit nowhere would keep an idle
// shard and the log as busy as they can be.
const maxEarlyLeases = 4

// expire ends the leases whose deadline has passed and forgets silent shards.
func (c *Core) expire(now waiting.Moment) {
	offered := c.backlog.pools.Offered
	for e := offered.First(); e != nil && e.Attempt.Deadline <= now; e = offered.First() {
		c.leaseLost(e, now)
	}
	c.leases.forgetSilent(c.cfg.ShardTimeout, now)
}

// ownersChanged records the holders of the partitions. It ends the leases of pods whose partition has left the shard
// that works on them: the shard's transactions can no longer succeed, so there is nothing to wait for.
func (c *Core) ownersChanged(owners *[ledger.Partitions]string, now waiting.Moment) {
	c.world.Owners = *owners
	c.leases.setOwners(owners)
	for _, e := range waiting.InOrder(c.backlog.pools.Offered) {
		if owners[e.Partition] == e.Attempt.Shard {
			continue
		}
		if c.leases.shards[e.Attempt.Shard].silent(c.cfg.Lease, now) {
			c.leaseLost(e, now)
			continue
		}
		c.out.counts.Expired++
		c.backlog.pools.Free(e, waiting.EventLeaseExpired, now)
	}
}

// leaseLost ends a lease that got no answer. The pod is tried again, or quarantined once DeliveryLimit leases in a row
// have ended like that: what kills every process that works on it must not be offered for ever.
func (c *Core) leaseLost(e *waiting.Entry, now waiting.Moment) {
	c.out.counts.Expired++
	e.Attempt.Lost++
	if int(e.Attempt.Lost) < c.cfg.DeliveryLimit {
		// The token stays: a late verdict is still useful.
		c.backlog.pools.Free(e, waiting.EventLeaseExpired, now)
		return
	}
	c.out.counts.Quarantined++
	e.Verdict.Kind, e.Verdict.Plugins = events.DecisionQuarantined, nil
	e.Verdict.Message = fmt.Sprintf("in quarantine: %d attempts in a row ended without an answer of the scheduler, "+
		"the last at %s; change the pod to have it tried again", e.Attempt.Lost, e.Attempt.Shard)
	c.backlog.pools.Enter(e, c.backlog.pools.Quarantine, waiting.EventQuarantine, now)
	c.recordQuarantine(e, e.Verdict.Message)
}

// recordQuarantine emits a decision from which the binder informs the pod's owner.
func (c *Core) recordQuarantine(e *waiting.Entry, message string) {
	c.out.records = append(c.out.records, Record{Decision: events.Decision{
		Kind: events.DecisionQuarantined, Pod: waiting.PodRef(e.Pod), SchedulerName: e.Pod.SchedulerName, Actor: c.cfg.Queue,
		Attempt: e.Attempt.Count, Token: c.leases.newToken().String(), FactSequence: c.world.Facts.Sequence,
		LedgerRevision: c.world.Revision, PodResourceVersion: e.Pod.ResourceVersion, Message: message,
		StaleNomination: e.Pod.Status().NominatedNodeName,
	}})
}

// dispatch offers pods to the shards that hold their partitions, up to each shard's window. A pod whose partition has
// no holder stays active. Shards are visited in the order of their ids, and each is filled before the next: they do
// not compete, because a partition has one holder.
func (c *Core) dispatch(now waiting.Moment) {
	pools := c.backlog.pools
	if !c.leases.leading || !c.decisions.caughtUp || pools.Offerable() == 0 {
		return
	}
	for _, s := range c.leases.order {
		if s.hasRoom() {
			c.offerTo(s, now)
		}
	}
}

// offerTo fills one shard's window from the partitions it holds.
func (c *Core) offerTo(s *shard, now waiting.Moment) {
	var offers []work.Offer
	for s.hasRoom() {
		e := c.nextFor(s)
		if e == nil || e.Suspect() && s.leased > 0 {
			break
		}
		offers = append(offers, c.lease(e, s, now))
	}
	c.out.counts.Offered += len(offers)
	for batch := range slices.Chunk(offers, c.cfg.MaxOffers) {
		c.out.offers = append(c.out.offers, SendOffers{Shard: s.id, Batch: work.OfferBatch{
			Queue: c.cfg.Queue, Term: c.leases.term, Offers: slices.Clip(batch),
		}})
	}
}

// nextFor returns the pod to offer next: the first of the active pods or, if there is none, of those that may leave
// their backoff early.
func (c *Core) nextFor(s *shard) *waiting.Entry {
	best := c.backlog.pools.First(s.partitions)
	if best != nil || s.earlyLeases >= maxEarlyLeases {
		return best
	}
	return c.backlog.pools.FirstEarly(s.partitions)
}

// lease moves a pod to offered and makes the offer. A pod that leaves its backoff early passes through the active pods
// first, so that it is counted there, and takes a permit of its lane.
func (c *Core) lease(e *waiting.Entry, s *shard, now waiting.Moment) work.Offer {
	pools := c.backlog.pools
	early := e.In == pools.Backoff
	if early {
		pools.PopEarly(e, now)
	}
	pools.Detach(e)
	pools.Rejectors.Unreject(e)
	e.CountAttempt()
	e.Attempt.Activated = false
	if e.Attempt.FirstOffer == 0 {
		e.Attempt.FirstOffer = now
	}
	c.leases.begin(e, s, early, now.Add(c.cfg.Lease))
	pools.Enter(e, pools.Offered, waiting.EventOffer, now)
	return work.Offer{
		Pod:          waiting.PodRef(e.Pod),
		Partition:    e.Partition,
		Token:        e.Attempt.Token,
		Attempt:      e.Attempt.Count,
		FactSequence: e.Sequence,
		LeaseMillis:  int32(c.cfg.Lease.Milliseconds()),
		Cause:        e.Attempt.Cause,
		Waited:       time.Duration(now - e.Attempt.Since).Truncate(time.Microsecond),
	}
}
