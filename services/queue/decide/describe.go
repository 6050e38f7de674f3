package decide

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/services/queue/decide/quota"
	"github.com/berth-scheduler/berth/services/queue/decide/waiting"
)

// Where returns the pool of a pod and the reason, in words for people. PoolNone means that the pod is not one of this
// queue's, is bound or is gone.
func (c *Core) Where(uid string) (waiting.Pool, string) {
	e, ok := c.backlog.pods[uid]
	if !ok {
		return waiting.PoolNone, "not queued: unknown, bound, gone, or of another scheduler"
	}
	return e.Pool(), c.reason(e)
}

// reason returns, in words for people, why a pod is in its pool and what it waits for.
func (c *Core) reason(e *waiting.Entry) string {
	switch e.Pool() {
	case waiting.PoolGated:
		if e.Pod.TooLarge() {
			return tooLargeReason(e.Pod)
		}
		if quota.Waits(e.Pod) {
			return c.budgets.Reason(e.Pod)
		}
		return "waits for its scheduling gates to be removed"
	case waiting.PoolActive:
		if e.Blocked() {
			return "waits until others that were rejected alike have been tried again: " + e.Verdict.Message
		}
		if owner := c.world.Owners[e.Partition]; owner != "" {
			return fmt.Sprintf("waits for room in the window of %s (partition %d)", owner, e.Partition)
		}
		return fmt.Sprintf("waits for a shard to take partition %d", e.Partition)
	case waiting.PoolBackoff:
		if e.Await.On {
			return "waits for its backoff, or for its last condition to show: " + e.Verdict.Message
		}
		return "waits for its backoff: " + e.Verdict.Message
	case waiting.PoolParked:
		if e.In == c.backlog.pools.Quarantine {
			return e.Verdict.Message
		}
		return fmt.Sprintf("rejected by %s: %s", strings.Join(e.Verdict.Plugins, ", "), e.Verdict.Message)
	case waiting.PoolOffered:
		return fmt.Sprintf("offered to %s (token %s)", e.Attempt.Shard, e.Attempt.Token)
	case waiting.PoolHeld:
		if e.Hold.Live {
			return "has a reservation in the ledger"
		}
		return "had a reservation; waits until facts and ledger have caught up"
	case waiting.PoolGrouped:
		return groupedReason(e)
	}
	return ""
}

// groupedReason returns why a pod is not tried itself.
func groupedReason(e *waiting.Entry) string {
	key, lead := e.Group()
	if lead == nil {
		return "waits with its group " + key
	}
	return fmt.Sprintf("waits with its group %s, for which %s/%s stands in the queue", key, lead.Namespace, lead.Name)
}

// Pending counts the pods of each pool. Empty pools are included with 0.
func (c *Core) Pending() map[waiting.Pool]int { return c.backlog.pools.Pending() }

// Rejectors counts the pods that each rule holds back: for a rule that rejected the pod's last attempt, until the
// next attempt; and for the gates of gated pods. The map is a copy.
func (c *Core) Rejectors() map[waiting.Rejector]int { return maps.Clone(c.backlog.pools.Rejectors) }

// EventsKept counts the events that are kept for pods that are being tried, by kube-scheduler's name of the event.
func (c *Core) EventsKept() map[string]int { return c.backlog.journal.Count() }

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
	for _, pool := range waiting.AllPools {
		fmt.Fprintf(&out, "%s %d\n", pool, pending[pool])
	}
	var rules []string
	for r, pods := range c.backlog.pools.Rejectors {
		rules = append(rules, fmt.Sprintf("held back by %s of profile %s: %d\n", r.Plugin, r.Profile, pods))
	}
	slices.Sort(rules)
	out.WriteString(strings.Join(rules, ""))
	out.WriteString(c.balancer.Describe(c.loads(), c.clock.timeOf(c.clock.now)))
	return out.String()
}

// describeSelf prints the position of this replica, so that the descriptions of two replicas can be compared.
func (c *Core) describeSelf(out *strings.Builder) {
	fmt.Fprintf(out, "queue %s leading=%t term=%d facts=%d ledger=%d\n",
		c.cfg.Queue, c.leases.leading, c.leases.term, c.world.Facts.Sequence, c.world.Revision)
}

// Describe prints the pools, each in the order in which its pods leave it.
func (c *Core) Describe() string {
	var out strings.Builder
	c.describeSelf(&out)
	out.WriteString(c.balancer.Describe(c.loads(), c.clock.timeOf(c.clock.now)))
	for _, pool := range waiting.AllPools {
		all := c.backlog.pools.Members(pool)
		fmt.Fprintf(&out, "%s %d\n", pool, len(all))
		for _, e := range all {
			fmt.Fprintf(&out, "  %s/%s priority=%d attempts=%d %s\n",
				e.Pod.Namespace, e.Pod.Name, e.Pod.Priority, e.Attempt.Count, c.reason(e))
		}
	}
	return out.String()
}
