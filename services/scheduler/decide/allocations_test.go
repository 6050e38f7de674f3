package decide_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

// allocationsOfPod is what the core may allocate for a pod, of many that it is offered, on 5,000 nodes, a fifth more
// than it does: its fact, the decision with the record of it, the reservation, and the ledger's word of that.
const allocationsOfPod = 141

func TestAllocationsOfPods(t *testing.T) {
	p := newPlacer(t, false)
	var spent uint64
	run := p.step
	p.step = func(in step.Input, now time.Time) step.Output {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		out := run(in, now)
		runtime.ReadMemStats(&after)
		spent += after.Mallocs - before.Mallocs
		return out
	}
	p.place(podsInTurn)
	if got := float64(spent) / podsInTurn; got > allocationsOfPod {
		t.Errorf("%.0f allocations a pod, want at most %d", got, allocationsOfPod)
	}
}
