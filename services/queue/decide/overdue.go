package decide

import (
	"time"

	"github.com/berth-scheduler/berth/pkg/anomaly"

	"github.com/berth-scheduler/berth/services/queue/decide/waiting"
)

// maxOverdue bounds the overdue pods that are reported: more of them would not change the finding.
const maxOverdue = 1000

// Overdue returns the pods that have been active, or offered to a shard, for longer than they should. It visits all
// of these.
func (c *Core) Overdue(now time.Time) []anomaly.TimedState {
	var list []anomaly.TimedState
	for b := range c.backlog.pools.Bags() {
		limit := anomaly.OverdueActive
		switch b.Pool {
		case waiting.PoolActive:
		case waiting.PoolOffered:
			limit = anomaly.OverdueTrying
		default:
			continue
		}
		for _, e := range b.All() {
			if since := c.clock.timeOf(e.Entered); now.Sub(since) > limit && len(list) < maxOverdue {
				list = append(list, anomaly.TimedState{
					Pod: e.Pod.Key(), Where: string(b.Pool) + ", " + c.reason(e), Since: since, Limit: limit,
				})
			}
		}
	}
	return list
}
