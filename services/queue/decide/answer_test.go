package decide

import (
	"slices"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/services/queue/decide/waiting"
)

func TestAnswer(t *testing.T) {
	h := newHarness(t)
	for _, name := range []string{"a", "b", "c"} {
		h.add(name, 0)
		h.now = h.now.Add(time.Millisecond)
	}
	h.lead()
	if a := h.core.Answer("c"); a.Pool != string(waiting.PoolActive) || a.Ahead != 2 || a.Reason == "" {
		t.Errorf("c: %+v, want active behind two", a)
	}
	h.ask("s1", 1)
	offer := h.offerOf("a")
	if offer.Cause != waiting.EventPodAdd || offer.Waited <= 0 {
		t.Errorf("a was offered for %q after %s, want the event that brought it", offer.Cause, offer.Waited)
	}
	h.answer(offer, events.DecisionUnplaceable, func(d *events.Decision) {
		d.Plugins = []string{names.NodeResourcesFit}
	})
	a := h.core.Answer("a")
	if a.Pool != string(waiting.PoolParked) || len(a.Wakes) != 1 || a.Shard != "s1" {
		t.Fatalf("a: %+v, want parked with what wakes it", a)
	}
	for _, event := range []string{"NodeAdd", "NodeUpdateNodeAllocatable", "AssignedPodDelete"} {
		if !slices.Contains(a.Wakes[0].Events, event) {
			t.Errorf("woken by %v, want %s among them", a.Wakes[0].Events, event)
		}
	}
	if a := h.core.Answer("nobody"); a.Pool != "" || a.Reason == "" {
		t.Errorf("nobody: %+v, want no pool and a reason", a)
	}
}
