package decide

import (
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/berth-scheduler/berth/pkg/state"
)

// Check reports the first inconsistency of the core itself or with the pods that the facts show; nil if there is none
// (I5, I6). It is for tests, simulation and checks, because it visits everything.
func (c *Core) Check(pods iter.Seq[*state.Pod]) error {
	if err := c.checkBags(); err != nil {
		return err
	}
	wanted := 0
	for p := range pods {
		if !c.queued(p) {
			continue
		}
		wanted++
		if _, ok := c.pods[p.UID]; !ok {
			return fmt.Errorf("I5: pod %s is unbound and in no pool", p.UID)
		}
	}
	if wanted != len(c.pods) {
		return fmt.Errorf("I5: %d pods in pools, the facts show %d", len(c.pods), wanted)
	}
	return nil
}

func (c *Core) checkBags() error {
	seen := map[string]Pool{}
	leased := map[*shard]int{}
	active := 0
	early := 0
	for b := range c.allBags() {
		for i, e := range b.All() {
			if was, twice := seen[e.pod.UID]; twice {
				return fmt.Errorf("I5: pod %s is in %s and in %s", e.pod.UID, was, b.pool)
			}
			seen[e.pod.UID] = b.pool
			if err := c.checkEntry(e, b, i); err != nil {
				return err
			}
			switch b.pool {
			case PoolOffered:
				leased[e.attempt.shard]++
			case PoolActive:
				active++
			}
			if e.early == c.bags.early[e.partition] {
				early++
			}
		}
	}
	if len(seen) != len(c.pods) || active != c.bags.activeCount || len(c.leases.tokens) != c.bags.offered.Len() {
		return fmt.Errorf("I5: %d pods known, %d in pools; %d active, counted %d; %d tokens, %d offers",
			len(c.pods), len(seen), active, c.bags.activeCount, len(c.leases.tokens), c.bags.offered.Len())
	}
	if early != c.bags.earlyCount {
		return fmt.Errorf("I5: %d pods may go early, counted %d", early, c.bags.earlyCount)
	}
	for _, s := range c.leases.order {
		if s.early < 0 || s.early > min(s.leased, earlyAtOnce) {
			return fmt.Errorf("I5: shard %s has %d early pods in hand, of %d", s.id, s.early, s.leased)
		}
		if s.leased != leased[s] {
			return fmt.Errorf("I5: shard %s holds %d leases, counted %d", s.id, leased[s], s.leased)
		}
	}
	return errors.Join(c.checkWaiting(), c.checkLanes(), c.checkQuotas())
}

// activeBag returns the bag in which an active pod must be.
func (c *Core) activeBag(e *entry) *bag {
	if e.lane != nil && !e.permit {
		return e.lane.blocked
	}
	return c.bags.active[e.partition]
}

// checkLanes recounts the lanes.
func (c *Core) checkLanes() error {
	counted := map[*lane]lane{}
	for _, e := range c.pods {
		l := e.lane
		if l == nil {
			continue
		}
		n := counted[l]
		n.pods++
		if e.permit {
			n.out++
		}
		if e.early == c.bags.early[e.partition] {
			n.listed++
		}
		counted[l] = n
	}
	for key, l := range c.lanes.all {
		n := counted[l]
		if l.key != key || n.pods != l.pods || n.out != l.out || n.listed != l.listed || l.pods == 0 {
			return fmt.Errorf("I5: lane %q has %+v, counted %+v", key, *l, n)
		}
		if l.out < l.width && l.blocked.Len() > 0 {
			return fmt.Errorf("I6: lane %q has room and holds %d back", key, l.blocked.Len())
		}
	}
	if len(counted) != len(c.lanes.all) {
		return fmt.Errorf("I5: %d lanes, counted %d", len(c.lanes.all), len(counted))
	}
	return nil
}

// checkWaiting compares the index of the parked pods with the pool.
func (c *Core) checkWaiting() error {
	groups := 0
	for key, r := range c.waiting.rules {
		for class, g := range r.groups {
			groups++
			if g.rule != r || g.interest.Class != class || len(g.members) == 0 {
				return fmt.Errorf("I5: group %q of %v is broken", class, key)
			}
			stray := slices.IndexFunc(g.members, func(m member) bool { return m.entry.in != c.bags.parked })
			if stray >= 0 {
				return fmt.Errorf("I5: pod %s waits for %v and is not parked", g.members[stray].entry.pod.UID, key)
			}
		}
	}
	if c.waiting.pods != c.bags.parked.Len() {
		return fmt.Errorf("I5: %d pods parked, %d can be woken", c.bags.parked.Len(), c.waiting.pods)
	}
	for _, e := range c.bags.parked.All() {
		if err := checkWaits(e); err != nil {
			return err
		}
	}
	return nil
}

func checkWaits(e *entry) error {
	if len(e.waits) != max(len(e.verdict.plugins), 1) {
		return fmt.Errorf("I5: pod %s was rejected by %v and waits in %d groups", e.pod.UID, e.verdict.plugins, len(e.waits))
	}
	for slot, at := range e.waits {
		if at.index >= len(at.group.members) || at.group.members[at.index] != (member{entry: e, slot: slot}) {
			return fmt.Errorf("I5: pod %s is not in its group %v", e.pod.UID, at.group.rule.key)
		}
	}
	return nil
}

func (c *Core) checkEntry(e *entry, b *bag, index int) error {
	uid := e.pod.UID
	_, live := c.world.live[uid]
	_, settling := c.settling[e]
	held := b.pool == PoolHeld
	switch {
	case c.pods[uid] != e || e.in != b || int(e.index[slotPool]) != index:
		return fmt.Errorf("I5: pod %s: broken index in %s", uid, b.pool)
	case live != e.hold.live || (live && !held):
		return fmt.Errorf("I5: pod %s has a reservation: %t, taken for: %t, in %s", uid, live, e.hold.live, b.pool)
	case held && live == settling:
		return fmt.Errorf("I5: pod %s is held: live %t, settling %t", uid, live, settling)
	case b.pool == PoolActive && (e.partition != partitionOf(e.pod) || b != c.activeBag(e)):
		return fmt.Errorf("I5: pod %s is in the wrong partition, or without a permit", uid)
	case e.permit && (e.lane == nil || b.pool != PoolActive && b.pool != PoolOffered):
		return fmt.Errorf("I5: pod %s is in %s and has a permit", uid, b.pool)
	case b.pool == PoolOffered && c.leases.tokens[e.attempt.token] != e:
		return fmt.Errorf("I5: pod %s: token %s leads elsewhere", uid, e.attempt.token)
	case b != c.bags.gated && (e.early != nil) != (b == c.bags.backoff && e.mayGoEarly()):
		return fmt.Errorf("I5: pod %s is in %s, may go early: %t, listed: %t",
			uid, b.pool, e.mayGoEarly(), e.early != nil)
	case b == c.bags.parked && c.sawHelp(e):
		return fmt.Errorf("I6: pod %s is parked, its cause came after its verdict", uid)
	}
	return nil
}

// checkQuotas compares the gated pods with those that the budgets know.
func (c *Core) checkQuotas() error {
	for _, e := range c.bags.gated.All() {
		if !c.quotas.Gated(e.pod.UID) {
			return fmt.Errorf("I5: pod %s is gated and not known to the budgets", e.pod.UID)
		}
	}
	if n := c.quotas.Sizes().Gated; n != c.bags.gated.Len() {
		return fmt.Errorf("I5: %d pods are gated, the budgets know %d", c.bags.gated.Len(), n)
	}
	return c.quotas.Check()
}
