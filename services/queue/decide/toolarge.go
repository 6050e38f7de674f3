package decide

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/strip"
	"github.com/berth-scheduler/berth/services/queue/decide/waiting"
)

// A pod that is too large for the log has events.TooLargeGate in the facts, and waits with the gated pods until it is
// smaller. Its condition and an event explain that, once for each replica that leads.

// tooLargeReason explains to the owner of a pod what to do. The annotation has the original
// size and the limit.
func tooLargeReason(p *state.Pod) string {
	return fmt.Sprintf("the pod is too large to be scheduled (%s): shorten its spec, labels or annotations",
		cmp.Or(p.Annotation(strip.TooLargeAnnotation), "gate "+events.TooLargeGate))
}

// reportTooLarge makes the binder inform the owners of pods that are too large, through a decision.
func (c *Core) reportTooLarge() {
	tooLarge := c.backlog.pools.TooLarge
	if len(tooLarge) == 0 || !c.leases.leading || !c.decisions.caughtUp {
		return
	}
	for _, e := range slices.SortedFunc(maps.Keys(tooLarge), waiting.BySerial) {
		c.recordQuarantine(e, tooLargeReason(e.Pod))
	}
	clear(tooLarge)
}
