package ledgertest

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/registry"
	"github.com/berth-scheduler/berth/pkg/ledger/roster"
	_ "github.com/berth-scheduler/berth/pkg/seedtest" // seed of rapid
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// worldSteps is the number of steps in one history.
const worldSteps = 600

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

// Shards with views that lag, crash and lose answers, binders whose binds arrive late and twice, fences that stop
// half-way: S1 to S4, S11 and S12 hold in every history.
func TestProtocolHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		_, err := history(context.Background(), rules{commonTrait: drawTrait}, func(what string, n int) int {
			return rapid.IntRange(0, n-1).Draw(t, what)
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

// seeds of the tests below: many short histories find what one long history does not. Set LEDGER_SEED to replay
// one, LEDGER_SEEDS to run that many instead.
const seeds = 1000

// ablatedSeeds is how many histories may pass before a missing rule is detected.
const ablatedSeeds = 4000

func seeded(t *testing.T, n int, r rules) (counts map[string]int, found error) {
	t.Helper()
	first, last := uint64(1), uint64(n)
	if seed := fromEnv(t, "LEDGER_SEED"); seed != 0 {
		first, last = seed, seed
	} else if many := fromEnv(t, "LEDGER_SEEDS"); many != 0 {
		last = many
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

// fromEnv returns a number from the environment, 0 if there is none.
func fromEnv(t *testing.T, name string) uint64 {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return 0
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatalf("%s is %q, want a number", name, s)
	}
	return n
}

func TestProtocolHoldsAtEverySeed(t *testing.T) {
	counts, err := seeded(t, seeds, rules{commonTrait: drawTrait})
	if err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{
		"placed", "lost", "unknown", "bound", "handed over", "fenced", "nominated", "formed", "extended", "finished",
		"marked", "evicted", "eviction failed", "promoted", "displaced", "aborted", "settled", "moved", "taken over",
		"swept", "pinned", "volume let go", "record dropped",
	} {
		if counts[what] < 25 {
			t.Errorf("%q happened %d times in all histories: they test too little (%v)", what, counts[what], counts)
		}
	}
	for _, what := range []string{
		"placed", "nominated", "formed", "extended", "finished", "marked", "promoted", "displaced", "aborted", "settled",
		"moved", "swept", "volume let go", "record dropped",
	} {
		if counts[what+": lost"] < 3 {
			t.Errorf("%q was lost %d times in all histories: they test too little (%v)", what, counts[what+": lost"], counts)
		}
	}
	t.Log(counts)
}

// needed are the rules, with the invariant that breaks first without each.
var needed = map[string]struct {
	rules rules
	found string
}{
	"high-water":            {rules{noHighWater: true, commonTrait: drawTrait}, "S1"},
	"resourceVersion":       {rules{noPrecondition: true, commonTrait: drawTrait}, "S2"},
	"the fence's own write": {rules{noFencePatch: true, commonTrait: drawTrait}, "S2"},

	"the epoch":                {without(drawTrait, claimRules{uncompared: roster.PrefixOwn}), "S11"},
	"guards":                   {without("x", claimRules{uncompared: registry.PrefixGuard}), "S7"},
	"the budget's compare":     {without("c", claimRules{uncompared: ledger.PrefixBudget}), "S"},
	"the volume's compare":     {without("v", claimRules{uncompared: ledger.PrefixVolume}), "S"},
	"the record and its hold":  {without("", claimRules{uncompared: ledger.PrefixPlan, noOwner: true}), "S9"},
	"one plan per victim":      {without("", claimRules{noClaimCheck: true}), "S5"},
	"pins":                     {without("", claimRules{noPinCheck: true}), "S5"},
	"what a budget shows":      {without("c", claimRules{noBudgetCount: true}), "S6"},
	"the budget's high-water":  {without("c", claimRules{noSettleRaise: true}), "S6"},
	"the now-test":             {without("", claimRules{noNowTest: true}), "S"},
	"the larger of each plan":  {without("", claimRules{noLarger: true}), "S1"},
	"priority":                 {without("", claimRules{noPriority: true}), "S10"},
	"the mark before evicting": {without("", claimRules{noMark: true}), "S5"},
	"the volume's high-water":  {without("v", claimRules{noHoldRaise: true}), "S7"},
}

// without returns a protocol with parts removed, in histories of the fashion that reveals it.
func without(commonTrait string, r claimRules) rules {
	return rules{claimRules: r, commonTrait: commonTrait}
}

// A checker that finds nothing when a rule is missing would never find anything.
func TestEachRuleIsNeeded(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(needed)) {
		counts, err := seeded(t, ablatedSeeds, needed[name].rules)
		if err == nil {
			t.Errorf("without %s: no violation in %d histories (%v)", name, ablatedSeeds, counts)
			continue
		}
		if !strings.Contains(err.Error(), ": "+needed[name].found) {
			t.Errorf("without %s: %v, want a violation of %s", name, err, needed[name].found)
		}
		t.Logf("without %s: %v", name, err)
	}
}

// Two rules are redundant on purpose: the other half of each pair is enough. A budget may be settled before its
// status shows the eviction, because the high-water it leaves keeps every member from using it until the status
// does. The compare of a record is doubled by that of the hold's document, which every abort and displacement
// changes.
func TestDoubledRules(t *testing.T) {
	for name, r := range map[string]rules{
		"waiting for the status": without("c", claimRules{noSettleWait: true}),
		"the record's compare":   without("", claimRules{uncompared: ledger.PrefixPlan}),
	} {
		if _, err := seeded(t, seeds/2, r); err != nil {
			t.Errorf("without %s: %v", name, err)
		}
	}
}
