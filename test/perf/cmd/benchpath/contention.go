package main

import (
	"context"
	"fmt"
	"slices"
)

// attemptBuckets are the upper bounds of the histogram of attempts that the queue serves.
var attemptBuckets = []int{1, 2, 4, 8, 16}

// contention is how much the shards were in each other's way, the warm-up included.
type contention struct {
	// Txns are the shards' transactions, Conflicts those that the ledger refused.
	Txns      int `json:"txns"`
	Conflicts int `json:"conflicts"`
	// Placed is how many pods each shard placed.
	Placed []int `json:"placed"`
	// Attempts is the bound of the last bucket with a pod in it: no pod needed more; 0 says that
	// one needed more than the last bound.
	Attempts int `json:"mostAttempts"`
}

// contention asks the shards and the queue.
func (t *track) contention(ctx context.Context) (c contention, err error) {
	read := func(m member, name string, labels ...string) int {
		value, wrong := m.berth.Metric(ctx, name, labels...)
		if wrong != nil && err == nil {
			err = wrong
		}
		return int(value)
	}
	for _, m := range t.members {
		switch m.service {
		case "scheduler":
			c.Txns += read(m, "berth_ledger_txns_total")
			c.Conflicts += read(m, "berth_ledger_txns_total", `result="conflict"`)
			c.Placed = append(c.Placed, read(m, "scheduler_schedule_attempts_total", `result="scheduled"`))
		case "queue":
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

// percent is the share of transactions that the ledger refused.
func (c contention) percent() float64 {
	if c.Txns == 0 {
		return 0
	}
	return 100 * float64(c.Conflicts) / float64(c.Txns)
}

// shares are what the shard with the fewest and the one with the most placed, in percent of all.
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
