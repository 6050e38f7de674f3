package decide

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Where says in which pool a pod is and why, in words for people. PoolNone: not a pod of
// this queue, or bound, or gone.
func (c *Core) Where(uid string) (Pool, string) {
	e, ok := c.pods[uid]
	if !ok {
		return PoolNone, "not queued: unknown, bound, gone, or of another scheduler"
	}
	return e.pool(), c.reason(e)
}

func (c *Core) reason(e *entry) string {
	switch e.pool() {
	case PoolGated:
		return "waits for its scheduling gates to be removed"
	case PoolActive:
		if owner := c.world.owners[e.partition]; owner != "" {
			return fmt.Sprintf("waits for room in the window of %s (partition %d)", owner, e.partition)
		}
		return fmt.Sprintf("waits for a shard to take partition %d", e.partition)
	case PoolBackoff:
		if e.await.on {
			return "waits for its backoff, or for its last condition to show: " + e.verdict.message
		}
		return "waits for its backoff: " + e.verdict.message
	case PoolParked:
		return fmt.Sprintf("rejected by %s: %s", strings.Join(e.verdict.plugins, ", "), e.verdict.message)
	case PoolOffered:
		return fmt.Sprintf("offered to %s (token %s)", e.attempt.shard, e.attempt.token)
	case PoolHeld:
		if e.hold.live {
			return "has a reservation in the ledger"
		}
		return "had a reservation; waits until facts and ledger have caught up"
	}
	return ""
}

// Pending counts the pods of each pool; pools without pods are there with 0.
func (c *Core) Pending() map[Pool]int {
	return map[Pool]int{
		PoolGated: c.bags.gated.Len(), PoolActive: c.bags.activeCount, PoolBackoff: c.bags.backoff.Len(),
		PoolParked: c.bags.parked.Len(), PoolOffered: c.bags.offered.Len(), PoolHeld: c.bags.held.Len(),
	}
}

// Rejector is a rule that holds pods of one profile back.
type Rejector struct{ Plugin, Profile string }

// Rejectors counts the parked pods by the rules that rejected them. The map is a copy.
func (c *Core) Rejectors() map[Rejector]int { return maps.Clone(c.rejectors) }

// Leased counts the leases of each shard that asked for work lately or still holds one.
func (c *Core) Leased() map[string]int {
	out := make(map[string]int, len(c.leases.shards))
	for id, s := range c.leases.shards {
		out[id] = s.leased
	}
	return out
}

// Describe prints the pools, each sorted in the order of its next move.
func (c *Core) Describe() string {
	var out strings.Builder
	fmt.Fprintf(&out, "queue %s leading=%t term=%d facts=%d ledger=%d\n",
		c.cfg.Queue, c.leases.leading, c.leases.term, c.world.facts.Sequence, c.world.revision)
	for _, pool := range Pools {
		all := c.members(pool)
		fmt.Fprintf(&out, "%s %d\n", pool, len(all))
		for _, e := range all {
			fmt.Fprintf(&out, "  %s/%s priority=%d attempts=%d %s\n",
				e.pod.Namespace, e.pod.Name, e.pod.Priority, e.attempt.count, c.reason(e))
		}
	}
	return out.String()
}

func (c *Core) members(pool Pool) []*entry {
	var all []*entry
	less := before
	for b := range c.allBags() {
		if b.pool == pool {
			all, less = append(all, b.all...), b.less
		}
	}
	slices.SortFunc(all, func(a, b *entry) int {
		if less(a, b) {
			return -1
		}
		return 1
	})
	return all
}

func (c *Core) allBags() iter.Seq[*bag] {
	return func(yield func(*bag) bool) {
		b := &c.bags
		for _, bag := range slices.Concat([]*bag{b.gated, b.backoff, b.parked, b.offered, b.held}, b.active[:]) {
			if !yield(bag) {
				return
			}
		}
	}
}

// Check returns what is wrong with the core itself and with its picture of pods, the pods
// the facts show; nil if nothing is (I5). For tests, simulation and checks: it looks at
// everything.
func (c *Core) Check(pods iter.Seq[*state.Pod]) error {
	if err := c.checkBags(); err != nil {
		return err
	}
	wanted := 0
	for p := range pods {
		if !c.names[p.SchedulerName] || p.NodeName != "" || p.Terminal || p.Deleting {
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
	seen, leased, active := map[string]Pool{}, map[string]int{}, 0
	for b := range c.allBags() {
		for i, e := range b.all {
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
		}
	}
	if len(seen) != len(c.pods) || active != c.bags.activeCount || len(c.leases.tokens) != c.bags.offered.Len() {
		return fmt.Errorf("I5: %d pods known, %d in pools; %d active, counted %d; %d tokens, %d offers",
			len(c.pods), len(seen), active, c.bags.activeCount, len(c.leases.tokens), c.bags.offered.Len())
	}
	indexed := 0
	for _, set := range c.parkedBy {
		indexed += len(set)
	}
	if indexed != c.bags.parked.Len() {
		return fmt.Errorf("I5: %d pods parked, %d can be woken", c.bags.parked.Len(), indexed)
	}
	for id, s := range c.leases.shards {
		if s.leased != leased[id] {
			return fmt.Errorf("I5: shard %s holds %d leases, counted %d", id, leased[id], s.leased)
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
	case c.pods[uid] != e || e.in != b || e.index != index:
		return fmt.Errorf("I5: pod %s: broken index in %s", uid, b.pool)
	case live != e.hold.live || (live && !held):
		return fmt.Errorf("I5: pod %s has a reservation: %t, taken for: %t, in %s", uid, live, e.hold.live, b.pool)
	case held && live == settling:
		return fmt.Errorf("I5: pod %s is held: live %t, settling %t", uid, live, settling)
	case b.pool == PoolActive && e.partition != ledger.PartitionOf(uid):
		return fmt.Errorf("I5: pod %s is in the wrong partition", uid)
	case b.pool == PoolOffered && c.leases.tokens[e.attempt.token] != e:
		return fmt.Errorf("I5: pod %s: token %s leads elsewhere", uid, e.attempt.token)
	case e.attempt.token != "" && b.pool != PoolOffered && b.pool != PoolActive:
		return fmt.Errorf("I5: pod %s is in %s and waits for an answer to %s", uid, b.pool, e.attempt.token)
	case b.pool == PoolParked && c.missed(e):
		return fmt.Errorf("I6: pod %s is parked, its cause came after its verdict", uid)
	}
	return nil
}
