package decide

import (
	"fmt"
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
)

// earlyAtOnce is how many pods that left their backoff early a shard may have leased at the same time. Upstream has
// one, because it decides one pod at a time. Without a limit, ten thousand pods that fit nowhere would keep an idle
// shard and the log as busy as they can be.
const earlyAtOnce = 4

// expire ends the leases whose deadline has passed and forgets silent shards.
func (c *Core) expire(now moment) {
	offered := c.backlog.pools.offered
	for e := offered.First(); e != nil && e.attempt.deadline <= now; e = offered.First() {
		c.lost(e, now)
	}
	c.leases.forgetSilent(c.cfg.ShardTimeout, now)
}

// owned records the holders of the partitions. It ends the leases of pods whose partition has left the shard that
// works on them: the shard's transactions can no longer succeed, so there is nothing to wait for.
func (c *Core) owned(owners *[ledger.Partitions]string, now moment) {
	c.world.owners = *owners
	c.leases.hold(owners)
	for _, e := range inOrder(c.backlog.pools.offered) {
		if owners[e.partition] == e.attempt.shard {
			continue
		}
		if c.leases.shards[e.attempt.shard].silent(c.cfg.Lease, now) {
			c.lost(e, now)
			continue
		}
		c.out.counts.Expired++
		c.backlog.pools.free(e, eventLeaseExpired, now)
	}
}

// lost ends a lease that got no answer.
func (c *Core) lost(e *entry, now moment) {
	c.out.counts.Expired++
	e.attempt.lost++
	if int(e.attempt.lost) < c.cfg.DeliveryLimit {
		// The token stays: a late verdict is still useful.
		c.backlog.pools.free(e, eventLeaseExpired, now)
		return
	}
	c.out.counts.Quarantined++
	e.verdict.kind, e.verdict.plugins = events.DecisionQuarantined, nil
	e.verdict.message = fmt.Sprintf("in quarantine: %d attempts in a row ended without an answer of the scheduler, "+
		"the last at %s; change the pod to have it tried again", e.attempt.lost, e.attempt.shard)
	c.backlog.pools.enter(e, c.backlog.pools.quarantine, eventQuarantine, now)
	c.recordQuarantine(e, e.verdict.message)
}

// recordQuarantine emits a decision from which the binder informs the pod's owner.
func (c *Core) recordQuarantine(e *entry, message string) {
	c.out.records = append(c.out.records, Record{Decision: events.Decision{
		Kind: events.DecisionQuarantined, Pod: podRef(e.pod), SchedulerName: e.pod.SchedulerName, Actor: c.cfg.Queue,
		Attempt: e.attempt.count, Token: c.leases.newToken().String(), FactSequence: c.world.facts.Sequence,
		LedgerRevision: c.world.revision, PodResourceVersion: e.pod.ResourceVersion, Message: message,
	}})
}

// dispatch offers pods to the shards that hold their partitions, up to each shard's window.
func (c *Core) dispatch(now moment) {
	pools := c.backlog.pools
	if !c.leases.leading || !c.decisions.caughtUp || pools.activeCount+pools.lanes.early.count == 0 {
		return
	}
	for _, s := range c.leases.order {
		if s.hasRoom() {
			c.offerTo(s, now)
		}
	}
}

// offerTo fills one shard's window from the partitions it holds.
func (c *Core) offerTo(s *shard, now moment) {
	var offers []events.Offer
	for s.hasRoom() {
		e := c.nextFor(s)
		if e == nil || e.suspect() && s.leased > 0 {
			break
		}
		offers = append(offers, c.lease(e, s, now))
	}
	c.out.counts.Offered += len(offers)
	for batch := range slices.Chunk(offers, c.cfg.MaxOffers) {
		c.out.offers = append(c.out.offers, SendOffers{Shard: s.id, Batch: events.OfferBatch{
			Queue: c.cfg.Queue, Term: c.leases.term, Offers: slices.Clip(batch),
		}})
	}
}

// nextFor returns the pod to offer next: the first of the active pods or, if there is none, of those that may leave
// their backoff early.
func (c *Core) nextFor(s *shard) *entry {
	best := c.backlog.pools.first(s.partitions)
	if best != nil || s.early >= earlyAtOnce {
		return best
	}
	return c.backlog.pools.lanes.firstEarly(s.partitions)
}

// lease moves a pod to offered and makes the offer.
func (c *Core) lease(e *entry, s *shard, now moment) events.Offer {
	pools := c.backlog.pools
	early := e.in == pools.backoff
	if early {
		if e.lane != nil {
			e.lane.givePermit(e)
		}
		c.backlog.pools.free(e, eventPopFromBackoff, now)
	}
	pools.detach(e)
	pools.unreject(e)
	e.attempt.count++
	e.attempt.activated = false
	if e.attempt.firstOffer == 0 {
		e.attempt.firstOffer = now
	}
	c.leases.begin(e, s, early, now.add(c.cfg.Lease))
	pools.enter(e, pools.offered, eventOffer, now)
	return events.Offer{
		Pod:          podRef(e.pod),
		Partition:    e.partition,
		Token:        e.attempt.token,
		Attempt:      e.attempt.count,
		FactSequence: e.sequence,
		LeaseMillis:  int32(c.cfg.Lease.Milliseconds()),
		Cause:        e.attempt.cause,
		Waited:       time.Duration(now - e.attempt.since).Truncate(time.Microsecond),
	}
}
