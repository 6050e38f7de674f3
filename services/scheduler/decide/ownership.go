package decide

import (
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/services/scheduler/decide/shard"
)

// ownership tracks the partitions that the shard holds, for the messages to the queue and to the balancer. Whether a
// single pod may be decided is asked of shard.State.Holds.
type ownership struct {
	// partitions is how many this shard holds; announced: it has asked the queue for work since it held the first.
	partitions int
	announced  bool
	// moved: partitions or members have changed since the last takeMoved.
	moved bool
}

// apply applies a change of partitions or members.
func (o *ownership) apply(changes replica.Changes, s *shard.State) {
	if changes.Reset || changes.Members || len(changes.Partitions) > 0 {
		o.moved = true
		o.partitions = s.Partitions()
	}
}

// announce notes that a request for work is sent; ready reports whether the shard can place pods.
func (o *ownership) announce(ready bool) { o.announced = o.announced || ready }

// takeMoved reports whether partitions or members have changed since the last call.
func (o *ownership) takeMoved() bool {
	moved := o.moved
	o.moved = false
	return moved
}
