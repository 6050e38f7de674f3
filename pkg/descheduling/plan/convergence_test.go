package plan

import (
	"flag"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/pkg/descheduling/deschedulingtest"
	"github.com/berth-scheduler/berth/pkg/descheduling/policy"
	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/seedtest"
)

var (
	worlds = flag.Int("worlds", 200, "how many clusters to bring to rest")
	seed   = flag.Uint64("seed", 0, "seed of the first cluster; 0: TEST_SEED")
)

// patience is the number of cycles within which a cluster must come to rest.
const patience = 40

// TestConvergence checks that repeated cycles reach one in which nothing is moved, and that nothing moves more than
// once after the first. Replacements land where a place is kept for them.
func TestConvergence(t *testing.T) {
	first := seedtest.First(t, *seed)
	profile, err := placement.NewProfile(placement.DefaultProfile("default-scheduler"))
	if err != nil {
		t.Fatal(err)
	}
	moved, unsettled := 0, 0
	for i := range uint64(*worlds) {
		w, err := deschedulingtest.Unbalanced(first + i)
		if err != nil {
			t.Fatal(err)
		}
		before := w.Imbalance()
		moves, cycles := settle(t, w, profile)
		moved += moves
		if w.Imbalance() > before || w.Unplaced() > 0 {
			t.Errorf("seed %d: imbalance was %.1f and is %.1f, %d pods without a node",
				first+i, before, w.Imbalance(), w.Unplaced())
		}
		if cycles == patience {
			unsettled++
			t.Errorf("seed %d: %s does not come to rest", first+i, w.Strategy)
		}
		for _, p := range w.Pods {
			if w.Evictions(p.Name) > 1 {
				t.Errorf("seed %d: %s: a pod moved %d times after the first cycle", first+i, w.Strategy, w.Evictions(p.Name))
				break
			}
		}
	}
	t.Logf("%d clusters, %d moves, %d never at rest", *worlds, moved, unsettled)
	if moved < *worlds {
		t.Errorf("%d moves in %d clusters: nothing was unbalanced", moved, *worlds)
	}
}

// settle runs cycles until one moves nothing.
func settle(t *testing.T, w *deschedulingtest.World, profile *placement.Profile) (moves, cycles int) {
	t.Helper()
	p, err := policy.Parse("test", []byte(w.Policy("berth: {cooldown: 0s}", "")))
	if err != nil {
		t.Fatal(err)
	}
	history, at := NewHistory(), deschedulingtest.Began
	for ; cycles < patience; cycles++ {
		cluster, err := w.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		at = at.Add(5 * time.Minute)
		w.Now = at
		made := Make(Input{
			Cluster: cluster, Policy: p, History: history, Now: at, Pinned: true,
			Placement: func(string) *placement.Profile { return profile },
		})
		if len(made.Moves) == 0 {
			return moves, cycles
		}
		var names []string
		kept := map[string]string{}
		for _, m := range made.Moves {
			names = append(names, m.Pod.Name)
			kept[m.Pod.Name] = m.To.Name
			d := events.Decision{
				Kind: events.DecisionEvict, Attempt: 1, Owner: m.Owner, FactSequence: uint64(cycles),
				Pod: events.PodRef{UID: m.Pod.UID, Namespace: m.Pod.Namespace}, NodeName: m.Pod.NodeName, Landing: m.To.Name,
			}
			history.Observe(d, at)
			d.Kind = events.DecisionEvicted
			history.Observe(d, at)
		}
		if err := w.Evict(names, kept); err != nil {
			t.Fatal(err)
		}
		moves += len(names)
		if cycles == 0 {
			w.ResetEvictions()
		}
	}
	return moves, cycles
}
