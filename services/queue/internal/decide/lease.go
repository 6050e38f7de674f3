package decide

import (
	"slices"
	"strings"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/state"
)

// earlyAtOnce is how many pods that left their backoff early a shard may have leased at the same time. Upstream has
// one, because it decides one pod at a time. Without a limit, ten thousand pods that fit nowhere would keep an idle
// shard and the log as busy as they can be.
const earlyAtOnce = 4

// apply records the shard's window, on a standby too: a queue that becomes the leader then offers pods at once
// instead of waiting up to a heartbeat for the next request. Only the leader has leases to renew or take back.
func (in WorkAsked) apply(c *Core, now moment) {
	if in.Request.Shard == "" {
		return
	}
	s := c.shardOf(in.Request.Shard)
	s.window, s.lastSeen = max(int(in.Request.Window), 0), now
	if !c.leases.leading {
		return
	}
	for _, token := range in.Request.Renew {
		if e, ok := c.leases.tokens[token]; ok && e.attempt.shard == s {
			e.attempt.deadline = now.add(c.cfg.Lease)
			c.bags.offered.Fix(e)
		}
	}
	for _, token := range in.Request.Return {
		if e, ok := c.leases.tokens[token]; ok && e.attempt.shard == s {
			c.out.counts.Returned++
			c.free(e, eventLeaseReturned, now)
			e.attempt.count--
			e.attempt.token = ""
		}
	}
	for _, uid := range in.Request.Activate {
		c.activate(uid, now)
	}
}

func (c *Core) shardOf(id string) *shard {
	s, ok := c.leases.shards[id]
	if !ok {
		s = &shard{id: id}
		c.leases.shards[id] = s
		at, _ := slices.BinarySearchFunc(c.leases.order, s, byID)
		c.leases.order = slices.Insert(c.leases.order, at, s)
	}
	return s
}

func byID(a, b *shard) int { return strings.Compare(a.id, b.id) }

// gaveBack ends a lease.
func (s *shard) gaveBack(e *entry) {
	s.leased--
	if e.attempt.early {
		s.early--
		e.attempt.early = false
	}
	if s.alone == e {
		s.alone = nil
	}
}

// expire ends the leases whose deadline has passed and forgets silent shards.
func (c *Core) expire(now moment) {
	for e := c.bags.offered.First(); e != nil && e.attempt.deadline <= now; e = c.bags.offered.First() {
		c.lost(e, now)
	}
	for _, s := range c.leases.order {
		if s.lastSeen.add(c.cfg.ShardTimeout) <= now {
			s.window = 0
		}
	}
	c.leases.order = slices.DeleteFunc(c.leases.order, func(s *shard) bool {
		idle := s.window == 0 && s.leased == 0 && len(s.partitions) == 0
		if idle {
			delete(c.leases.shards, s.id)
		}
		return idle
	})
}

// owned records the holders of the partitions. It ends the leases of pods whose partition has left the shard that
// works on them: the shard's transactions can no longer succeed, so there is nothing to wait for.
func (c *Core) owned(owners [ledger.Partitions]string, now moment) {
	c.world.owners = owners
	for _, s := range c.leases.shards {
		s.partitions = nil
	}
	for p, owner := range owners {
		if owner != "" {
			s := c.shardOf(owner)
			s.partitions = append(s.partitions, int32(p))
		}
	}
	for _, e := range inOrder(c.bags.offered) {
		if owners[e.partition] == e.attempt.shard.id {
			continue
		}
		if c.silent(e.attempt.shard, now) {
			c.lost(e, now)
			continue
		}
		c.out.counts.Expired++
		c.free(e, eventLeaseExpired, now)
	}
}

// dispatch offers pods to the shards that hold their partitions, up to each shard's window.
func (c *Core) dispatch(now moment) {
	if !c.leases.leading || !c.history.caughtUp || c.bags.activeCount+c.bags.earlyCount == 0 {
		return
	}
	for _, s := range c.leases.order {
		if s.leased < s.window && s.alone == nil {
			c.offerTo(s, now)
		}
	}
}

// offerTo fills one shard's window from the partitions it holds.
func (c *Core) offerTo(s *shard, now moment) {
	var offers []events.Offer
	for s.leased < s.window && s.alone == nil {
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
	var best *entry
	for _, p := range s.partitions {
		if e := c.bags.active[p].First(); e != nil && (best == nil || before(e, best)) {
			best = e
		}
	}
	if best != nil || s.early >= earlyAtOnce {
		return best
	}
	return c.earlyFor(s)
}

// earlyFor returns the first pod that may leave its backoff early, is not covered by a verdict of its lane and whose
// lane is not full.
func (c *Core) earlyFor(s *shard) *entry {
	for c.bags.earlyCount > 0 {
		var best *entry
		for _, p := range s.partitions {
			if e := c.bags.early[p].First(); e != nil && (best == nil || earlyBefore(e, best)) {
				best = e
			}
		}
		switch {
		case best == nil || best.lane == nil:
			return best
		case c.covered(best):
			c.notEarly(best)
			best.late = true
		case best.lane.out >= best.lane.width:
			c.standBack(best)
		default:
			return best
		}
	}
	return nil
}

// lease moves a pod to offered and makes the offer.
func (c *Core) lease(e *entry, s *shard, now moment) events.Offer {
	if e.in == c.bags.backoff {
		if e.lane != nil {
			e.permit = true
			e.lane.out++
		}
		c.free(e, eventPopFromBackoff, now)
		e.attempt.early = true
		s.early++
	}
	c.detach(e)
	c.unreject(e)
	e.attempt.count++
	e.attempt.activated = false
	if e.attempt.firstOffer == 0 {
		e.attempt.firstOffer = now
	}
	e.attempt.token = c.newToken().String()
	e.attempt.shard = s
	e.attempt.deadline = now.add(c.cfg.Lease)
	if e.suspect() {
		s.alone = e
	}
	c.enter(e, c.bags.offered, eventOffer, now)
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

func podRef(p *state.Pod) events.PodRef {
	return events.PodRef{UID: p.UID, Namespace: p.Namespace, Name: p.Name}
}

// newToken uses SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014): a bijection of
// a counter, so that one seed never repeats a token.
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
