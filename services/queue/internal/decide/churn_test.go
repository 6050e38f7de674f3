package decide

import (
	"fmt"
	"testing"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

// TestNothingIsRememberedOfWhatIsGone: pods and namespaces come and go, some let go through the quota gate, and nothing
// of them is left.
func TestNothingIsRememberedOfWhatIsGone(t *testing.T) {
	h := newHarness(t)
	h.lead()
	for i := range 3000 {
		ns := fmt.Sprintf("ns%d", i)
		h.budget(ns, "pods=1")
		for _, name := range []string{ns + "-a", ns + "-b"} {
			h.gated(ns, name, "1")
		}
		h.let()
		if i%2 == 0 {
			h.ungate(ns + "-a")
		}
		if i%3 == 0 {
			h.sleep(quotaPatience)
			h.let()
		}
		h.remove(ns + "-a")
		h.let()
		h.remove(ns + "-b")
		gone := &state.Object{Kind: events.KindNamespace, Name: ns}
		h.facts(state.Changes{Others: []state.ObjectChange{{Kind: events.KindNamespace, Before: gone}}})
	}
	h.let()
	c := h.core
	for what, n := range map[string]int{
		"pods": len(c.pods), "settling": len(c.settling), "lanes": len(c.lanes.all), "moved lanes": len(c.lanes.moved),
		"tokens": len(c.leases.tokens), "reservations": len(c.world.live), "ghosts": len(c.history.ghosts),
		"namespaces": len(c.quotas.spaces), "turns": len(c.quotas.turns), "leaving": len(c.quotas.leaving),
		"hidden": len(c.quotas.hidden),
	} {
		if n > 0 {
			t.Errorf("%d %s are remembered", n, what)
		}
	}
	h.check()
}
