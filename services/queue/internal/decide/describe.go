package decide

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/services/queue/internal/quota"
)

// Where returns the pool of a pod and the reason, in words for people. PoolNone means that the pod is not one of this
// queue's, is bound or is gone.
func (c *Core) Where(uid string) (Pool, string) {
	e, ok := c.backlog.pods[uid]
	if !ok {
		return PoolNone, "not queued: unknown, bound, gone, or of another scheduler"
	}
	return e.pool(), c.reason(e)
}

func (c *Core) reason(e *entry) string {
	switch e.pool() {
	case PoolGated:
		if e.pod.TooLarge() {
			return tooLargeReason(e.pod)
		}
		if quota.Waits(e.pod) {
			return c.budgets.Reason(e.pod)
		}
		return "waits for its scheduling gates to be removed"
	case PoolActive:
		if e.lane != nil && e.in == e.lane.blocked {
			return "waits until others that were rejected alike have been tried again: " + e.verdict.message
		}
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
		if e.in == c.backlog.pools.quarantine {
			return e.verdict.message
		}
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

// Pending counts the pods of each pool. Empty pools are included with 0.
func (c *Core) Pending() map[Pool]int { return c.backlog.pools.pending() }

// Rejectors counts the pods that each rule holds back: for a rule that rejected the pod's last attempt, until the
// next attempt; and for the gates of gated pods. The map is a copy.
func (c *Core) Rejectors() map[Rejector]int { return maps.Clone(c.backlog.pools.rejectors) }

// Leased counts the leases of each shard that requested work recently, holds a lease or holds a partition.
func (c *Core) Leased() map[string]int {
	out := make(map[string]int, len(c.leases.shards))
	for id, s := range c.leases.shards {
		out[id] = s.leased
	}
	return out
}

// Overview prints how many pods each pool has, how many each rule holds back, and how the load is spread over the
// shards.
func (c *Core) Overview() string {
	var out strings.Builder
	c.describeSelf(&out)
	pending := c.Pending()
	for _, pool := range Pools {
		fmt.Fprintf(&out, "%s %d\n", pool, pending[pool])
	}
	var rules []string
	for r, pods := range c.backlog.pools.rejectors {
		rules = append(rules, fmt.Sprintf("held back by %s of profile %s: %d\n", r.Plugin, r.Profile, pods))
	}
	slices.Sort(rules)
	out.WriteString(strings.Join(rules, ""))
	out.WriteString(c.balancer.Describe(c.loads(), c.clock.timeOf(c.clock.now)))
	return out.String()
}

func (c *Core) describeSelf(out *strings.Builder) {
	fmt.Fprintf(out, "queue %s leading=%t term=%d facts=%d ledger=%d\n",
		c.cfg.Queue, c.leases.leading, c.leases.term, c.world.facts.Sequence, c.world.revision)
}

// Describe prints the pools, each in the order in which its pods leave it.
func (c *Core) Describe() string {
	var out strings.Builder
	c.describeSelf(&out)
	out.WriteString(c.balancer.Describe(c.loads(), c.clock.timeOf(c.clock.now)))
	for _, pool := range Pools {
		all := c.backlog.pools.members(pool)
		fmt.Fprintf(&out, "%s %d\n", pool, len(all))
		for _, e := range all {
			fmt.Fprintf(&out, "  %s/%s priority=%d attempts=%d %s\n",
				e.pod.Namespace, e.pod.Name, e.pod.Priority, e.attempt.count, c.reason(e))
		}
	}
	return out.String()
}
