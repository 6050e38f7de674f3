package decide

import (
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
)

// world is the position in the facts and in the ledger, and the content of both as far as the core needs it. Only the
// core's inputs change it; everything else reads it.
type world struct {
	facts Position
	// primed means that there are facts. A pod that they do not show at an answer's sequence is gone.
	primed   bool
	epochs   epochs
	objects  placement.Objects
	revision int64
	// owners names the holder of each partition, "" for none.
	owners [ledger.Partitions]string
}

// reservations holds the pods with a live reservation, whether the queue knows them or not, as last seen (nil: never
// seen).
type reservations map[string]*state.Pod

// seen records how the facts show a pod. It reports whether the pod has a live reservation.
func (r reservations) seen(p *state.Pod) bool {
	_, live := r[p.UID]
	if live {
		r[p.UID] = p
	}
	return live
}
