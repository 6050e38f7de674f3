package ledgertest

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/pkg/ledger"
)

const (
	// namesSteps is the number of steps in one history, namesSeeds the number of histories, and namesAblated how
	// many may pass before a missing rule is detected.
	namesSteps   = 400
	namesSeeds   = 1000
	namesAblated = 4000
)

func namesHistory(ctx context.Context, r namesRules, choose func(string, int) int) (*namesWorld, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := newNamesWorld(ctx, r, choose)
	if err != nil {
		return nil, err
	}
	steps := w.steps()
	for i := range namesSteps {
		if err := steps[choose("step", len(steps))](ctx); err != nil {
			return w, fmt.Errorf("step %d: %w", i, err)
		}
	}
	return w, nil
}

// namesSeeded plays histories from seeds, with LEDGER_SEED and LEDGER_SEEDS as above.
func namesSeeded(t *testing.T, n int, r namesRules) (counts map[string]int, found error) {
	t.Helper()
	first, last := uint64(1), uint64(n)
	if seed := fromEnv(t, "LEDGER_SEED"); seed != 0 {
		first, last = seed, seed
	} else if many := fromEnv(t, "LEDGER_SEEDS"); many != 0 {
		last = many
	}
	counts = map[string]int{}
	for seed := first; seed <= last; seed++ {
		random := rand.New(rand.NewPCG(seed, 1))
		w, err := namesHistory(t.Context(), r, func(_ string, n int) int { return random.IntN(n) })
		if err != nil {
			return counts, fmt.Errorf("LEDGER_SEED=%d: %w", seed, err)
		}
		for what, n := range w.counts {
			counts[what] += n
		}
	}
	return counts, nil
}

// Nodes register again, partitions change owners while decisions wait, documents are collected, the ledger is
// restored, and a later version writes: S1 by name, S2 to S4, S11, S12 and S16 hold in every history, and nothing
// of the later version is lost.
func TestNamesHoldAtEverySeed(t *testing.T) {
	counts, err := namesSeeded(t, namesSeeds, namesRules{})
	if err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{
		"registered again", "placed", "lost", "admitted", "bound", "handed over", "fenced", "collected", "too large",
		"of a later version", "backed up", "restored",
	} {
		if counts[what] < 25 {
			t.Errorf("%q happened %d times in all histories: they test too little (%v)", what, counts[what], counts)
		}
	}
	t.Log(counts)
}

// namesNeeded are the rules, with the invariant that breaks first without each. Violations that need a rarer
// coincidence than chance produces are found by test/model/names.
var namesNeeded = map[string]struct {
	rules namesRules
	found string
}{
	"the incarnation's compare": {namesRules{uncompared: ledger.PrefixIncarnation}, "S1"},
	"the floor":                 {namesRules{noFloor: true}, "S1"},
	"the epoch of a decision":   {namesRules{noEpoch: true}, "S"},
	"the grace":                 {namesRules{noGrace: true}, "S"},
}

func TestEachRuleOfNamesIsNeeded(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(namesNeeded)) {
		counts, err := namesSeeded(t, namesAblated, namesNeeded[name].rules)
		if err == nil {
			t.Errorf("without %s: no violation in %d histories (%v)", name, namesAblated, counts)
			continue
		}
		if !strings.Contains(err.Error(), ": "+namesNeeded[name].found) {
			t.Errorf("without %s: %v, want a violation of %s", name, err, namesNeeded[name].found)
		}
		t.Logf("without %s: %v", name, err)
	}
}
