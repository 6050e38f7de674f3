//go:build !race

package state_test

import (
	"testing"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

// What a store may allocate for a fact about a pod, a fifth more than it does: one of a deployment, and one like
// no other. The race detector's build allocates more, at random.
const (
	allocationsOfReplica = 34
	allocationsOfSingle  = 35
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
		got := testing.AllocsPerRun(5, func() {
			store := state.New()
			for _, batch := range batches {
				if _, err := store.Apply(batch); err != nil {
					t.Fatal(err)
				}
			}
		}) / float64(c.pods)
		if got > c.budget {
			t.Errorf("%s: %.1f allocations a fact, want at most %.1f", name, got, c.budget)
		}
	}
}
