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
