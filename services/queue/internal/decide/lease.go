package decide

import (
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
)

func (in WorkAsked) apply(c *Core, now time.Time) {
	if !c.leases.leading || in.Request.Shard == "" {
		return
	}
	s := c.shardOf(in.Request.Shard)
	s.window, s.lastSeen = max(int(in.Request.Window), 0), now
	for _, token := range in.Request.Renew {
		if e, ok := c.leases.tokens[token]; ok && e.attempt.shard == s.id {
			e.attempt.deadline = now.Add(c.cfg.Lease)
			c.bags.offered.fix(e)
		}
	}
	for _, token := range in.Request.Return {
		if e, ok := c.leases.tokens[token]; ok && e.attempt.shard == s.id {
			c.out.counts.Returned++
			c.free(e, eventLeaseReturned, now)
			e.attempt.count--
			e.attempt.token = ""
		}
	}
}

func (c *Core) shardOf(id string) *shard {
	s, ok := c.leases.shards[id]
	if !ok {
		s = &shard{id: id}
		c.leases.shards[id] = s
	}
	return s
}

// expire ends the leases whose deadline has come and forgets silent shards.
func (c *Core) expire(now time.Time) {
	for e := c.bags.offered.first(); e != nil && !e.attempt.deadline.After(now); e = c.bags.offered.first() {
		c.out.counts.Expired++
		// The token stays: a verdict that comes late is still worth having.
		c.free(e, eventLeaseExpired, now)
	}
	for id, s := range c.leases.shards {
		if now.Sub(s.lastSeen) < c.cfg.ShardTimeout {
			continue
		}
		s.window = 0
		if s.leased == 0 {
			delete(c.leases.shards, id)
		}
	}
}

// revoke ends the leases of pods whose partition has left the shard that works on them:
// its transactions can no longer succeed, so there is nothing to wait for.
func (c *Core) revoke(now time.Time) {
	var lost []*entry
	for _, e := range c.bags.offered.all {
		if c.world.owners[e.partition] != e.attempt.shard {
			lost = append(lost, e)
		}
	}
	for _, e := range lost {
		c.out.counts.Expired++
		c.free(e, eventLeaseExpired, now)
	}
}

// dispatch offers active pods to the shards that hold their partitions, as far as each
// shard's window allows, in priority order per shard.
func (c *Core) dispatch(now time.Time) {
	if !c.leases.leading || c.bags.activeCount == 0 {
		return
	}
	byOwner := map[string][]*bag{}
	var order []string
	for p, b := range c.bags.active {
		owner := c.world.owners[p]
		if s, ok := c.leases.shards[owner]; !ok || b.Len() == 0 || s.window <= s.leased {
			continue
		}
		if byOwner[owner] == nil {
			order = append(order, owner)
		}
		byOwner[owner] = append(byOwner[owner], b)
	}
	for _, owner := range order {
		c.offerTo(c.leases.shards[owner], byOwner[owner], now)
	}
}

// offerTo fills one shard's window from the partitions it holds.
func (c *Core) offerTo(s *shard, from []*bag, now time.Time) {
	var offers []events.Offer
	for s.leased < s.window {
		e := firstOf(from)
		if e == nil {
			break
		}
		offers = append(offers, c.lease(e, s, now))
	}
	c.out.counts.Offered += len(offers)
	for len(offers) > 0 {
		n := min(len(offers), c.cfg.MaxOffers)
		c.out.offers = append(c.out.offers, SendOffers{Shard: s.id, Batch: events.OfferBatch{
			Queue: c.cfg.Queue, Term: c.leases.term, Offers: offers[:n:n],
		}})
		offers = offers[n:]
	}
}

func firstOf(bags []*bag) *entry {
	var best *entry
	for _, b := range bags {
		if e := b.first(); e != nil && (best == nil || before(e, best)) {
			best = e
		}
	}
	return best
}

// lease moves a pod to offered and makes the offer.
func (c *Core) lease(e *entry, s *shard, now time.Time) events.Offer {
	e.attempt.count++
	if e.attempt.firstOffer.IsZero() {
		e.attempt.firstOffer = now
	}
	c.detach(e)
	e.attempt.token = c.newToken().String()
	e.attempt.shard = s.id
	e.attempt.deadline = now.Add(c.cfg.Lease)
	e.movedAt = 0
	c.enter(e, c.bags.offered, eventOffer, now)
	return events.Offer{
		Pod:          events.PodRef{UID: e.pod.UID, Namespace: e.pod.Namespace, Name: e.pod.Name},
		Partition:    e.partition,
		Token:        e.attempt.token,
		Attempt:      e.attempt.count,
		FactSequence: e.sequence,
		LeaseMillis:  int32(c.cfg.Lease.Milliseconds()),
	}
}

// newToken is SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number
// Generators, 2014): a bijection of a counter, so that one seed never repeats a token.
func (c *Core) newToken() ledger.Token {
	for {
		c.leases.issued++
		z := c.cfg.TokenSeed + c.leases.issued*0x9e3779b97f4a7c15
		z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
		z = (z ^ (z >> 27)) * 0x94d049bb133111eb
		if z ^= z >> 31; z != 0 {
			return ledger.Token(z)
		}
	}
}
