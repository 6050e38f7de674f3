package decide

import (
	"fmt"
	"slices"
	"testing"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"

	"github.com/berth-scheduler/berth/services/queue/decide/quota"
)

// TestNothingIsRememberedOfWhatIsGone checks that nothing is left of pods and namespaces that are gone, even if some
// pods were let go through the quota gate.
func TestNothingIsRememberedOfWhatIsGone(t *testing.T) {
	h := newHarness(t)
	h.lead()
	h.churn(3000)
	h.wantNothing()
}

// TestAStandbyRemembersNothingOfWhatIsGone covers a replica that has never led, and one whose term ended while pods
// kept their gates and others waited for a turn. If it leads again, it requests the removals that were late once
// more.
func TestAStandbyRemembersNothingOfWhatIsGone(t *testing.T) {
	h := newHarness(t)
	h.churn(300)
	h.wantNothing()
	h.lead()
	for i := range 2 * quota.MaxOutstanding {
		h.gated("ns", fmt.Sprintf("pod%d", i), "1")
	}
	h.sleep(quota.RemovalTime)
	for i, d := range h.records {
		h.step(h.ungateOf(d.Pod.Name, uint64(i+1)))
	}
	h.sleep(quota.RemovalTime - 1)
	h.gated("other", "other", "1")
	h.sleep(1)
	h.gated("gone", "gone", "1")
	h.remove("gone") // while its namespace waits for its turn
	h.ungated()
	late, turns := h.core.budgets.Overdue(), h.core.budgets.Sizes().Turns
	if len(late) == 0 || turns == 0 {
		h.t.Fatalf("%d pods are late, %d namespaces wait for a turn, want some", len(late), turns)
	}
	h.step(StepDown{})
	h.check()
	h.step(Lead{Term: 2})
	again := h.ungated()
	for _, uid := range late {
		if !slices.Contains(again, uid) {
			h.t.Fatalf("%s is not asked about again", uid)
		}
	}
	h.step(StepDown{})
	h.remove("other")
	for i := range 2 * quota.MaxOutstanding {
		h.remove(fmt.Sprintf("pod%d", i))
	}
	h.ungated()
	h.wantNothing()
}

// churn creates and deletes namespaces with a budget and two pods each.
func (h *harness) churn(namespaces int) {
	h.t.Helper()
	for i := range namespaces {
		ns := fmt.Sprintf("ns%d", i)
		h.budget(ns, "pods=1")
		for _, name := range []string{ns + "-a", ns + "-b"} {
			h.gated(ns, name, "1")
		}
		h.ungated()
		if i%2 == 0 {
			h.ungate(ns + "-a")
		}
		if i%3 == 0 {
			h.sleep(quota.RemovalTime)
			h.ungated()
		}
		h.remove(ns + "-a")
		h.ungated()
		h.remove(ns + "-b")
		gone := &state.Object{Kind: events.KindNamespace, Name: ns}
		h.facts(state.Changes{Others: []state.ObjectChange{{Kind: events.KindNamespace, Before: gone}}})
	}
	h.ungated()
}

// wantNothing checks that nothing is remembered.
func (h *harness) wantNothing() {
	h.t.Helper()
	c := h.core
	p, budgets := c.backlog.pools.Sizes(), c.budgets.Sizes()
	for what, n := range map[string]int{
		"pods": len(c.backlog.pods), "settling": p.Settling, "lanes": p.Lanes, "moved lanes": p.MovedLanes,
		"tokens": len(c.leases.tokens), "reservations": len(c.backlog.live), "unseen": len(c.backlog.unseen),
		"namespaces": budgets.Namespaces, "gated": budgets.Gated, "turns": budgets.Turns, "leaving": budgets.Leaving,
		"hidden": budgets.Hidden,
	} {
		if n > 0 {
			h.t.Fatalf("%d %s are remembered", n, what)
		}
	}
	h.check()
}
