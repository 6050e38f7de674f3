package decide

import (
	"time"

	"github.com/berth-scheduler/berth/pkg/anomaly"
)

// maxOverdue bounds the overdue pods that are reported: more of them would not change the finding.
const maxOverdue = 1000

// Overdue returns the pods that have been active, or offered to a shard, for longer than they should. It visits all
// of these.
func (c *Core) Overdue(now time.Time) []anomaly.Waiting {
	var list []anomaly.Waiting
	for b := range c.backlog.pools.bags() {
		limit := anomaly.OverdueActive
		switch b.pool {
		case PoolActive:
		case PoolOffered:
			limit = anomaly.OverdueTrying
		default:
			continue
		}
		for _, e := range b.All() {
			if since := c.clock.timeOf(e.entered); now.Sub(since) > limit && len(list) < maxOverdue {
				list = append(list, anomaly.Waiting{
					Pod: e.pod.Key(), Where: string(b.pool) + ", " + c.reason(e), Since: since, Limit: limit,
				})
			}
		}
	}
	return list
}
