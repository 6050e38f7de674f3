package ledgertest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// worldSteps is how much happens in one history.
const worldSteps = 300

func history(ctx context.Context, r rules, choose func(string, int) int) (*world, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := newWorld(ctx, r, choose)
	if err != nil {
		return nil, err
	}
	steps := w.steps()
	for i := range worldSteps {
		if err := steps[choose("step", len(steps))](ctx); err != nil {
			return w, fmt.Errorf("step %d: %w", i, err)
		}
	}
	return w, nil
}

// Shards with views that lag, crash and lose answers, binders whose binds arrive late and
// twice, fences that stop half-way: S1 to S4, S11 and S12 hold in every history.
func TestProtocolHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		_, err := history(context.Background(), rules{}, func(what string, n int) int {
			return rapid.IntRange(0, n-1).Draw(t, what)
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

// seeds of the tests below: many short histories find what one long does not. Set
// LEDGER_SEED to replay one.
const seeds = 2000

func seeded(t *testing.T, r rules) (counts map[string]int, found error) {
	t.Helper()
	first, last := uint64(1), uint64(seeds)
	if s := os.Getenv("LEDGER_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("LEDGER_SEED is %q, want a number", s)
		}
		first, last = seed, seed
	}
	counts = map[string]int{}
	for seed := first; seed <= last; seed++ {
		random := rand.New(rand.NewPCG(seed, 0))
		w, err := history(t.Context(), r, func(_ string, n int) int { return random.IntN(n) })
		if err != nil {
			return counts, fmt.Errorf("LEDGER_SEED=%d: %w", seed, err)
		}
		for what, n := range w.counts {
			counts[what] += n
		}
	}
	return counts, nil
}

func TestProtocolHoldsAtEverySeed(t *testing.T) {
	counts, err := seeded(t, rules{})
	if err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"placed", "lost", "unknown", "bound", "handed over", "fenced"} {
		if counts[what] < 100 {
			t.Errorf("%q happened %d times in all histories: they test too little (%v)", what, counts[what], counts)
		}
	}
	t.Log(counts)
}

// A checker that finds nothing when a rule is missing would find nothing at all.
func TestEachRuleIsNeeded(t *testing.T) {
	for name, r := range map[string]rules{
		"high-water":            {noHighWater: true},
		"resourceVersion":       {noPrecondition: true},
		"the fence's own write": {noFencePatch: true},
	} {
		counts, err := seeded(t, r)
		if err == nil {
			t.Errorf("without %s: no violation in %d histories (%v)", name, seeds, counts)
			continue
		}
		t.Logf("without %s: %v", name, err)
	}
}
