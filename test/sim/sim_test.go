package sim

import (
	"flag"
	"fmt"
	"testing"
)

var (
	seeds = flag.Uint64("seeds", 100, "how many seeds to run")
	first = flag.Uint64("first", 1, "the first of them")
	trace = flag.Bool("trace", false, "print what happens")
)

func TestSimulation(t *testing.T) {
	hits := map[string]int{}
	for seed := *first; seed < *first+*seeds; seed++ {
		o := Options{Seed: seed}
		if *trace {
			o.Trace = func(line string) { fmt.Println(line) }
		}
		r, err := Run(t.Context(), o)
		for what := range r.Hits {
			hits[what]++
		}
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if *trace {
			t.Logf("seed %d: %d steps, %s, %d bound", seed, r.Steps, r.Virtual, r.Bound)
		}
	}
	for what, n := range hits {
		t.Logf("%6.1f%% %s", 100*float64(n)/float64(*seeds), what)
	}
}

var (
	mutantSeeds = flag.Uint64("mutant-seeds", 300, "seeds for each mutant")
	only        = flag.String("mutant", "", "only this one")
)

func TestMutants(t *testing.T) {
	dumpWorld = nil
	for _, m := range Mutants() {
		if *only != "" && *only != m.Name {
			continue
		}
		var found error
		seed := *first
		for ; seed < *first+*mutantSeeds && found == nil; seed++ {
			_, found = Run(t.Context(), Options{Seed: seed, Mutant: m})
		}
		t.Logf("%-20s seed %d: %v", m.Name, seed-1, found)
		if found == nil {
			t.Errorf("%s was not found", m.Name)
		}
	}
}
