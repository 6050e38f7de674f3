package sim

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var (
	seeds       = flag.Uint64("seeds", 120, "how many seeds to play")
	first       = flag.Uint64("first", 1, "the first seed")
	trace       = flag.Bool("trace", false, "print what happens (with -seeds=1)")
	mutantSeeds = flag.Uint64("mutant-seeds", 2000, "how many seeds may pass before a mutant is found")
	rareMutants = flag.Bool("rare-mutants", false, "also those that take more than a few dozen seeds to find")
	only        = flag.String("mutant", "", "take this part of the protocol away")
	enforce     = flag.Bool("enforce-coverage", false, "fail if something happens in too few seeds")
	budgets     = flag.Bool("budgets", false, "pods of several priorities and evictions compete for one budget")
	inFamily    = flag.String("family", "", "what all seeds are about (see families), instead of what each draws")
	commit      = flag.String("commit", "", "what is tested, for the message of a failure")
)

// leastShare is in how many of a hundred seeds everything must happen at least.
const leastShare = 1.0

// outcome is one seed's.
type outcome struct {
	seed   uint64
	report Report
	err    error
}

// play plays n seeds on all processors and hands the outcomes over in order, until each
// returns false.
func play(t *testing.T, n uint64, m Mutant, each func(outcome) bool) {
	t.Helper()
	chunk := uint64(4 * runtime.GOMAXPROCS(0))
	for from := *first; from < *first+n; from += chunk {
		outcomes := make([]outcome, min(chunk, *first+n-from))
		var group sync.WaitGroup
		next := make(chan int, len(outcomes))
		for i := range outcomes {
			next <- i
		}
		close(next)
		for range runtime.GOMAXPROCS(0) {
			group.Go(func() {
				for i := range next {
					seed := from + uint64(i)
					o := Options{Seed: seed, Mutant: m, Budgets: *budgets, Family: *inFamily}
					if *trace {
						o.Trace = func(line string) { fmt.Fprintln(os.Stdout, line) }
					}
					report, err := Run(t.Context(), o)
					outcomes[i] = outcome{seed, report, err}
				}
			})
		}
		group.Wait()
		for _, o := range outcomes {
			if !each(o) {
				return
			}
		}
	}
}

// replay is the line that plays one seed again.
func replay(seed uint64, m Mutant) string {
	line := fmt.Sprintf("make sim SEED=%d", seed)
	if *budgets {
		line = fmt.Sprintf("make sim-budgets SEED=%d", seed)
	}
	if m.Name != "" {
		line += " MUTANT=" + m.Name
	}
	if *inFamily != "" {
		line += " FAMILY=" + *inFamily
	}
	if *commit != "" {
		line += "    (at commit " + *commit + ")"
	}
	return line
}

func TestSimulation(t *testing.T) {
	m := mutant(t)
	hits, steps, bound := map[string]uint64{}, 0, 0
	begin := time.Now()
	play(t, *seeds, m, func(o outcome) bool {
		if o.err != nil {
			t.Errorf("seed %d: %v\nreplay: %s", o.seed, o.err, replay(o.seed, m))
			return false
		}
		for what := range o.report.Hits {
			hits[what]++
		}
		steps, bound = steps+o.report.Steps, bound+o.report.Bound
		return true
	})
	if t.Failed() {
		return
	}
	t.Logf("seeds %d to %d: %d steps, %d pods bound, in %.0f s",
		*first, *first+*seeds-1, steps, bound, time.Since(begin).Seconds())
	checkCoverage(t, hits)
}

// checkCoverage prints in how many seeds each event happened, and reports events that have not been met often enough,
// or that no list expects.
func checkCoverage(t *testing.T, hits map[string]uint64) {
	var table strings.Builder
	share := func(what string) float64 { return 100 * float64(hits[what]) / float64(*seeds) }
	goals := CoverageGoals()
	for _, what := range goals {
		fmt.Fprintf(&table, "\n  %5.1f %%  %s", share(what), what)
		if *enforce && share(what) < leastShare {
			t.Errorf("%q happened in %.2f %% of the seeds, want %.0f %%", what, share(what), leastShare)
		}
	}
	for _, what := range slices.Sorted(maps.Keys(hits)) {
		if !slices.Contains(goals, what) {
			t.Errorf("%q happened, and is not in Wanted", what)
		}
	}
	t.Logf("what happened, in how many of %d seeds:%s", *seeds, table.String())
}

func mutant(t *testing.T) Mutant {
	t.Helper()
	if *only == "" {
		return Mutant{}
	}
	for _, m := range Mutants() {
		if m.Name == *only {
			return m
		}
	}
	t.Fatalf("-mutant is %q, which there is not", *only)
	return Mutant{}
}

// Checks that find nothing when a part of the protocol is missing would find nothing at all.
func TestMutants(t *testing.T) {
	for _, m := range Mutants() {
		if (m.rare || m.harmless) && !*rareMutants {
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			var found *outcome
			play(t, *mutantSeeds, m, func(o outcome) bool {
				if o.err != nil {
					found = &o
				}
				return found == nil
			})
			switch {
			case m.harmless && found != nil:
				t.Fatalf("%s: said to be harmless: seed %d: %v", m.Missing, found.seed, found.err)
			case m.harmless:
				t.Logf("%s: harmless in %d seeds", m.Missing, *mutantSeeds)
				return
			case found == nil:
				t.Fatalf("%s: not found in %d seeds", m.Missing, *mutantSeeds)
			}
			t.Logf("%s: found by seed %d: %v", m.Missing, found.seed, found.err)
		})
	}
}

// The same seed is the same run, step by step, or no failure could be replayed.
func TestSameSeedSameRun(t *testing.T) {
	for seed := *first; seed < *first+5; seed++ {
		var runs [2][]string
		for i := range runs {
			_, err := Run(t.Context(), Options{Seed: seed, Trace: func(line string) { runs[i] = append(runs[i], line) }})
			if err != nil {
				t.Fatalf("seed %d: %v\nreplay: %s", seed, err, replay(seed, Mutant{}))
			}
		}
		if diff := cmp.Diff(runs[0], runs[1]); diff != "" {
			t.Fatalf("seed %d: two runs differ (-first +second):\n%s", seed, diff)
		}
	}
}
