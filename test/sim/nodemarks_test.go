package sim

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// However processes die while nodes have marks for cluster autoscalers, none is left when nothing is withheld or
// promised any more. Nodes are deleted and register again with their marks, and Kubernetes is restored with them.
func TestNodeMarks(t *testing.T) {
	for _, f := range []family{ordinary, moved, claimed, registered, storeReplaced} {
		t.Run(string(f), func(t *testing.T) {
			hits := map[string]int{}
			for seed := *first; seed < *first+max(*seeds/10, 4); seed++ {
				report, err := Run(t.Context(), Options{Seed: seed, Family: string(f), Marks: true})
				if err != nil {
					t.Fatalf("seed %d: %v\nreplay: go test ./test/sim -run 'TestNodeMarks/%s' -first %d", seed, err, f, seed)
				}
				t.Logf("virtual %s steps %d", report.Virtual, report.Steps)
				for what, n := range report.Hits {
					hits[what] += n
				}
			}
			for _, what := range slices.Sorted(maps.Keys(hits)) {
				if strings.HasPrefix(what, "node marked") {
					t.Logf("%s: %d times", what, hits[what])
				}
			}
			if f == moved && (hits["node marked: none"] == 0 || hits["node marked: kept"] == 0) {
				t.Error("no node was marked, so nothing was tested")
			}
		})
	}
}
