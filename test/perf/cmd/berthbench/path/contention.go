package path

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// attemptBuckets are the upper bounds of the histogram of attempts that the queue serves.
var attemptBuckets = []int{1, 2, 4, 8, 16}

// lossReasons are the objects that a shard can lose a race about.
var lossReasons = []string{"node", "guard", "keeper", "pod", "partition", "budget"}

// contention is how much the shards were in each other's way, the warm-up included.
type contention struct {
	// Txns are the shards' transactions, Conflicts those that the ledger refused.
	Txns      int `json:"txns"`
	Conflicts int `json:"conflicts"`
	// Lost counts the refused transactions by their reason.
	Lost map[string]int `json:"lost"`
	// Placed is how many pods each shard placed.
	Placed []int `json:"placed"`
	// Attempts is the bound of the last bucket with a pod in it: no pod needed more; 0 means that a pod needed more
	// than the last bound.
	Attempts int `json:"mostAttempts"`
}

// contention asks the shards and the queue.
func (t *track) contention(ctx context.Context) (c contention, err error) {
	c.Lost = map[string]int{}
	read := func(m member, name string, labels ...string) int {
		value, wrong := m.berth.Metric(ctx, name, labels...)
		if wrong != nil && err == nil {
			err = wrong
		}
		return int(value)
	}
	for _, m := range t.members {
		if m.service == "scheduler" || m.service == everything {
			c.Txns += read(m, "berth_ledger_txns_total")
			c.Conflicts += read(m, "berth_ledger_txns_total", `result="conflict"`)
			for _, reason := range lossReasons {
				c.Lost[reason] += read(m, "berth_conflicts_total", `reason="`+reason+`"`)
			}
			c.Placed = append(c.Placed, read(m, "scheduler_schedule_attempts_total", `result="scheduled"`))
		}
		if m.service == "queue" || m.service == everything {
			const attempts = "scheduler_pod_scheduling_attempts"
			all := read(m, attempts+"_count")
			i := slices.IndexFunc(attemptBuckets, func(bound int) bool {
				return read(m, attempts+"_bucket", fmt.Sprintf(`le="%d"`, bound)) >= all
			})
			if i >= 0 {
				c.Attempts = attemptBuckets[i]
			}
		}
	}
	return c, err
}

// losses are the races that were lost, by what about, those most often lost first; "–" for none.
func (c contention) losses() string {
	reasons := slices.DeleteFunc(slices.Clone(lossReasons), func(r string) bool { return c.Lost[r] == 0 })
	if len(reasons) == 0 {
		return "–"
	}
	slices.SortStableFunc(reasons, func(a, b string) int { return c.Lost[b] - c.Lost[a] })
	text := make([]string, len(reasons))
	for i, r := range reasons {
		text[i] = fmt.Sprintf("%d %s", c.Lost[r], r)
	}
	return strings.Join(text, ", ")
}

// percent is the share of transactions that the ledger refused.
func (c contention) percent() float64 {
	if c.Txns == 0 {
		return 0
	}
	return 100 * float64(c.Conflicts) / float64(c.Txns)
}

// shares are the placements of the shard with the fewest and of the shard with the most, in percent of all.
func (c contention) shares() (least, most float64) {
	all := 0
	for _, n := range c.Placed {
		all += n
	}
	if all == 0 {
		return 0, 0
	}
	least = 100
	for _, n := range c.Placed {
		share := 100 * float64(n) / float64(all)
		least, most = min(least, share), max(most, share)
	}
	return least, most
}
