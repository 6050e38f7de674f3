package state_test

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

// What a store may allocate for a fact about a pod, which is a fifth more than it does: for a pod of a deployment,
// and for a unique pod that shares nothing.
const (
	allocationsOfReplica = 28
	allocationsOfSingle  = 285
)

func TestAllocationsOfFacts(t *testing.T) {
	for name, c := range map[string]struct {
		fleet
		budget float64
	}{
		"of a deployment": {fleet{pods: 2000, perTemplate: 50}, allocationsOfReplica},
		"singles":         {fleet{pods: 2000, perTemplate: 1}, allocationsOfSingle},
	} {
		var batches [][]events.SequencedFact
		c.each(func(f []events.SequencedFact) { batches = append(batches, f) })
		got := float64(allocations(t, batches)) / float64(c.pods)
		if got > c.budget {
			t.Errorf("%s: %.1f allocations a fact, want at most %.1f", name, got, c.budget)
		}
	}
}

// allocations counts what a new store allocates for facts. Parts of pods are shared as long as they are referenced,
// so a garbage collection runs before, and none while it counts.
func allocations(t *testing.T, batches [][]events.SequencedFact) uint64 {
	t.Helper()
	heap()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	var before, after runtime.MemStats
	store := state.New()
	runtime.ReadMemStats(&before)
	for _, batch := range batches {
		if _, err := store.Apply(batch); err != nil {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(store)
	return after.Mallocs - before.Mallocs
}
